//! `outlive run`: a command to its end, as if it ran here.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::attach::End;
use super::attached::{Attached, Plan};
use super::exit::{BY_SIGNAL, Ending};
use super::failure::{Failure, Result};
use super::input::{self, Feeder};
use super::output::{self, Show, Sink};
use super::process::{Process, find, path};
use super::rm::remove;
use super::signals::{self, Received, Signals};
use super::spec::{SpecArgs, create};
use super::terminal;
use super::terminal::keys::{self, Keys};
use super::wire::client::{Call, Client};
use super::wire::follow::{Follower, Item, Stream};
use super::wire::socket::{Start, Wish};

/// What a shell reports of a program that is not there, and of one that cannot be executed.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;
/// What a shell reports of a program whose reader went away.
const BY_CLOSED_PIPE: i32 = BY_SIGNAL + 13;

/// Run a command to its end as if it ran here
///
/// Its output is ours, its exit code too: 128+N after signal N, 124 after --timeout, 127 if it was not found, 125 if outlive itself failed. Ctrl-C
/// goes to the program and its children; the second one kills them. Should the server die meanwhile, nothing is lost.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// Forward stdin even if it is a terminal
    #[arg(short = 'i', long, conflicts_with = "no_stdin")]
    interactive: bool,
    /// Do not forward stdin [default: forwarded unless it is a terminal]
    #[arg(short = 'n', long)]
    no_stdin: bool,
    /// On a terminal of its own, with this one as its window (detach with Ctrl-\ d, then it runs on)
    #[arg(short = 't', long)]
    tty: bool,
    /// Start it, print its id and return
    #[arg(short = 'd', long, conflicts_with = "tty")]
    detach: bool,
    /// Keep its record and output after the end
    #[arg(long)]
    keep: bool,
    /// Keys that detach from -t
    #[arg(long, value_name = "KEYS", env = "OUTLIVE_DETACH_KEYS", default_value = keys::DEFAULT)]
    detach_keys: Keys,
    #[command(flatten)]
    spec: SpecArgs,
}

impl Run {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let body = self.spec.body(&client.endpoint)?;
        if self.detach {
            let (process, _) = create(&client, body).await?;
            output::line(process.id)?;
            return Ok(0);
        }
        let ran = if self.tty { self.on_terminal(client, body).await } else { self.on_pipes(client, body).await };
        ran.or_else(|failure| match shell_code(&failure) {
            Some(code) => {
                output::complain(failure);
                Ok(code)
            }
            None => Err(failure),
        })
    }

    async fn on_terminal(self, client: Arc<Client>, mut body: Map<String, Value>) -> Result<i32> {
        body.insert("tty".into(), true.into());
        if let Some(size) = terminal::size() {
            body.insert("cols".into(), size.cols.into());
            body.insert("rows".into(), size.rows.into());
        }
        let (process, _) = create(&client, body).await?;
        let plan = Plan {
            start: Start::From(0),
            overlay: None,
            is_read_only: false,
            keys: self.detach_keys,
            is_announced: false,
        };
        match Attached::new(Arc::clone(&client), &process, plan)?.run().await? {
            End::Exited(ending) => {
                clean_up(&client, &process.id, self.keep).await;
                Ok(ending.exit_code())
            }
            End::Detached => {
                output::remark(format!("detached; the program runs on: outlive attach {}", process.name()));
                Ok(0)
            }
            // Our terminal is gone, so the program's is too.
            End::Signalled(code) => {
                if !self.keep {
                    let _ = remove(&client, &process.id, true).await;
                }
                Ok(code)
            }
        }
    }

    async fn on_pipes(self, client: Arc<Client>, mut body: Map<String, Value>) -> Result<i32> {
        let forwards = self.interactive || (!self.no_stdin && !io::stdin().is_terminal());
        body.insert("stdinMode".into(), if forwards { "pipe" } else { "null" }.into());
        // Connected before it starts, so that it cannot print more than its log holds before we look.
        body.insert("start".into(), false.into());
        let signals = Signals::catch()?.with_suspend()?;
        let (process, _) = create(&client, body).await?;
        let wish =
            Wish { id: process.id.clone(), start: Start::From(0), is_writer: false, is_lossless: true, size: None };
        let show = Show::new(Follower::new(Arc::clone(&client), wish, false));
        let starting = tokio::spawn(start(Arc::clone(&client), process.id.clone()));
        let stdin = forwards.then(input::read);
        let running = Running {
            client: Arc::clone(&client),
            id: process.id.clone(),
            show,
            signals,
            stdin,
            feeding: None,
            interrupts: 0,
        };
        match running.run(starting).await {
            Ok(Some(ending)) => {
                clean_up(&client, &process.id, self.keep).await;
                Ok(ending.exit_code())
            }
            Ok(None) => {
                output::complain(format!("left; it may still run: outlive kill {}", process.id));
                Ok(signals::Ending::Interrupt.exit_code())
            }
            Err(failure) => self.failed(&client, &process.id, failure).await,
        }
    }

    async fn failed(&self, client: &Client, id: &str, failure: Failure) -> Result<i32> {
        match failure {
            // As a local command would die of SIGPIPE.
            Failure::OutputClosed => {
                if !self.keep {
                    let _ = remove(client, id, true).await;
                }
                Ok(BY_CLOSED_PIPE)
            }
            // It never started: nothing to keep.
            Failure::Problem(_) => {
                let _ = remove(client, id, false).await;
                Err(failure)
            }
            _ => Err(failure),
        }
    }
}

/// What a shell would return for a program that could not be started.
fn shell_code(failure: &Failure) -> Option<i32> {
    match failure.code() {
        Some("command_not_found") => Some(NOT_FOUND),
        Some("not_executable") => Some(NOT_EXECUTABLE),
        _ => None,
    }
}

/// The record is of no use to anybody who saw the output.
async fn clean_up(client: &Client, id: &str, keep: bool) {
    if !keep && let Err(failure) = remove(client, id, false).await {
        output::complain(format!("could not remove {id}: {failure}"));
    }
}

/// Starts a reserved process, also if the server dies in between.
async fn start(client: Arc<Client>, id: String) -> Result<()> {
    loop {
        match client.ask(Call::post(path(&id, "start"))).await {
            Err(Failure::Lost { .. }) => {
                let process: Process = find(&client, &id).await?;
                if process.status != "created" {
                    return Ok(());
                }
            }
            other => return other.map(drop),
        }
    }
}

struct Running {
    client: Arc<Client>,
    id: String,
    show: Show,
    signals: Signals,
    stdin: Option<mpsc::Receiver<bytes::Bytes>>,
    feeding: Option<JoinHandle<()>>,
    interrupts: u32,
}

impl Running {
    /// `None`: the user insisted on leaving.
    async fn run(mut self, starting: JoinHandle<Result<()>>) -> Result<Option<Ending>> {
        let ended = self.work(starting).await;
        if let Some(feeding) = &self.feeding {
            feeding.abort();
        }
        let printed = if matches!(ended, Ok(Some(_))) { self.show.finish().await } else { Ok(()) };
        self.show.close().await;
        printed.and(ended)
    }

    async fn work(&mut self, mut starting: JoinHandle<Result<()>>) -> Result<Option<Ending>> {
        let mut is_started = false;
        loop {
            tokio::select! {
                biased;
                started = &mut starting, if !is_started => {
                    started.unwrap_or_else(|error| Err(Failure::Here(error.to_string())))?;
                    is_started = true;
                    self.feed();
                }
                received = self.signals.next() => {
                    if self.signal(received).await {
                        return Ok(None);
                    }
                }
                item = self.show.next() => {
                    if let Some(ending) = self.item(item?) {
                        return Ok(Some(ending));
                    }
                }
            }
        }
    }

    fn item(&mut self, item: Item) -> Option<Ending> {
        match item {
            Item::Output { stream, bytes } => {
                let weight = bytes.len();
                let sink = if stream == Stream::Stderr { Sink::Stderr } else { Sink::Stdout };
                self.show.print(sink, bytes, weight);
            }
            Item::Gap(gap) => output::complain(gap.describe()),
            Item::Note { message, .. } => output::complain(message),
            Item::Exit(ending) => return Some(ending),
            Item::Connected(_) | Item::Lost => {}
        }
        None
    }

    /// Sends our stdin, then its end.
    fn feed(&mut self) {
        let Some(mut stdin) = self.stdin.take() else {
            return;
        };
        let mut feeder = Feeder::new(Arc::clone(&self.client), &self.id, true);
        self.feeding = Some(tokio::spawn(async move {
            let feed = async {
                while let Some(bytes) = stdin.recv().await {
                    feeder.feed(&bytes).await?;
                }
                feeder.close().await
            };
            match feed.await {
                Err(failure) if !input::is_refused(&failure) => {
                    output::complain(format!("stdin: {failure}"));
                }
                _ => {}
            }
        }));
    }

    /// True when the user has asked often enough.
    async fn signal(&mut self, received: Received) -> bool {
        match received {
            Received::Resized => {}
            Received::Suspended => self.suspend().await,
            Received::End(signals::Ending::Interrupt) => {
                self.interrupts += 1;
                match self.interrupts {
                    1 => self.tell("signal", Some(json!({ "signal": "SIGINT" }))),
                    2 => self.tell("kill", None),
                    _ => return true,
                }
            }
            Received::End(other) => self.tell("signal", Some(json!({ "signal": other.name() }))),
        }
        false
    }

    fn call(&self, what: &str, body: Option<Value>) -> Call {
        let call = Call::post(path(&self.id, what)).repeatable();
        match body {
            Some(body) => call.json(body),
            None => call,
        }
    }

    /// In the background: whatever happens to the request, the program's exit is what counts.
    fn tell(&self, what: &str, body: Option<Value>) {
        let (client, call) = (Arc::clone(&self.client), self.call(what, body));
        tokio::spawn(async move {
            match client.ask(call).await {
                Err(failure) if !input::is_refused(&failure) => output::complain(failure),
                _ => {}
            }
        });
    }

    /// Ctrl-Z stops the program and us; `fg` continues both.
    async fn suspend(&self) {
        let signal = |name: &str| self.call("signal", Some(json!({ "signal": name })));
        let _ = self.client.ask(signal("SIGSTOP")).await;
        signals::stop_here();
        self.tell("signal", Some(json!({ "signal": "SIGCONT" })));
    }
}
