//! `outlive run`: run a command in the foreground, as if it ran locally.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::attach_loop::{AttachLoop, AttachOptions, AttachOutcome};
use super::client::follow::{FollowEvent, Follower, OutputStream};
use super::client::socket::{ConnectOptions, OutputStart};
use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::exit::{ExitStatus, SIGNAL_BASE};
use super::input::{self, InputWriter};
use super::lifecycle::remove;
use super::output::{self, FollowPrinter, Sink};
use super::process::{Process, find, process_path};
use super::signals::{self, SignalEvent, Signals};
use super::spec::{SpecArgs, create_process};
use super::terminal;
use super::terminal::keys::{self, DetachKeys};

/// Exit codes of a shell for a program that was not found or is not executable.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;
/// Exit code of a shell for a program that SIGPIPE ended.
const SIGPIPE_CODE: i32 = SIGNAL_BASE + 13;

/// Run a command in the foreground
///
/// Prints the command's output and exits with its exit code, 128+N after signal N, 124 after --timeout, 126 if it is
/// not executable, 127 if it was not found, or 125 if outlive itself failed.
///
/// The first Ctrl-C interrupts the command and its descendants, the second kills them. No output is lost if the server
/// restarts.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// Forward stdin even if it is a terminal
    #[arg(short = 'i', long, conflicts_with = "no_stdin")]
    interactive: bool,
    /// Do not forward stdin [default: forward it unless it is a terminal]
    #[arg(short = 'n', long)]
    no_stdin: bool,
    /// Allocate a terminal and attach to it (detach with Ctrl-\ d)
    #[arg(short = 't', long)]
    tty: bool,
    /// Run in the background and print the process ID
    #[arg(short = 'd', long, conflicts_with = "tty")]
    detach: bool,
    /// Keep the process record and output after exit
    #[arg(long)]
    keep: bool,
    /// Key sequence for detaching from -t, or none
    #[arg(long, value_name = "KEYS", env = "OUTLIVE_DETACH_KEYS", default_value = keys::DEFAULT)]
    detach_keys: DetachKeys,
    #[command(flatten)]
    spec: SpecArgs,
}

impl Run {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let body = self.spec.to_json(&client.endpoint)?;
        if self.detach {
            let (process, _) = create_process(&client, body).await?;
            output::print_line(process.id)?;
            return Ok(0);
        }
        let result = if self.tty { self.run_attached(client, body).await } else { self.run_piped(client, body).await };
        result.or_else(|error| match shell_exit_code(&error) {
            Some(code) => {
                output::print_error(error);
                Ok(code)
            }
            None => Err(error),
        })
    }

    async fn run_attached(self, client: Arc<Client>, mut body: Map<String, Value>) -> Result<i32> {
        body.insert("tty".into(), true.into());
        if let Some(size) = terminal::size() {
            body.insert("cols".into(), size.cols.into());
            body.insert("rows".into(), size.rows.into());
        }
        let (process, _) = create_process(&client, body).await?;
        let options = AttachOptions {
            start: OutputStart::From(0),
            alternate_screen: None,
            is_read_only: false,
            keys: self.detach_keys,
            announce: false,
        };
        match AttachLoop::new(Arc::clone(&client), &process, options)?.run().await? {
            AttachOutcome::Exited(exit_status) => {
                remove_record(&client, &process.id, self.keep).await;
                Ok(exit_status.exit_code())
            }
            AttachOutcome::Detached => {
                output::print_notice(format!(
                    "detached; the process keeps running; attach with `outlive attach {}`",
                    process.display_name()
                ));
                Ok(0)
            }
            // The user's terminal is gone, so the program loses its terminal too.
            AttachOutcome::Signalled(code) => {
                if !self.keep {
                    let _ = remove(&client, &process.id, true).await;
                }
                Ok(code)
            }
        }
    }

    async fn run_piped(self, client: Arc<Client>, mut body: Map<String, Value>) -> Result<i32> {
        let forward_stdin = self.interactive || (!self.no_stdin && !io::stdin().is_terminal());
        body.insert("stdinMode".into(), if forward_stdin { "pipe" } else { "null" }.into());
        if !self.keep {
            // It is removed as soon as it has ended.
            body.insert("history".into(), false.into());
        }
        // Started only after the CLI is connected, so that early output cannot be overwritten in the log.
        body.insert("start".into(), false.into());
        let signals = Signals::install()?.with_suspend()?;
        let (process, _) = create_process(&client, body).await?;
        let options = ConnectOptions {
            id: process.id.clone(),
            start: OutputStart::From(0),
            is_writer: false,
            is_lossless: true,
            size: None,
        };
        let printer = FollowPrinter::new(Follower::new(Arc::clone(&client), options, false));
        let starting = tokio::spawn(start(Arc::clone(&client), process.id.clone()));
        let stdin = forward_stdin.then(input::spawn_stdin_reader);
        let run = RunLoop {
            client: Arc::clone(&client),
            id: process.id.clone(),
            printer,
            signals,
            stdin,
            stdin_task: None,
            interrupts: 0,
        };
        match run.run(starting).await {
            Ok(Some(exit_status)) => {
                remove_record(&client, &process.id, self.keep).await;
                Ok(exit_status.exit_code())
            }
            Ok(None) => {
                output::print_error(format!(
                    "the process may still be running; kill it with `outlive kill {}`",
                    process.id
                ));
                Ok(signals::TerminationSignal::Interrupt.exit_code())
            }
            Err(error) => self.on_error(&client, &process.id, error).await,
        }
    }

    async fn on_error(&self, client: &Client, id: &str, error: CliError) -> Result<i32> {
        match error {
            // A local command would be ended by SIGPIPE.
            CliError::OutputClosed => {
                if !self.keep {
                    let _ = remove(client, id, true).await;
                }
                Ok(SIGPIPE_CODE)
            }
            // The program never started, so there is nothing to keep.
            CliError::Problem(_) => {
                let _ = remove(client, id, false).await;
                Err(error)
            }
            _ => Err(error),
        }
    }
}

fn shell_exit_code(error: &CliError) -> Option<i32> {
    match error.problem_code() {
        Some("command_not_found") => Some(NOT_FOUND),
        Some("not_executable") => Some(NOT_EXECUTABLE),
        _ => None,
    }
}

/// Removes the record: its output has been printed.
async fn remove_record(client: &Client, id: &str, keep: bool) {
    if !keep && let Err(error) = remove(client, id, false).await {
        output::print_error(format!("cannot remove {id}: {error}"));
    }
}

/// Starts a created process, even if the server dies meanwhile.
async fn start(client: Arc<Client>, id: String) -> Result<()> {
    loop {
        match client.send(ApiRequest::post(process_path(&id, "start"))).await {
            Err(CliError::ConnectionLost { .. }) => {
                let process: Process = find(&client, &id).await?;
                if process.status != "created" {
                    return Ok(());
                }
            }
            other => return other.map(drop),
        }
    }
}

struct RunLoop {
    client: Arc<Client>,
    id: String,
    printer: FollowPrinter,
    signals: Signals,
    stdin: Option<mpsc::Receiver<bytes::Bytes>>,
    stdin_task: Option<JoinHandle<()>>,
    interrupts: u32,
}

impl RunLoop {
    /// `None`: the user left with a third Ctrl-C.
    async fn run(mut self, starting: JoinHandle<Result<()>>) -> Result<Option<ExitStatus>> {
        let result = self.run_loop(starting).await;
        if let Some(task) = &self.stdin_task {
            task.abort();
        }
        let printed = if matches!(result, Ok(Some(_))) { self.printer.finish().await } else { Ok(()) };
        self.printer.close().await;
        printed.and(result)
    }

    async fn run_loop(&mut self, mut starting: JoinHandle<Result<()>>) -> Result<Option<ExitStatus>> {
        let mut is_started = false;
        loop {
            tokio::select! {
                biased;
                started = &mut starting, if !is_started => {
                    started.unwrap_or_else(|error| Err(CliError::Local(error.to_string())))?;
                    is_started = true;
                    self.spawn_stdin_task();
                }
                signal = self.signals.next() => {
                    if self.on_signal(signal).await {
                        return Ok(None);
                    }
                }
                event = self.printer.next() => {
                    if let Some(exit_status) = self.on_event(event?) {
                        return Ok(Some(exit_status));
                    }
                }
            }
        }
    }

    fn on_event(&mut self, event: FollowEvent) -> Option<ExitStatus> {
        match event {
            FollowEvent::Output { stream, bytes } => {
                let log_bytes = bytes.len();
                let sink = if stream == OutputStream::Stderr { Sink::Stderr } else { Sink::Stdout };
                self.printer.print(sink, bytes, log_bytes);
            }
            FollowEvent::Gap(gap) => output::print_error(gap.describe()),
            FollowEvent::Message { message, .. } => output::print_error(message),
            FollowEvent::Exit(exit_status) => return Some(exit_status),
            FollowEvent::Connected(_) | FollowEvent::Disconnected => {}
        }
        None
    }

    /// Forwards stdin until end of file, then closes the stdin of the process.
    fn spawn_stdin_task(&mut self) {
        let Some(mut stdin) = self.stdin.take() else {
            return;
        };
        let mut writer = InputWriter::new(Arc::clone(&self.client), &self.id, true);
        self.stdin_task = Some(tokio::spawn(async move {
            let forward = async {
                while let Some(bytes) = stdin.recv().await {
                    writer.write(&bytes).await?;
                }
                writer.close().await
            };
            match forward.await {
                Err(error) if !input::is_input_closed(&error) => {
                    output::print_error(format!("cannot forward stdin: {error}"));
                }
                _ => {}
            }
        }));
    }

    /// Returns true when the user leaves, with the third Ctrl-C.
    async fn on_signal(&mut self, signal: SignalEvent) -> bool {
        match signal {
            SignalEvent::Resized => {}
            SignalEvent::Suspended => self.suspend().await,
            SignalEvent::Terminate(signals::TerminationSignal::Interrupt) => {
                self.interrupts += 1;
                match self.interrupts {
                    1 => self.post_in_background("signal", Some(json!({ "signal": "SIGINT" }))),
                    2 => self.post_in_background("kill", None),
                    _ => return true,
                }
            }
            SignalEvent::Terminate(other) => self.post_in_background("signal", Some(json!({ "signal": other.name() }))),
        }
        false
    }

    fn request(&self, action: &str, body: Option<Value>) -> ApiRequest {
        let request = ApiRequest::post(process_path(&self.id, action)).idempotent();
        match body {
            Some(body) => request.json(body),
            None => request,
        }
    }

    /// Does not wait for the response: the exit of the program decides.
    fn post_in_background(&self, action: &str, body: Option<Value>) {
        let (client, request) = (Arc::clone(&self.client), self.request(action, body));
        tokio::spawn(async move {
            match client.send(request).await {
                Err(error) if !input::is_input_closed(&error) => output::print_error(error),
                _ => {}
            }
        });
    }

    /// Ctrl-Z stops the program and the CLI; `fg` continues both.
    async fn suspend(&self) {
        let signal = |name: &str| self.request("signal", Some(json!({ "signal": name })));
        let _ = self.client.send(signal("SIGSTOP")).await;
        signals::suspend_self();
        self.post_in_background("signal", Some(json!({ "signal": "SIGCONT" })));
    }
}
