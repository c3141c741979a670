//! The writing half of a socket: sends output and replies to the client, in order, as fast as the client takes them.
//!
//! Three types pace it: [`SendWindow`] limits what the client has not acknowledged, [`PingProbe`] measures what has
//! arrived, and [`FloodDetector`] batches floods of output.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use outlive_core::attach::{Size, SizePolicy};
use outlive_core::log::{Cursor, Item};
use outlive_core::process::Process;
use outlive_core::screen::Repaint;
use tokio::sync::mpsc;
use tokio::time::Interval;

use super::{AfterGap, Frames, MAX_FRAME_BYTES, SocketProtocol, WriterCommand, close_frame};
use crate::http::{AppState, BudgetShare};

/// How long the last frames may take. An eviction ends earlier, after `EVICTION_TIMEOUT`.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Items of the log that are sent before pings of the client and the end of the process are checked again.
const MAX_BATCHED_FRAMES: usize = 64;
/// A client that is further behind than this gets the screen instead of the output that leads to it when its user
/// types. A browser draws about this much in 50 ms.
const MAX_TYPING_LAG_BYTES: u64 = 128 * 1024;

type EffectiveSize = (Option<Size>, Option<SizePolicy>);

pub(super) enum ConnectionEnd {
    /// The client has everything it wanted.
    Complete,
    /// The client may come back for the rest.
    Lost,
}

/// The connection is closed or broken.
struct Disconnected;

/// `Break` ends the connection.
type SendResult<T = ()> = Result<ControlFlow<ConnectionEnd, T>, Disconnected>;

const CONTINUE: SendResult = Ok(ControlFlow::Continue(()));

pub(super) struct Writer<'a, P> {
    pub(super) app: &'a AppState,
    pub(super) process: &'a Arc<Process>,
    pub(super) protocol: &'a P,
    pub(super) sink: SplitSink<WebSocket, Message>,
    pub(super) commands: mpsc::Receiver<WriterCommand>,
    pub(super) probe: PingProbe,
    pub(super) window: SendWindow,
}

impl<P: SocketProtocol> Writer<'_, P> {
    pub(super) async fn run(&mut self, cursor: &mut Cursor, screen: Option<(Repaint, BudgetShare)>) -> ConnectionEnd {
        self.send_until_end(cursor, screen).await.unwrap_or(ConnectionEnd::Lost)
    }

    async fn send_until_end(
        &mut self,
        cursor: &mut Cursor,
        screen: Option<(Repaint, BudgetShare)>,
    ) -> Result<ConnectionEnd, Disconnected> {
        if let Some(ready) = self.protocol.ready_frame(cursor) {
            self.send(ready).await?;
        }
        if let Some((repaint, _share)) = screen {
            self.send_repaint(repaint).await?;
        }
        let mut size = self.process.effective_size();
        let mut flood = FloodDetector::new(cursor.offset());
        // A client is given three pings before it counts as dead.
        let mut keep_alive = tokio::time::interval(Duration::from_millis(self.app.limits.socket_timeout_ms / 3));
        keep_alive.reset();
        loop {
            let is_drained = match self.send_available(cursor).await? {
                ControlFlow::Continue(is_drained) => is_drained,
                ControlFlow::Break(end) => return Ok(end),
            };
            self.sink.flush().await.map_err(|_| Disconnected)?;
            let pause = if is_drained { flood.pause(cursor) } else { None };
            if let ControlFlow::Break(end) = self.wait_and_send(cursor, pause, &mut size, &mut keep_alive).await? {
                return Ok(end);
            }
        }
    }

    /// Queues the output that is in memory, at most [`MAX_BATCHED_FRAMES`] so that pings and the end of the process get
    /// their turn during a flood. `true` if memory has nothing more.
    async fn send_available(&mut self, cursor: &mut Cursor) -> SendResult<bool> {
        let mut is_drained = false;
        for _ in 0..MAX_BATCHED_FRAMES {
            let available = self.window.available(cursor.offset());
            if available == 0 {
                break;
            }
            let Some(item) = cursor.try_next(available) else {
                is_drained = true;
                break;
            };
            if let ControlFlow::Break(end) = self.send_item(cursor, item).await? {
                return Ok(ControlFlow::Break(end));
            }
            self.probe(cursor).await?;
            while let Ok(command) = self.commands.try_recv() {
                if let ControlFlow::Break(end) = self.handle_command(cursor, command).await? {
                    return Ok(ControlFlow::Break(end));
                }
            }
        }
        self.probe(cursor).await?;
        Ok(ControlFlow::Continue(is_drained))
    }

    /// Waits for output, a command, a new size or the end of the connection, and sends what follows from it.
    async fn wait_and_send(
        &mut self,
        cursor: &mut Cursor,
        pause: Option<Duration>,
        size: &mut EffectiveSize,
        keep_alive: &mut Interval,
    ) -> SendResult {
        let available = self.window.available(cursor.offset());
        let next_item = async {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            match available {
                // Until the client acknowledges something.
                0 => std::future::pending().await,
                available => cursor.next(available).await,
            }
        };
        tokio::select! {
            item = next_item => self.send_item(cursor, item).await,
            Some(command) = self.commands.recv() => self.handle_command(cursor, command).await,
            new = resized(self.process, *size) => {
                *size = new;
                if let Some(frame) = self.protocol.resized_frame(new.0) {
                    self.send(frame).await?;
                }
                CONTINUE
            }
            _ = keep_alive.tick() => {
                self.send(Message::Ping(Bytes::new())).await?;
                CONTINUE
            }
            () = self.process.wait_removed() => {
                Ok(self.close(vec![self.protocol.deleted_frame()], ConnectionEnd::Complete).await)
            }
            last = self.protocol.until_evicted() => Ok(self.close(vec![last], ConnectionEnd::Complete).await),
            () = self.app.until_shutdown() => {
                let frame = close_frame(1012, "the server is being replaced; reconnect at your offset");
                Ok(self.close(vec![frame], ConnectionEnd::Lost).await)
            }
        }
    }

    async fn send_item(&mut self, cursor: &mut Cursor, item: Item) -> SendResult {
        outlive_core::crash_point::reach("mid_write");
        match item {
            Item::Bytes { stream, bytes, .. } => match self.protocol.output_frames(stream, bytes) {
                Frames::One(frame) => self.feed(frame).await?,
                Frames::Several(frames) => {
                    for frame in frames {
                        self.feed(frame).await?;
                    }
                }
            },
            Item::Gap { from_offset, to_offset } => return self.send_gap(cursor, from_offset, to_offset).await,
            Item::BecameLive => {
                if let Some(frame) = self.protocol.became_live_frame() {
                    self.send(frame).await?;
                }
            }
            Item::Exit(exit) => {
                self.process.sync_exit_from_log();
                return Ok(self.close(self.protocol.exit_frames(&exit), ConnectionEnd::Complete).await);
            }
            Item::End => {
                let frame = close_frame(1000, "the output ends here: this log is no longer in memory");
                return Ok(self.close(vec![frame], ConnectionEnd::Complete).await);
            }
        }
        CONTINUE
    }

    async fn send_gap(&mut self, cursor: &mut Cursor, from: u64, to: u64) -> SendResult {
        let screen = self.screen_after_gap(to).await;
        let to = screen.as_ref().map_or(to, |(screen, _)| screen.offset);
        match self.protocol.gap_frames(from, to) {
            AfterGap::Continue(frame) => {
                // The overwritten bytes were never in flight.
                self.window.acknowledged += to - from;
                self.send(frame).await?;
            }
            AfterGap::Close(frames) => return Ok(self.close(frames, ConnectionEnd::Complete).await),
        }
        if let Some(screen) = screen {
            self.continue_after_screen(cursor, screen).await?;
        }
        CONTINUE
    }

    /// Skips to the current screen if a client whose user types is far behind.
    async fn skip_to_screen(&mut self, cursor: &mut Cursor) -> Result<(), Disconnected> {
        let from = cursor.offset();
        if cursor.log().head().saturating_sub(from) < MAX_TYPING_LAG_BYTES {
            return Ok(());
        }
        let Some(screen) = self.screen_after_gap(from).await else { return Ok(()) };
        let AfterGap::Continue(gap) = self.protocol.gap_frames(from, screen.0.offset) else { return Ok(()) };
        self.send(gap).await?;
        self.continue_after_screen(cursor, screen).await
    }

    /// The current screen of a terminal, if this client can be sent one that is not older than `to`.
    async fn screen_after_gap(&self, to: u64) -> Option<(Repaint, BudgetShare)> {
        let scrollback = self.protocol.scrollback_after_gap().filter(|_| self.process.is_terminal())?;
        let screen = tokio::select! {
            screen = self.process.repaint(scrollback) => screen.ok()?,
            // The caller's next wait sees both of these again.
            () = self.process.wait_removed() => return None,
            () = self.app.until_shutdown() => return None,
        };
        let share = self.app.send_budget.share(screen.bytes.len())?;
        (screen.offset >= to).then_some((screen, share))
    }

    /// A screen replaces all output before it, including bytes in flight, which therefore count as acknowledged.
    async fn continue_after_screen(
        &mut self,
        cursor: &mut Cursor,
        (screen, _share): (Repaint, BudgetShare),
    ) -> Result<(), Disconnected> {
        cursor.skip_to(screen.offset);
        self.window.acknowledged = self.window.acknowledged.max(screen.offset);
        self.send_repaint(screen).await
    }

    async fn send_repaint(&mut self, screen: Repaint) -> Result<(), Disconnected> {
        for frame in self.protocol.repaint_frames(screen) {
            self.feed(frame).await?;
        }
        self.sink.flush().await.map_err(|_| Disconnected)
    }

    async fn handle_command(&mut self, cursor: &mut Cursor, command: WriterCommand) -> SendResult {
        match command {
            WriterCommand::Send(frame) => self.send(frame).await?,
            WriterCommand::Acknowledge(offset) => {
                self.probe.disabled = true;
                self.window.acknowledged = self.window.acknowledged.max(offset.min(cursor.offset()));
                cursor.acknowledge(offset);
            }
            WriterCommand::Pong(offset) if self.probe.accepts(offset) => cursor.acknowledge(offset),
            WriterCommand::Pong(_) | WriterCommand::Nothing => {}
            WriterCommand::InputWritten => self.skip_to_screen(cursor).await?,
            WriterCommand::Close(frame) => return Ok(self.close(vec![frame], ConnectionEnd::Complete).await),
        }
        CONTINUE
    }

    async fn probe(&mut self, cursor: &Cursor) -> Result<(), Disconnected> {
        match self.probe.due_ping(cursor) {
            Some(ping) => self.feed(ping).await,
            None => Ok(()),
        }
    }

    /// Queues a frame; the caller flushes.
    async fn feed(&mut self, frame: Message) -> Result<(), Disconnected> {
        self.sink.feed(frame).await.map_err(|_| Disconnected)
    }

    async fn send(&mut self, frame: Message) -> Result<(), Disconnected> {
        self.sink.send(frame).await.map_err(|_| Disconnected)
    }

    /// Sends the last frames, within [`CLOSE_TIMEOUT`].
    async fn close<T>(&mut self, frames: Vec<Message>, end: ConnectionEnd) -> ControlFlow<ConnectionEnd, T> {
        let send_all = async {
            for frame in frames {
                self.send(frame).await?;
            }
            Ok::<(), Disconnected>(())
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, send_all).await;
        ControlFlow::Break(end)
    }
}

/// Waits until the size, or the policy that determines it, changes.
async fn resized(process: &Process, from: EffectiveSize) -> EffectiveSize {
    process.wait_for(|process| Some(process.effective_size()).filter(|size| *size != from)).await
}

// ---- pacing ----

/// Limits the bytes that a client has not acknowledged. Clients such as browsers need it: they read everything from
/// their connection, however much they have not displayed yet.
pub(super) struct SendWindow {
    /// `None` for no limit.
    pub(super) bytes: Option<u64>,
    pub(super) acknowledged: u64,
}

impl SendWindow {
    /// How many bytes may be sent now, for a client that has been sent everything before `offset`.
    pub(super) fn available(&self, offset: u64) -> usize {
        let Some(bytes) = self.bytes else { return MAX_FRAME_BYTES };
        let in_flight = offset.saturating_sub(self.acknowledged);
        usize::try_from(bytes.saturating_sub(in_flight)).unwrap_or(MAX_FRAME_BYTES).min(MAX_FRAME_BYTES)
    }
}

/// Acknowledges output by WebSocket pings for clients that send no acknowledgements of their own: a pong means that
/// everything before the ping has arrived. Bytes in flight when a connection breaks are lost, and a lossless client
/// comes back for them.
#[derive(Default)]
pub(super) struct PingProbe {
    /// The offset of the last ping.
    last: u64,
    /// The client acknowledges by itself, which is more precise.
    pub(super) disabled: bool,
}

impl PingProbe {
    /// Pings per length of the log's window, so that unacknowledged bytes stay a small part of the ring.
    const PINGS_PER_WINDOW: u64 = 8;

    /// A ping that carries the cursor's offset, if one is due.
    pub(super) fn due_ping(&mut self, cursor: &Cursor) -> Option<Message> {
        let due = self.last + cursor.log().window() / Self::PINGS_PER_WINDOW;
        if self.disabled || !cursor.is_lossless() || cursor.offset() < due {
            return None;
        }
        self.last = cursor.offset();
        Some(Message::Ping(Bytes::copy_from_slice(&self.last.to_be_bytes())))
    }

    /// The offset that a pong carries.
    pub(super) fn parse_pong(message: &Message) -> Option<u64> {
        let Message::Pong(bytes) = message else { return None };
        Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?))
    }

    /// Whether a pong acknowledges output. A made-up offset beyond the last ping does not.
    pub(super) fn accepts(&self, offset: u64) -> bool {
        !self.disabled && offset <= self.last
    }
}

/// Detects a flood of output, during which a short pause gathers what would arrive in hundreds of small frames. The
/// first bytes after silence and the echo of a keystroke are never delayed.
struct FloodDetector {
    since: Instant,
    from: u64,
    is_flood: bool,
}

impl FloodDetector {
    /// The rate is measured over this time.
    const INTERVAL: Duration = Duration::from_millis(10);
    /// A measurement that took longer than this included silence, and says nothing about a flood.
    const SILENCE: Duration = Duration::from_millis(50);
    /// A flood prints at least this much per interval.
    const MIN_FLOOD_BYTES: u64 = 128 << 10;
    const BATCH_PAUSE: Duration = Duration::from_millis(1);
    /// A log with a smaller window would fill up during the pause, and the program would wait.
    const MIN_LOG_WINDOW_BYTES: u64 = 1 << 20;

    pub(super) fn new(offset: u64) -> Self {
        Self { since: Instant::now(), from: offset, is_flood: false }
    }

    /// The pause before more output is read.
    pub(super) fn pause(&mut self, cursor: &Cursor) -> Option<Duration> {
        self.measure(cursor.offset(), self.since.elapsed());
        (self.is_flood && cursor.log().window() >= Self::MIN_LOG_WINDOW_BYTES).then_some(Self::BATCH_PAUSE)
    }

    fn measure(&mut self, offset: u64, elapsed: Duration) {
        if elapsed < Self::INTERVAL {
            return;
        }
        let bytes = offset.saturating_sub(self.from);
        let is_flood = elapsed < Self::SILENCE && bytes >= Self::MIN_FLOOD_BYTES;
        *self = Self { since: Instant::now(), from: offset, is_flood };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_flight_never_exceed_the_window() {
        let mut window = SendWindow { bytes: Some(100_000), acknowledged: 5 };
        assert_eq!(window.available(5), MAX_FRAME_BYTES);
        assert_eq!(window.available(100_000), 5);
        assert_eq!(window.available(100_005), 0);
        assert_eq!(window.available(100_006), 0);
        window.acknowledged = 1_000;
        assert_eq!(window.available(100_005), 995);
        window.bytes = None;
        assert_eq!(window.available(u64::MAX), MAX_FRAME_BYTES);
    }

    #[test]
    fn only_a_flood_is_delayed() {
        let mut detector = FloodDetector::new(0);
        let ms = Duration::from_millis;
        detector.measure(10_000_000, ms(5));
        assert!(!detector.is_flood, "the interval is not over");
        detector.measure(10_000_000, ms(10));
        assert!(detector.is_flood);
        detector.measure(10_000_100, ms(12));
        assert!(!detector.is_flood, "a person types");
        detector.measure(20_000_000, ms(2_000));
        assert!(!detector.is_flood, "the first output after silence");
    }
}
