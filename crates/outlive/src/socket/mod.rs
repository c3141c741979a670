//! The engine behind every terminal socket, whatever language its client speaks.
//!
//! ```text
//!   log ──Cursor──▶ write ──▶ client      `Speech` turns items into frames …
//!                     ▲ replies
//!   process ◀── read ─┘ ◀──── client      … and frames into calls
//! ```
//!
//! The two halves run side by side, so that a client which does not read can still type, and be closed. What the
//! reading half has to say goes through a short queue to the writing half. Nothing else is buffered: the
//! writing half pulls from the log when the client takes more.

mod asked;
mod credit;
mod flood;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use outlive_core::attach::{Size, SizePolicy};
use outlive_core::log::{Cursor, Exit, Item, Stream};
use outlive_core::process::Process;
use outlive_core::screen::Repaint;
use tokio::sync::mpsc;

use self::asked::Asked;
use self::credit::Credit;
use self::flood::Flood;
use crate::api::App;
use crate::settings::Limits;

/// Largest frame that is sent; clients have small limits. One byte is left for a stream's number.
pub(crate) const FRAME_BYTES: usize = 64 * 1024 - 1;
/// How long a last word may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// How long one who is dismissed may take to hear of it.
const FAREWELL: Duration = Duration::from_millis(200);
/// Frames that go out before everything else is looked at again.
const MOST_GATHERED: usize = 64;
/// So far behind, a client that wants the present is shown the screen instead of what leads to it.
const FAR_BEHIND: u64 = 512 * 1024;
/// For so long after a key the answer to it may come.
const PRESENT: Duration = Duration::from_secs(1);
/// Replies that may wait for a client which does not read.
const MAX_REPLIES: usize = 64;

type RulingSize = (Option<Size>, Option<SizePolicy>);

/// What the reading half wants of the writing half.
pub(crate) enum Reply {
    Nothing,
    Send(Message),
    /// The client says that it has everything before this offset.
    Acknowledge(u64),
    /// It has answered a ping that was sent after everything before this offset.
    Answered(u64),
    /// The client wants to end in an orderly way.
    Close(Message),
}

/// What output becomes in a client's language.
pub(crate) enum Frames {
    One(Message),
    /// Also none: where a language has whole characters, the rest of one may have to come first.
    Several(Vec<Message>),
}

impl From<Message> for Frames {
    fn from(frame: Message) -> Self {
        Self::One(frame)
    }
}

/// What follows a gap.
pub(crate) enum AfterGap {
    Say(Message),
    /// The client's language has no word for it: say what it can, and end.
    End(Vec<Message>),
}

/// A client's language.
pub(crate) trait Speech: Send + Sync {
    fn ready(&self, cursor: &Cursor) -> Option<Message>;
    fn bytes(&self, stream: Stream, bytes: Bytes) -> Frames;
    fn gap(&self, from: u64, to: u64) -> AfterGap;
    /// What is sent of a terminal that was drawn anew, before the log goes on; empty: this language has no words for it.
    fn repaint(&self, repaint: Repaint) -> Vec<Message> {
        let _ = repaint;
        Vec::new()
    }
    /// The lines above the screen that a terminal is drawn anew with after a gap; `None`: it is not.
    fn repaints_after_gap(&self) -> Option<usize> {
        None
    }
    /// Somebody has typed since this was asked last, and waits to see what comes of it: what was printed before is worth less than
    /// what is shown now.
    fn wants_the_present(&self) -> bool {
        false
    }
    /// How many bytes may be under way that the client has not acknowledged; `None`: as many as its connection takes.
    fn window(&self) -> Option<u64> {
        None
    }
    /// It reads too slowly: from here on the program does not wait.
    fn became_live(&self) -> Option<Message> {
        None
    }
    fn resized(&self, size: Option<Size>) -> Option<Message> {
        let _ = size;
        None
    }
    /// The frames at the end, the close frame last.
    fn exit(&self, exit: &Exit) -> Vec<Message>;
    fn deleted(&self) -> Message;
    fn understand(&self, message: Message) -> impl Future<Output = Reply> + Send;
    /// Resolves, with its last frame, when this client has to go although everything else goes on. It need not read it: nobody
    /// waits for it, the program least of all.
    fn dismissed(&self) -> impl Future<Output = Message> + Send {
        std::future::pending()
    }
}

/// Messages that are larger than allowed are not taken.
pub(crate) fn limited(socket: WebSocketUpgrade, limits: &Limits) -> WebSocketUpgrade {
    // What clients send is mostly a keystroke, and the buffer is cleared for every read.
    const READ_BYTES: usize = 4096;
    let most = usize::try_from(limits.max_message_bytes).unwrap_or(usize::MAX);
    socket.read_buffer_size(READ_BYTES).max_message_size(most).max_frame_size(most)
}

pub(crate) fn close(code: u16, reason: &'static str) -> Message {
    Message::Close(Some(CloseFrame { code, reason: reason.into() }))
}

enum Ended {
    /// The client needs nothing more.
    Orderly,
    /// It may come back for the rest.
    Lost,
}

/// Serves one client until it, the process or this server ends.
pub(crate) async fn serve<S: Speech>(app: App, process: Arc<Process>, speech: S, cursor: Cursor, socket: WebSocket) {
    serve_from(app, process, speech, cursor, None, socket).await;
}

/// The same, for one who is first shown a screen. The cursor is where that is true.
pub(crate) async fn serve_from<S: Speech>(
    app: App,
    process: Arc<Process>,
    speech: S,
    mut cursor: Cursor,
    screen: Option<Repaint>,
    socket: WebSocket,
) {
    let (sink, mut stream) = socket.split();
    let (replies, queue) = mpsc::channel(MAX_REPLIES);
    let dead_after = Duration::from_millis(app.limits.socket_timeout_ms);
    let credit = Credit { window: speech.window(), acknowledged: cursor.offset() };
    let mut writer =
        Writer { app: &app, process: &process, speech: &speech, sink, queue, asked: Asked::default(), credit };
    let said_goodbye = AtomicBool::new(false);
    let ended = tokio::select! {
        ended = writer.run(&mut cursor, screen) => Some(ended),
        () = read(&speech, &mut stream, replies, dead_after, &said_goodbye) => None,
        () = dismissed(&speech) => return cursor.close(),
    };
    // In the midst of a flood, the writing half may find the connection closed before it hears that the client wanted that.
    if matches!(ended, Some(Ended::Orderly)) || said_goodbye.load(Relaxed) {
        cursor.close();
    } else {
        drop(cursor);
    }
    let Writer { sink: _sink, .. } = writer;
    drop(speech);
    if ended.is_some() {
        // To close while something it said is unread would reset the connection, and take away what it has not read.
        let listen = async { while let Some(Ok(_)) = stream.next().await {} };
        let _ = tokio::time::timeout(dead_after, listen).await;
    }
}

/// Returns when a client that has to go has had the time to be told.
async fn dismissed<S: Speech>(speech: &S) {
    speech.dismissed().await;
    tokio::time::sleep(FAREWELL).await;
}

/// Returns when the client is gone.
async fn read<S: Speech>(
    speech: &S,
    stream: &mut SplitStream<WebSocket>,
    replies: mpsc::Sender<Reply>,
    dead_after: Duration,
    said_goodbye: &AtomicBool,
) {
    let mut last_sign = Instant::now();
    loop {
        let patience = dead_after.saturating_sub(last_sign.elapsed());
        let message = match tokio::time::timeout(patience, stream.next()).await {
            Ok(Some(Err(error))) if is_too_large(&error) => None,
            Ok(Some(Ok(message))) => Some(message),
            _ => return,
        };
        last_sign = Instant::now();
        let reply = match message {
            None => Reply::Close(close(1009, "the message is too large")),
            Some(message) => match Asked::offset_of(&message) {
                Some(offset) => Reply::Answered(offset),
                None => speech.understand(message).await,
            },
        };
        match reply {
            Reply::Nothing => {}
            // A client that does not read its error frames loses them, not us our memory; and the answer to the
            // next ping says more than this one.
            reply @ (Reply::Send(_) | Reply::Answered(_)) => drop(replies.try_send(reply)),
            reply @ Reply::Acknowledge(_) => {
                if replies.send(reply).await.is_err() {
                    return;
                }
            }
            reply @ Reply::Close(_) => {
                said_goodbye.store(true, Relaxed);
                if replies.send(reply).await.is_ok() {
                    // The writing half ends the connection.
                    replies.closed().await;
                }
                return;
            }
        }
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    use tokio_tungstenite::tungstenite::Error;
    let inner = std::error::Error::source(error).and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(Error::Capacity(_)))
}

struct Writer<'a, S> {
    app: &'a App,
    process: &'a Arc<Process>,
    speech: &'a S,
    sink: SplitSink<WebSocket, Message>,
    queue: mpsc::Receiver<Reply>,
    asked: Asked,
    credit: Credit,
}

/// The client is gone.
struct Gone;

impl<S: Speech> Writer<'_, S> {
    async fn run(&mut self, cursor: &mut Cursor, screen: Option<Repaint>) -> Ended {
        self.work(cursor, screen).await.unwrap_or(Ended::Lost)
    }

    async fn work(&mut self, cursor: &mut Cursor, screen: Option<Repaint>) -> Result<Ended, Gone> {
        if let Some(ready) = self.speech.ready(cursor) {
            self.send(ready).await?;
        }
        if let Some(repaint) = screen {
            self.paint(repaint).await?;
        }
        let mut size = self.process.ruling_size();
        let mut typed: Option<Instant> = None;
        let mut flood = Flood::new(cursor.offset());
        // Three tries before the peer is taken for dead.
        let ping_every = Duration::from_millis(self.app.limits.socket_timeout_ms / 3);
        let mut ping = tokio::time::interval(ping_every);
        ping.reset();
        loop {
            if self.speech.wants_the_present() {
                typed = Some(Instant::now());
            }
            if typed.is_some_and(|at| at.elapsed() < PRESENT) {
                self.skip_ahead(cursor).await?;
            }
            // What can be sent at once is gathered; what is gathered goes out before we sleep.
            // Only so much at a time: under a flood, pings and the end of things must have their turn too.
            let mut is_drained = false;
            for _ in 0..MOST_GATHERED {
                let room = self.credit.room(cursor.offset());
                if room == 0 {
                    break;
                }
                let Some(item) = cursor.try_next(room) else {
                    is_drained = true;
                    break;
                };
                outlive_core::hooks::reach("mid_write");
                if let Some(ended) = self.give(cursor, item).await? {
                    return Ok(ended);
                }
                if let Some(ping) = self.asked.ping(cursor) {
                    self.sink.feed(ping).await.map_err(|_| Gone)?;
                }
                while let Ok(reply) = self.queue.try_recv() {
                    if let Some(ended) = self.reply(cursor, reply).await? {
                        return Ok(ended);
                    }
                }
            }
            if let Some(ping) = self.asked.ping(cursor) {
                self.sink.feed(ping).await.map_err(|_| Gone)?;
            }
            self.sink.flush().await.map_err(|_| Gone)?;
            let rest = if is_drained { flood.rest(cursor) } else { None };
            let room = self.credit.room(cursor.offset());
            let next = async {
                if let Some(rest) = rest {
                    tokio::time::sleep(rest).await;
                }
                match room {
                    // Until it says that it has got something.
                    0 => std::future::pending().await,
                    room => cursor.next(room).await,
                }
            };
            let ended = tokio::select! {
                item = next => self.give(cursor, item).await?,
                Some(reply) = self.queue.recv() => self.reply(cursor, reply).await?,
                new = resized(self.process, size) => {
                    size = new;
                    if let Some(frame) = self.speech.resized(new.0) {
                        self.send(frame).await?;
                    }
                    None
                }
                _ = ping.tick() => {
                    self.send(Message::Ping(Bytes::new())).await?;
                    None
                }
                () = self.process.until_removed() => {
                    self.last_words(vec![self.speech.deleted()]).await;
                    Some(Ended::Orderly)
                }
                last = self.speech.dismissed() => {
                    self.last_words(vec![last]).await;
                    Some(Ended::Orderly)
                }
                () = self.app.ended() => {
                    self.last_words(vec![close(1012, "the server is being replaced; reconnect at your offset")]).await;
                    Some(Ended::Lost)
                }
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    async fn give(&mut self, cursor: &mut Cursor, item: Item) -> Result<Option<Ended>, Gone> {
        match item {
            Item::Bytes { stream, bytes, .. } => match self.speech.bytes(stream, bytes) {
                Frames::One(frame) => self.sink.feed(frame).await.map_err(|_| Gone)?,
                Frames::Several(frames) => {
                    for frame in frames {
                        self.sink.feed(frame).await.map_err(|_| Gone)?;
                    }
                }
            },
            Item::Gap { from, to } => {
                let screen = self.screen_after_gap(to).await;
                let to = screen.as_ref().map_or(to, |screen| screen.offset);
                match self.speech.gap(from, to) {
                    AfterGap::Say(frame) => {
                        // What is gone was never under way.
                        self.credit.acknowledged += to - from;
                        self.send(frame).await?;
                    }
                    AfterGap::End(frames) => {
                        self.last_words(frames).await;
                        return Ok(Some(Ended::Orderly));
                    }
                }
                if let Some(screen) = screen {
                    cursor.skip_to(screen.offset);
                    self.paint(screen).await?;
                }
            }
            Item::BecameLive => {
                if let Some(frame) = self.speech.became_live() {
                    self.send(frame).await?;
                }
            }
            Item::Exit(exit) => {
                self.process.news();
                self.last_words(self.speech.exit(&exit)).await;
                return Ok(Some(Ended::Orderly));
            }
        }
        Ok(None)
    }

    async fn skip_ahead(&mut self, cursor: &mut Cursor) -> Result<(), Gone> {
        let from = cursor.offset();
        if cursor.log().head().saturating_sub(from) < FAR_BEHIND {
            return Ok(());
        }
        let Some(screen) = self.screen_after_gap(from).await else { return Ok(()) };
        let AfterGap::Say(gap) = self.speech.gap(from, screen.offset) else { return Ok(()) };
        self.credit.acknowledged += screen.offset - from;
        self.send(gap).await?;
        cursor.skip_to(screen.offset);
        self.paint(screen).await
    }

    /// What a terminal shows by now, instead of what a client has missed and of what is left of it.
    async fn screen_after_gap(&self, to: u64) -> Option<Repaint> {
        let scrollback = self.speech.repaints_after_gap().filter(|_| self.process.is_terminal())?;
        let screen = self.process.repaint(scrollback).await.ok()?;
        (screen.offset >= to).then_some(screen)
    }

    async fn paint(&mut self, screen: Repaint) -> Result<(), Gone> {
        for frame in self.speech.repaint(screen) {
            self.sink.feed(frame).await.map_err(|_| Gone)?;
        }
        self.sink.flush().await.map_err(|_| Gone)
    }

    async fn reply(&mut self, cursor: &mut Cursor, reply: Reply) -> Result<Option<Ended>, Gone> {
        match reply {
            Reply::Nothing => {}
            Reply::Send(frame) => self.send(frame).await?,
            Reply::Acknowledge(offset) => {
                self.asked.needless = true;
                self.credit.acknowledged = self.credit.acknowledged.max(offset.min(cursor.offset()));
                cursor.acknowledge(offset);
            }
            Reply::Answered(offset) if self.asked.needless || offset > self.asked.at => {}
            Reply::Answered(offset) => cursor.acknowledge(offset),
            Reply::Close(frame) => {
                self.last_words(vec![frame]).await;
                return Ok(Some(Ended::Orderly));
            }
        }
        Ok(None)
    }

    async fn send(&mut self, frame: Message) -> Result<(), Gone> {
        self.sink.send(frame).await.map_err(|_| Gone)
    }

    async fn last_words(&mut self, frames: Vec<Message>) {
        let say = async {
            for frame in frames {
                self.send(frame).await?;
            }
            Ok::<(), Gone>(())
        };
        let _ = tokio::time::timeout(CLOSE_WITHIN, say).await;
    }
}

/// Another size, or another rule about whose size it is.
async fn resized(process: &Process, from: RulingSize) -> RulingSize {
    process.until(|process| Some(process.ruling_size()).filter(|size| *size != from)).await
}
