//! The client side: one file per command. Everything else here is what they share.
//!
//! ```text
//!   mod (arguments) ──▶ run, attach, logs … ──▶ wire/ (client, socket, follow) ──▶ server
//!                             │
//!                             └──▶ output, input, signals, terminal/ ──▶ the user
//! ```
//!
//! Exit codes:
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; detached; for `wait`: it happened |
//! | 1 | the server refused (the code is in the message), or something failed here |
//! | 2 | the command line makes no sense |
//! | 3 | no server found, or it cannot be reached |
//! | 124 | `run --timeout`, `wait --timeout`: the time was over |
//! | 126, 127 | `run`: the program cannot be executed, was not found |
//! | 128+N | `run`, `attach`, `wait`: the program ended by signal N; or we did |
//! | other | `run`, `attach`, `wait`: that of the program |
//!
//! Commands for several processes go on after a failure and return the largest code.
//!
//! A process is named by its id, by the unique beginning of its id, or by its tag.

mod attach;
mod attached;
mod config;
pub(crate) mod events;
mod exit;
mod failure;
mod input;
mod kill;
mod logs;
mod output;
mod play;
mod process;
mod ps;
mod record;
mod restart;
mod rm;
mod run;
mod screen;
mod send;
mod session;
mod signal;
mod signals;
mod spec;
mod start;
mod status;
mod stop;
mod terminal;
mod text;
mod upgrade;
mod wait;
pub(crate) mod wire;

use std::path::PathBuf;
use std::sync::Arc;

use crate::access::token;
use crate::local;
use failure::{Failure, Result};
pub(crate) use text::time::utc;
use wire::client::Client;
use wire::endpoint::Endpoint;
use wire::tls::Trust;

/// Which server to talk to.
#[derive(clap::Args)]
pub(crate) struct Connection {
    /// Address of the server: http[s]://HOST:PORT or unix:PATH [default: the one on this machine]
    #[arg(long, global = true, env = "OUTLIVE_URL", value_name = "URL", help_heading = "Connection")]
    pub(crate) url: Option<String>,
    /// Token that the server asks for
    #[arg(
        long,
        global = true,
        env = "OUTLIVE_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Connection"
    )]
    pub(crate) token: Option<String>,
    /// Certificate authority (PEM) of the server [default: the system's]
    #[arg(long, global = true, env = "OUTLIVE_CA_CERT", value_name = "FILE", help_heading = "Connection")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Where servers on this machine leave their address
    #[arg(long, global = true, env = "OUTLIVE_STATE_DIR", value_name = "DIR", help_heading = "Connection")]
    pub(crate) state_dir: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    /// Start something and print its id
    Start(start::Start),
    /// List processes
    Ps(ps::Ps),
    Logs(logs::Logs),
    Attach(attach::Attach),
    Send(send::Send),
    /// Send a signal to a process and all its children
    Signal(signal::Signal),
    /// End processes: TERM to the whole tree, KILL after a grace time
    Stop(stop::Stop),
    /// Kill processes with all their children
    Kill(kill::Kill),
    /// End processes if they run, and start them again in place
    Restart(restart::Restart),
    /// Forget processes that have ended, with their output
    Rm(rm::Rm),
    Wait(wait::Wait),
    Session(session::Session),
    Screen(screen::Screen),
    Record(record::Record),
    Play(play::Play),
    /// Follow what happens to processes
    Events(events::Events),
    /// Show or change limits
    Config(config::Config),
    /// Show how the server is
    Status(status::Status),
    /// Replace the running server by the binary on disk; programs run on
    Upgrade(upgrade::Upgrade),
}

/// Runs a command; returns the exit code.
pub(crate) async fn execute(command: Command, connection: Connection) -> i32 {
    // Their exit codes are the program's: our own failures must be told apart.
    let is_programs = match &command {
        Command::Run(_) | Command::Attach(_) => true,
        Command::Session(session) => session.runs_commands(),
        _ => false,
    };
    let done = match command {
        Command::Play(play) if play.is_file() => play.play_file().await,
        command => match find_server(connection) {
            Ok(endpoint) => dispatch(command, Arc::new(Client::new(endpoint))).await,
            Err(failure) => Err(failure),
        },
    };
    done.unwrap_or_else(|failure| {
        if !output::is_closed(&failure) {
            output::complain(&failure);
        }
        match failure {
            Failure::Usage(_) | Failure::OutputClosed => failure.exit_code(),
            _ if is_programs => exit::OWN_FAILURE,
            _ => failure.exit_code(),
        }
    })
}

fn find_server(connection: Connection) -> Result<Endpoint> {
    let url = connection.url.filter(|url| !url.is_empty());
    let dir = local::state_dir(connection.state_dir.as_deref());
    let mut endpoint = if let Some(url) = &url {
        let mut endpoint = Endpoint::parse(url).map_err(Failure::Usage)?;
        // One on this machine that was named all the same.
        if let Some(found) = local::at(&dir, &endpoint.shown).filter(|_| endpoint.token.is_none()) {
            endpoint.token = found.token.or_else(|| token::first_in(found.token_file.as_deref()?));
            endpoint.trust = found.certificate.map_or(Trust::System, Trust::Exactly);
        }
        endpoint
    } else {
        let found = local::find(&dir).ok_or_else(|| match local::without_holder(&dir) {
            Some(url) => Failure::NoHolder(url),
            None => Failure::NoServer(dir),
        })?;
        let mut endpoint = Endpoint::parse(&found.url).map_err(Failure::Here)?;
        endpoint.is_here = true;
        endpoint.token = found.token.or_else(|| token::first_in(found.token_file.as_deref()?));
        endpoint.trust = found.certificate.map_or(Trust::System, Trust::Exactly);
        endpoint
    };
    if let Some(file) = connection.ca_cert {
        endpoint.trust = Trust::Authority(file);
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
        Command::Session(session) => session.execute(client).await,
        Command::Screen(screen) => screen.execute(client).await,
        Command::Record(record) => record.execute(client).await,
        Command::Play(play) => play.execute(client).await,
        Command::Events(events) => events.execute(client).await,
        Command::Config(config) => config.execute(client).await,
        Command::Status(status) => status.execute(client).await,
        Command::Upgrade(upgrade) => upgrade.execute(client).await,
    }
}
