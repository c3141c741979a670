//! Being attached: the user's terminal on one side, a process on the other.
//!
//! ```text
//!   stdin ──Scanner──▶ Follower ──▶ server        keys that detach are taken out
//!   stdout ◀──Modes◀──Replay◀── Follower ◀── server
//! ```
//!
//! With a terminal on both sides the own one is in raw mode. A process on pipes is attached to line by line,
//! and Ctrl-C leaves it, because nothing there would understand it.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::attach::End;
use super::failure::Result;
use super::input::{self, Feeder};
use super::output::{self, Show, Sink};
use super::process::{Process, path};
use super::signals::{self, Received, Signals};
use super::terminal::keys::Keys;
use super::terminal::modes::Modes;
use super::terminal::replay::Replay;
use super::terminal::scanner::Scanner;
use super::terminal::{self, Raw, Size};
use super::wire::client::{Call, Client};
use super::wire::follow::{Follower, Item, Stream};
use super::wire::socket::{Ready, Start, Wish};

/// A server that died is back sooner than this; then the user need not know.
const SAY_LOST_AFTER: Duration = Duration::from_millis(300);
/// Input that may wait for a program that does not read; beyond it, we do not read either.
const MOST_QUEUED: usize = 1 << 20;
/// Whether it has become less.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Long enough for a program to see that its window has changed.
const RESIZE_BACK_AFTER: Duration = Duration::from_millis(100);
/// Without moving the cursor.
const RESET_REGION: &[u8] = b"\x1b7\x1b[r\x1b8";
const CTRL_C: u8 = 3;

/// What a full-screen program shows, for a terminal with other things in it.
pub(crate) struct Overlay {
    bytes: Bytes,
    /// Where the log goes on.
    pub(crate) offset: u64,
}

impl Overlay {
    /// `None` if the program draws on the main screen, or if that is not known: its last output shows nearly as much.
    pub(crate) async fn fetch(client: &Client, id: &str) -> Option<Self> {
        let answer = client.fetch(&Call::get(path(id, "screen?format=alternate"))).await.ok()?;
        let offset = answer.headers().get("x-outlive-offset")?.to_str().ok()?.parse().ok()?;
        let bytes = answer.into_body();
        (!bytes.is_empty()).then_some(Self { bytes, offset })
    }
}

pub(crate) struct Plan {
    pub(crate) start: Start,
    /// Shown before what comes from `start`.
    pub(crate) overlay: Option<Overlay>,
    pub(crate) is_read_only: bool,
    pub(crate) keys: Keys,
    /// Tell the user that he is attached, and how to leave.
    pub(crate) is_announced: bool,
}

pub(crate) struct Attached {
    client: Arc<Client>,
    process: Process,
    plan: Plan,
    show: Show,
    signals: Signals,
    scanner: Scanner,
    /// Both sides are terminals.
    is_raw: bool,
    raw: Option<Raw>,
    stdin: Option<mpsc::Receiver<Bytes>>,
    was_connected: bool,
    modes: Modes,
    replay: Replay,
    /// The cursor is not at the beginning of a line, as far as one can tell.
    is_in_line: bool,
    say_lost_at: Option<Instant>,
    has_said_lost: bool,
    /// When to give the terminal its true size back, after [`Attached::redraw`].
    resize_at: Option<Instant>,
}

/// What the loop does next.
enum Next {
    On,
    End(End),
}

impl Attached {
    pub(crate) fn new(client: Arc<Client>, process: &Process, plan: Plan) -> Result<Self> {
        let is_raw = process.tty && io::stdin().is_terminal();
        let size = if process.tty && io::stdout().is_terminal() { terminal::size() } else { None };
        let is_writer = !plan.is_read_only;
        let wish = Wish { id: process.id.clone(), start: plan.start, is_writer, is_lossless: is_writer, size };
        let follower = Follower::new(Arc::clone(&client), wish, process.tty);
        Ok(Self {
            client,
            process: process.clone(),
            show: Show::new(follower),
            signals: Signals::catch()?.with_suspend()?,
            scanner: Scanner::new(&plan.keys),
            plan,
            is_raw,
            raw: None,
            stdin: None,
            was_connected: false,
            modes: Modes::default(),
            replay: Replay::new(0, false),
            is_in_line: false,
            say_lost_at: None,
            has_said_lost: false,
            resize_at: None,
        })
    }

    /// What the user does to leave.
    fn way_out(&self) -> String {
        match (self.is_raw, self.plan.keys.is_none()) {
            (false, _) => "Ctrl-C".to_owned(),
            (true, true) => "`kill` from elsewhere (no keys are set)".to_owned(),
            (true, false) => self.plan.keys.to_string(),
        }
    }

    pub(crate) async fn run(mut self) -> Result<End> {
        let end = self.work().await;
        let printed = match &end {
            Ok(End::Exited(_) | End::Detached) => self.show.finish().await,
            _ => Ok(()),
        };
        if io::stdout().is_terminal() {
            output::terminal(&self.modes.undo());
            if self.is_in_line {
                output::terminal("\r\n");
            }
        }
        // Only now, so that no half of a sequence is followed by the shell's prompt.
        drop(self.raw.take());
        self.show.close().await;
        printed.and(end)
    }

    async fn work(&mut self) -> Result<End> {
        loop {
            let may_type = self.may_type();
            let is_waiting = self.stdin.is_some() && !may_type;
            let next = tokio::select! {
                item = self.show.next() => self.item(item?)?,
                typed = typed(self.stdin.as_mut()), if may_type => {
                    if let Some(bytes) = typed {
                        self.typed(&bytes)
                    } else {
                        self.stdin = None;
                        self.typed_end().await
                    }
                }
                received = self.signals.next() => self.signal(received)?,
                () = sleep_until(self.say_lost_at), if self.say_lost_at.is_some() => {
                    self.say_lost();
                    Next::On
                }
                () = sleep_until(self.resize_at), if self.resize_at.is_some() => {
                    self.resize_at = None;
                    self.resize();
                    Next::On
                }
                () = tokio::time::sleep(LOOK_AGAIN_AFTER), if is_waiting => Next::On,
            };
            if let Next::End(end) = next {
                return Ok(end);
            }
        }
    }

    /// Typed bytes are always looked at for the keys that detach; what comes out of a pipe waits for its turn.
    fn may_type(&self) -> bool {
        let follower = &self.show.follower;
        self.stdin.is_some() && follower.queued_input() < MOST_QUEUED && (self.is_raw || follower.is_connected())
    }

    fn item(&mut self, item: Item) -> Result<Next> {
        match item {
            Item::Connected(_) if self.was_connected => self.connected_again(),
            Item::Connected(ready) => self.connected(&ready)?,
            Item::Output { stream, bytes } => self.output(stream, bytes),
            Item::Gap(gap) => {
                self.replay = Replay::new(0, false);
                self.remark(gap.describe());
                self.redraw();
            }
            Item::Note { code, message } => self.note(&code, &message),
            Item::Exit(ending) => return Ok(Next::End(End::Exited(ending))),
            Item::Lost => self.say_lost_at = Some(Instant::now() + SAY_LOST_AFTER),
        }
        Ok(Next::On)
    }

    /// Only now is the terminal taken over: until here Ctrl-C ends us.
    fn connected(&mut self, ready: &Ready) -> Result<()> {
        self.was_connected = true;
        if self.plan.is_announced && io::stdin().is_terminal() {
            let (name, way_out) = (self.process.name(), self.way_out());
            let verb = if self.plan.is_read_only { "watching" } else { "attached to" };
            output::remark(format!("{verb} {name}; detach with {way_out}"));
        }
        // What was printed before a `run -t` was connected is not old, only early.
        if self.process.tty && matches!(self.plan.start, Start::Tail(_)) {
            let old = self.process.output_end.saturating_sub(ready.offset);
            self.replay = Replay::new(old, ready.offset > 0);
        }
        if self.is_raw {
            self.raw = Some(Raw::enter()?);
        }
        self.stdin = Some(input::read());
        if let Some(Overlay { bytes, .. }) = self.plan.overlay.take() {
            self.modes.see(&bytes);
            self.show.print(Sink::Stdout, bytes, 0);
            // It was drawn for another size, perhaps.
            self.redraw();
        }
        Ok(())
    }

    fn connected_again(&mut self) {
        self.say_lost_at = None;
        if std::mem::take(&mut self.has_said_lost) {
            self.remark("connected again");
            self.redraw();
        }
    }

    fn output(&mut self, stream: Stream, bytes: Bytes) {
        let weight = bytes.len();
        let mut shown = bytes;
        let mut is_caught_up = false;
        if stream == Stream::Terminal {
            let was_old = self.replay.is_under_way();
            shown = self.replay.pass(shown);
            self.modes.see(&shown);
            self.is_in_line = match shown.last() {
                Some(last) => *last != b'\n' && !self.modes.is_painting(),
                None => self.is_in_line,
            };
            is_caught_up = was_old && !self.replay.is_under_way();
        }
        let sink = if stream == Stream::Stderr { Sink::Stderr } else { Sink::Stdout };
        self.show.print(sink, shown, weight);
        if is_caught_up {
            // The replay may have begun in the middle of a screen, and of another size.
            self.redraw();
        }
    }

    fn note(&mut self, code: &str, message: &str) {
        match code {
            // Somebody else's end of the program; the exit will tell.
            "not_running" => {}
            "became_live" => {
                self.remark("you read more slowly than it prints; some output may be skipped");
            }
            _ => self.remark(format!("{message} ({code})")),
        }
    }

    /// On a line of its own.
    fn remark(&mut self, message: impl std::fmt::Display) {
        if std::mem::take(&mut self.is_in_line) && io::stderr().is_terminal() {
            output::terminal("\r\n");
        }
        output::remark(message);
    }

    /// A full-screen program paints anew when its window changes, so the window is changed and changed back.
    fn redraw(&mut self) {
        let size = if self.modes.is_painting() { terminal::size() } else { None };
        if let Some(size) = size.filter(|size| size.rows > 1 && !self.plan.is_read_only) {
            // A terminal that changes its size forgets the scroll region, and programs rely on it.
            self.modes.see(RESET_REGION);
            let reset = Bytes::from_static(RESET_REGION);
            self.show.print(Sink::Stdout, reset, 0);
            self.show.follower.resize(Size { rows: size.rows - 1, ..size });
            self.resize_at = Some(Instant::now() + RESIZE_BACK_AFTER);
        }
    }

    fn resize(&mut self) {
        let is_ours = self.process.tty && !self.plan.is_read_only;
        if let Some(size) = terminal::size().filter(|_| is_ours) {
            self.show.follower.resize(size);
        }
    }

    fn typed(&mut self, bytes: &[u8]) -> Next {
        if !self.is_raw {
            if !self.plan.is_read_only {
                self.show.follower.input(bytes);
            }
            return Next::On;
        }
        let scanned = self.scanner.feed(bytes);
        if self.plan.is_read_only {
            // Nobody else would hear it.
            if scanned.detached || scanned.forward.contains(&CTRL_C) {
                return Next::End(End::Detached);
            }
            return Next::On;
        }
        if !scanned.forward.is_empty() {
            self.show.follower.input(&scanned.forward);
        }
        if scanned.detached { Next::End(End::Detached) } else { Next::On }
    }

    /// Ctrl-D at a process on pipes closes its stdin; the end of a file or pipe of ours does not.
    async fn typed_end(&mut self) -> Next {
        if !self.process.tty && io::stdin().is_terminal() && !self.plan.is_read_only {
            let feeder = Feeder::new(Arc::clone(&self.client), &self.process.id, false);
            if let Err(failure) = feeder.close().await
                && !input::is_refused(&failure)
            {
                output::remark(failure);
            }
        }
        Next::On
    }

    fn signal(&mut self, received: Received) -> Result<Next> {
        match received {
            Received::Resized => self.resize(),
            Received::Suspended => {
                drop(self.raw.take());
                signals::stop_here();
                if self.is_raw && self.was_connected {
                    self.raw = Some(Raw::enter()?);
                }
                self.redraw();
            }
            Received::End(signals::Ending::Interrupt)
                if self.was_connected && !self.is_raw && io::stdin().is_terminal() =>
            {
                return Ok(Next::End(End::Detached));
            }
            Received::End(signal) => return Ok(Next::End(End::Signalled(signal.exit_code()))),
        }
        Ok(Next::On)
    }

    fn say_lost(&mut self) {
        self.say_lost_at = None;
        self.has_said_lost = true;
        let way_out = self.way_out();
        self.remark(format!("connection lost; reconnecting … ({way_out} to leave)"));
    }
}

async fn typed(stdin: Option<&mut mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match stdin {
        Some(stdin) => stdin.recv().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
