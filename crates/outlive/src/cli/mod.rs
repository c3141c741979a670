//! The client commands. One file per command, or per group of small commands, and the modules that they share.
//!
//! ```text
//!   mod (arguments) ──▶ run, attach, logs … ──▶ client/ (api, socket, follow) ──▶ server
//!                             │
//!                             └──▶ output, input, signals, terminal/ ──▶ the user
//! ```
//!
//! Exit codes:
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success; detached; `wait`: the condition was met |
//! | 1 | the server refused the request (its code is in the message), or a local error |
//! | 2 | invalid command line |
//! | 3 | no server found, or it cannot be reached |
//! | 124 | `run --timeout`, `wait --timeout`: timed out |
//! | 125 | `run`, `attach`, `session exec`, `session shell`: outlive itself failed |
//! | 126, 127 | `run`: the program is not executable, or was not found |
//! | 128+N | `run`, `attach`, `wait`: signal N ended the program; or signal N ended the CLI |
//! | other | `run`, `attach`, `wait`: exit code of the program |
//!
//! Commands for several processes continue after an error and return the largest code.
//!
//! A process is named by its ID, by a unique prefix of its ID, or by its tag.

mod attach;
mod attach_loop;
pub(crate) mod client;
mod config;
mod error;
pub(crate) mod events;
mod exit;
mod history;
mod input;
mod lifecycle;
mod logs;
mod output;
mod play;
mod process;
mod ps;
mod record;
mod run;
mod screen;
mod send;
mod session;
mod signals;
mod spec;
mod start;
mod status;
mod terminal;
mod text;
mod token;
mod upgrade;
mod wait;

use std::path::PathBuf;
use std::sync::Arc;

use crate::access::token::first_token;
use crate::local_daemon;
use client::Client;
use client::endpoint::Endpoint;
use client::tls::Trust;
use error::{CliError, Result};

/// Options that select the server, common to all commands.
#[derive(clap::Args)]
pub(crate) struct ConnectionArgs {
    /// Server URL: http[s]://HOST:PORT or unix:PATH [default: the local server]
    #[arg(long, global = true, env = "OUTLIVE_URL", value_name = "URL", help_heading = "Connection")]
    pub(crate) url: Option<String>,
    /// Access token
    #[arg(
        long,
        global = true,
        env = "OUTLIVE_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Connection"
    )]
    pub(crate) token: Option<String>,
    /// CA certificates (PEM) that sign the server's certificate [default: the system's]
    #[arg(long, global = true, env = "OUTLIVE_CA_CERT", value_name = "FILE", help_heading = "Connection")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Directory in which local servers publish their address
    #[arg(long, global = true, env = "OUTLIVE_STATE_DIR", value_name = "DIR", help_heading = "Connection")]
    pub(crate) state_dir: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    /// Start a process in the background and print its ID
    Start(start::Start),
    /// List processes
    Ps(ps::Ps),
    Logs(logs::Logs),
    Attach(attach::Attach),
    Send(send::Send),
    /// Send a signal to a process and its descendants
    Signal(lifecycle::Signal),
    /// Stop processes and their descendants: SIGTERM, then SIGKILL after a grace period
    Stop(lifecycle::Stop),
    /// Kill processes and their descendants
    Kill(lifecycle::Kill),
    /// Restart processes, or start created ones
    Restart(lifecycle::Restart),
    /// Remove exited processes and their output
    Rm(lifecycle::Rm),
    Wait(wait::Wait),
    History(history::History),
    Session(session::Session),
    Screen(screen::Screen),
    Record(record::Record),
    Play(play::Play),
    /// Stream events of processes and sessions
    Events(events::Events),
    /// Show or change limits
    Config(config::Config),
    Token(token::Token),
    /// Show server status
    Status(status::Status),
    /// Replace the running server with the binary on disk; processes keep running
    Upgrade(upgrade::Upgrade),
}

/// Runs a command and returns the exit code.
pub(crate) async fn execute(command: Command, connection: ConnectionArgs) -> i32 {
    // These commands return the program's exit code, so errors of outlive need a code of their own.
    let returns_program_code = match &command {
        Command::Run(_) | Command::Attach(_) => true,
        Command::Session(session) => session.returns_program_code(),
        _ => false,
    };
    let result = match command {
        Command::Play(play) if play.is_file() => play.play_file().await,
        command => match find_server(connection) {
            Ok(endpoint) => dispatch(command, Arc::new(Client::new(endpoint))).await,
            Err(error) => Err(error),
        },
    };
    result.unwrap_or_else(|error| {
        if !error.is_output_closed() {
            output::print_error(&error);
        }
        match error {
            CliError::Usage(_) | CliError::OutputClosed => error.exit_code(),
            _ if returns_program_code => exit::CLI_ERROR,
            _ => error.exit_code(),
        }
    })
}

fn find_server(connection: ConnectionArgs) -> Result<Endpoint> {
    let url = connection.url.filter(|url| !url.is_empty());
    let dir = local_daemon::state_dir(connection.state_dir.as_deref());
    let mut endpoint = if let Some(url) = &url {
        let mut endpoint = Endpoint::parse(url).map_err(CliError::Usage)?;
        // The URL may name a local server, whose state file has the token and the certificate.
        if let Some(found) = local_daemon::find_by_url(&dir, &endpoint.display_url).filter(|_| endpoint.token.is_none())
        {
            endpoint.token = found.token.or_else(|| first_token(found.token_file.as_deref()?));
            endpoint.trust = found.certificate.map_or(Trust::System, Trust::Pinned);
        }
        endpoint
    } else {
        let found = local_daemon::find(&dir).ok_or_else(|| match local_daemon::find_orphaned_url(&dir) {
            Some(url) => CliError::NoHolder(url),
            None => CliError::NoServer(dir),
        })?;
        let mut endpoint = Endpoint::parse(&found.url).map_err(CliError::Local)?;
        endpoint.is_local = true;
        endpoint.token = found.token.or_else(|| first_token(found.token_file.as_deref()?));
        endpoint.trust = found.certificate.map_or(Trust::System, Trust::Pinned);
        endpoint
    };
    if let Some(file) = connection.ca_cert {
        endpoint.trust = Trust::CaFile(file);
    }
    endpoint.token = connection.token.filter(|token| !token.is_empty()).or(endpoint.token);
    Ok(endpoint)
}

async fn dispatch(command: Command, client: Arc<Client>) -> Result<i32> {
    match command {
        Command::Run(run) => run.execute(client).await,
        Command::Start(start) => start.execute(client).await,
        Command::Ps(ps) => ps.execute(client).await,
        Command::Logs(logs) => logs.execute(client).await,
        Command::Attach(attach) => attach.execute(client).await,
        Command::Send(send) => send.execute(client).await,
        Command::Signal(signal) => signal.execute(client).await,
        Command::Stop(stop) => stop.execute(client).await,
        Command::Kill(kill) => kill.execute(client).await,
        Command::Restart(restart) => restart.execute(client).await,
        Command::Rm(rm) => rm.execute(client).await,
        Command::Wait(wait) => wait.execute(client).await,
        Command::History(history) => history.execute(client).await,
        Command::Session(session) => session.execute(client).await,
        Command::Screen(screen) => screen.execute(client).await,
        Command::Record(record) => record.execute(client).await,
        Command::Play(play) => play.execute(client).await,
        Command::Events(events) => events.execute(client).await,
        Command::Config(config) => config.execute(client).await,
        Command::Token(token) => token.execute(client).await,
        Command::Status(status) => status.execute(client).await,
        Command::Upgrade(upgrade) => upgrade.execute(client).await,
    }
}
