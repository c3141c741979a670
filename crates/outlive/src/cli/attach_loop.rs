//! The event loop of `attach` and `run -t`: connects the user's terminal to a process.
//!
//! ```text
//!   stdin ──DetachScanner──▶ Follower ──▶ server        removes the detach keys
//!   stdout ◀──ModeTracker◀──ReplayFilter◀── Follower ◀── server
//! ```
//!
//! If the process has a terminal too, the user's terminal is in raw mode. A process on pipes gets input line by line,
//! and Ctrl-C detaches, because a pipe cannot turn it into a signal.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::follow::{FollowEvent, Follower, OutputStream};
use super::client::socket::{ConnectOptions, OutputStart, Ready};
use super::client::{ApiRequest, Client};
use super::error::Result;
use super::exit::ExitStatus;
use super::input::{self, InputWriter};
use super::output::{self, FollowPrinter, Sink, sleep_until};
use super::process::{Process, process_path};
use super::signals::{self, SignalEvent, Signals};
use super::terminal::detach::DetachScanner;
use super::terminal::keys::DetachKeys;
use super::terminal::modes::ModeTracker;
use super::terminal::replay::ReplayFilter;
use super::terminal::{self, RawMode, Size};

/// A server restart takes less than this, so shorter interruptions are not shown.
const LOST_NOTICE_DELAY: Duration = Duration::from_millis(300);
/// Stdin is not read while this much input waits for a program that does not read.
const MAX_QUEUED_INPUT_BYTES: usize = 1 << 20;
/// How often the queue is checked then.
const QUEUE_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for a program to handle SIGWINCH before the size changes back.
const RESIZE_BACK_DELAY: Duration = Duration::from_millis(100);
/// Resets the scroll region without moving the cursor.
const RESET_REGION: &[u8] = b"\x1b7\x1b[r\x1b8";
const CTRL_C: u8 = 3;

/// Repaint of the alternate screen of a full-screen program.
pub(crate) struct AlternateScreen {
    bytes: Bytes,
    /// Log offset that follows the repaint.
    pub(crate) offset: u64,
}

impl AlternateScreen {
    /// `None` if the program uses the main screen or the repaint is unavailable; recent output is shown instead.
    pub(crate) async fn fetch(client: &Client, id: &str) -> Option<Self> {
        let response = client.fetch_bytes(&ApiRequest::get(process_path(id, "screen?format=alternate"))).await.ok()?;
        let offset = response.headers().get("x-outlive-offset")?.to_str().ok()?.parse().ok()?;
        let bytes = response.into_body();
        (!bytes.is_empty()).then_some(Self { bytes, offset })
    }
}

pub(crate) struct AttachOptions {
    pub(crate) start: OutputStart,
    /// Printed before the output from `start`.
    pub(crate) alternate_screen: Option<AlternateScreen>,
    pub(crate) is_read_only: bool,
    pub(crate) keys: DetachKeys,
    /// Print a notice with the detach keys.
    pub(crate) announce: bool,
}

/// Why the loop ended.
pub(crate) enum AttachOutcome {
    Exited(ExitStatus),
    Detached,
    /// A signal terminated the CLI. Holds the exit code.
    Signalled(i32),
}

pub(crate) struct AttachLoop {
    client: Arc<Client>,
    process: Process,
    options: AttachOptions,
    printer: FollowPrinter,
    signals: Signals,
    scanner: DetachScanner,
    /// Both sides are terminals.
    is_raw: bool,
    raw_mode: Option<RawMode>,
    stdin: Option<mpsc::Receiver<Bytes>>,
    was_connected: bool,
    modes: ModeTracker,
    replay: ReplayFilter,
    /// The last output did not end a line.
    is_mid_line: bool,
    lost_notice_at: Option<Instant>,
    lost_notice_shown: bool,
    /// When to restore the true size after [`AttachLoop::redraw`].
    restore_size_at: Option<Instant>,
}

enum LoopControl {
    Continue,
    Finish(AttachOutcome),
}

impl AttachLoop {
    pub(crate) fn new(client: Arc<Client>, process: &Process, options: AttachOptions) -> Result<Self> {
        let is_raw = process.tty && io::stdin().is_terminal();
        let size = if process.tty && io::stdout().is_terminal() { terminal::size() } else { None };
        let is_writer = !options.is_read_only;
        let connect =
            ConnectOptions { id: process.id.clone(), start: options.start, is_writer, is_lossless: is_writer, size };
        let follower = Follower::new(Arc::clone(&client), connect, process.tty);
        Ok(Self {
            client,
            process: process.clone(),
            printer: FollowPrinter::new(follower),
            signals: Signals::install()?.with_suspend()?,
            scanner: DetachScanner::new(&options.keys),
            options,
            is_raw,
            raw_mode: None,
            stdin: None,
            was_connected: false,
            modes: ModeTracker::default(),
            replay: ReplayFilter::new(0, false),
            is_mid_line: false,
            lost_notice_at: None,
            lost_notice_shown: false,
            restore_size_at: None,
        })
    }

    /// How the user detaches.
    fn detach_hint(&self) -> String {
        match (self.is_raw, self.options.keys.is_none()) {
            (false, _) => "Ctrl-C".to_owned(),
            (true, true) => "`outlive kill` elsewhere (no detach keys are set)".to_owned(),
            (true, false) => self.options.keys.to_string(),
        }
    }

    pub(crate) async fn run(mut self) -> Result<AttachOutcome> {
        let outcome = self.run_loop().await;
        let printed = match &outcome {
            Ok(AttachOutcome::Exited(_) | AttachOutcome::Detached) => self.printer.finish().await,
            _ => Ok(()),
        };
        if io::stdout().is_terminal() {
            output::write_terminal(&self.modes.reset_sequence());
            if self.is_mid_line {
                output::write_terminal("\r\n");
            }
        }
        // After the reset, so that the shell's prompt does not follow an incomplete sequence.
        drop(self.raw_mode.take());
        self.printer.close().await;
        printed.and(outcome)
    }

    async fn run_loop(&mut self) -> Result<AttachOutcome> {
        loop {
            let may_read = self.may_read_stdin();
            let is_stdin_paused = self.stdin.is_some() && !may_read;
            let control = tokio::select! {
                event = self.printer.next() => self.on_event(event?)?,
                input = recv_optional(self.stdin.as_mut()), if may_read => {
                    if let Some(bytes) = input {
                        self.on_input(&bytes)
                    } else {
                        self.stdin = None;
                        self.on_stdin_closed().await
                    }
                }
                signal = self.signals.next() => self.on_signal(signal)?,
                () = sleep_until(self.lost_notice_at), if self.lost_notice_at.is_some() => {
                    self.show_lost_notice();
                    LoopControl::Continue
                }
                () = sleep_until(self.restore_size_at), if self.restore_size_at.is_some() => {
                    self.restore_size_at = None;
                    self.resize();
                    LoopControl::Continue
                }
                () = tokio::time::sleep(QUEUE_POLL_INTERVAL), if is_stdin_paused => LoopControl::Continue,
            };
            if let LoopControl::Finish(outcome) = control {
                return Ok(outcome);
            }
        }
    }

    /// Keys are read even without a connection, to find the detach keys. Input from a pipe waits.
    fn may_read_stdin(&self) -> bool {
        let follower = &self.printer.follower;
        self.stdin.is_some()
            && follower.queued_input() < MAX_QUEUED_INPUT_BYTES
            && (self.is_raw || follower.is_connected())
    }

    fn on_event(&mut self, event: FollowEvent) -> Result<LoopControl> {
        match event {
            FollowEvent::Connected(_) if self.was_connected => self.on_reconnected(),
            FollowEvent::Connected(ready) => self.on_connected(&ready)?,
            FollowEvent::Output { stream, bytes } => self.print_output(stream, bytes),
            FollowEvent::Gap(gap) => {
                self.replay = ReplayFilter::new(0, false);
                self.print_notice(gap.describe());
                self.redraw();
            }
            FollowEvent::Message { code, message } => self.on_server_message(&code, &message),
            FollowEvent::Exit(exit_status) => return Ok(LoopControl::Finish(AttachOutcome::Exited(exit_status))),
            FollowEvent::Disconnected => self.lost_notice_at = Some(Instant::now() + LOST_NOTICE_DELAY),
        }
        Ok(LoopControl::Continue)
    }

    /// Enters raw mode only now, so that Ctrl-C ends the CLI while it connects.
    fn on_connected(&mut self, ready: &Ready) -> Result<()> {
        self.was_connected = true;
        if self.options.announce && io::stdin().is_terminal() {
            let (name, detach_hint) = (self.process.display_name(), self.detach_hint());
            let verb = if self.options.is_read_only { "attached read-only to" } else { "attached to" };
            output::print_notice(format!("{verb} {name}; detach with {detach_hint}"));
        }
        // With `run -t` all output is new, so none of it is filtered.
        if self.process.tty && matches!(self.options.start, OutputStart::Tail(_)) {
            let replayed = self.process.output_end.saturating_sub(ready.offset);
            self.replay = ReplayFilter::new(replayed, ready.offset > 0);
        }
        if self.is_raw {
            self.raw_mode = Some(RawMode::enter()?);
        }
        self.stdin = Some(input::spawn_stdin_reader());
        if let Some(AlternateScreen { bytes, .. }) = self.options.alternate_screen.take() {
            self.modes.observe(&bytes);
            self.printer.print(Sink::Stdout, bytes, 0);
            // It may have been drawn for another size.
            self.redraw();
        }
        Ok(())
    }

    fn on_reconnected(&mut self) {
        self.lost_notice_at = None;
        if std::mem::take(&mut self.lost_notice_shown) {
            self.print_notice("reconnected");
            self.redraw();
        }
    }

    fn print_output(&mut self, stream: OutputStream, bytes: Bytes) {
        let log_bytes = bytes.len();
        let mut shown = bytes;
        let mut is_caught_up = false;
        if stream == OutputStream::Terminal {
            let was_active = self.replay.is_active();
            shown = self.replay.filter(shown);
            self.modes.observe(&shown);
            self.is_mid_line = match shown.last() {
                Some(last) => *last != b'\n' && !self.modes.is_full_screen(),
                None => self.is_mid_line,
            };
            is_caught_up = was_active && !self.replay.is_active();
        }
        let sink = if stream == OutputStream::Stderr { Sink::Stderr } else { Sink::Stdout };
        self.printer.print(sink, shown, log_bytes);
        if is_caught_up {
            // The replay may have started in the middle of a screen, or of another size.
            self.redraw();
        }
    }

    fn on_server_message(&mut self, code: &str, message: &str) {
        match code {
            // The exit event follows.
            "not_running" => {}
            "became_live" => {
                self.print_notice("output is faster than this terminal; some of it may be skipped");
            }
            _ => self.print_notice(format!("{message} ({code})")),
        }
    }

    /// Prints a notice on a line of its own.
    fn print_notice(&mut self, message: impl std::fmt::Display) {
        if std::mem::take(&mut self.is_mid_line) && io::stderr().is_terminal() {
            output::write_terminal("\r\n");
        }
        output::print_notice(message);
    }

    /// Makes a full-screen program redraw, by changing the terminal size and changing it back.
    fn redraw(&mut self) {
        let size = if self.modes.is_full_screen() { terminal::size() } else { None };
        if let Some(size) = size.filter(|size| size.rows > 1 && !self.options.is_read_only) {
            // A terminal resets its scroll region on resize, and programs rely on that.
            self.modes.observe(RESET_REGION);
            let reset = Bytes::from_static(RESET_REGION);
            self.printer.print(Sink::Stdout, reset, 0);
            self.printer.follower.resize(Size { rows: size.rows - 1, ..size });
            self.restore_size_at = Some(Instant::now() + RESIZE_BACK_DELAY);
        }
    }

    fn resize(&mut self) {
        let may_resize = self.process.tty && !self.options.is_read_only;
        if let Some(size) = terminal::size().filter(|_| may_resize) {
            self.printer.follower.resize(size);
        }
    }

    fn on_input(&mut self, bytes: &[u8]) -> LoopControl {
        if !self.is_raw {
            if !self.options.is_read_only {
                self.printer.follower.send_input(bytes);
            }
            return LoopControl::Continue;
        }
        let scanned = self.scanner.feed(bytes);
        if self.options.is_read_only {
            // A viewer cannot send Ctrl-C, so it detaches.
            if scanned.detached || scanned.forward.contains(&CTRL_C) {
                return LoopControl::Finish(AttachOutcome::Detached);
            }
            return LoopControl::Continue;
        }
        if !scanned.forward.is_empty() {
            self.printer.follower.send_input(&scanned.forward);
        }
        if scanned.detached { LoopControl::Finish(AttachOutcome::Detached) } else { LoopControl::Continue }
    }

    /// Ctrl-D on a terminal closes the stdin of a process on pipes. The end of a redirected stdin does not.
    async fn on_stdin_closed(&mut self) -> LoopControl {
        if !self.process.tty && io::stdin().is_terminal() && !self.options.is_read_only {
            let writer = InputWriter::new(Arc::clone(&self.client), &self.process.id, false);
            if let Err(error) = writer.close().await
                && !input::is_input_closed(&error)
            {
                output::print_notice(error);
            }
        }
        LoopControl::Continue
    }

    fn on_signal(&mut self, signal: SignalEvent) -> Result<LoopControl> {
        match signal {
            SignalEvent::Resized => self.resize(),
            SignalEvent::Suspended => {
                drop(self.raw_mode.take());
                signals::suspend_self();
                if self.is_raw && self.was_connected {
                    self.raw_mode = Some(RawMode::enter()?);
                }
                self.redraw();
            }
            SignalEvent::Terminate(signals::TerminationSignal::Interrupt)
                if self.was_connected && !self.is_raw && io::stdin().is_terminal() =>
            {
                return Ok(LoopControl::Finish(AttachOutcome::Detached));
            }
            SignalEvent::Terminate(signal) => {
                return Ok(LoopControl::Finish(AttachOutcome::Signalled(signal.exit_code())));
            }
        }
        Ok(LoopControl::Continue)
    }

    fn show_lost_notice(&mut self) {
        self.lost_notice_at = None;
        self.lost_notice_shown = true;
        let detach_hint = self.detach_hint();
        self.print_notice(format!("connection lost; reconnecting… ({detach_hint} to detach)"));
    }
}

async fn recv_optional(stdin: Option<&mut mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match stdin {
        Some(stdin) => stdin.recv().await,
        None => std::future::pending().await,
    }
}
