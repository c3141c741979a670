//! outlive: processes and terminals that outlive their connections.
//!
//! One binary, three parts: `serve` becomes the holder, the holder starts servers, everything else is a client.

mod access;
mod api;
mod asciicast;
mod cli;
mod decoder;
mod dialect;
mod front;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod local;
mod peer;
mod serve;
mod server;
mod settings;
mod socket;
mod unix_socket;

use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[derive(Parser)]
#[command(name = "outlive", version, about = "Processes and terminals that outlive their connections")]
struct Arguments {
    #[command(flatten)]
    connection: cli::Connection,
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Start the daemon
    Serve(serve::Options),
    #[command(flatten)]
    Client(cli::Command),
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Work out the OpenAPI document and print it
    #[cfg(debug_assertions)]
    #[command(hide = true)]
    Openapi,
    /// What `serve` becomes: keeps everything that must not die
    #[command(hide = true)]
    Hold {
        /// Descriptor with the holder's state
        state: i32,
        /// Only read the state and say whether it is understood
        #[arg(long)]
        check: bool,
    },
    /// What the holder starts: the disposable part (descriptor 0 is the line to the holder)
    #[command(hide = true)]
    Server(server::Options),
}

/// The whole program.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let code = match arguments.mode {
        Mode::Serve(options) => serve::serve(&options, &arguments.connection),
        Mode::Hold { state, check } => hold(state, check),
        Mode::Server(options) => server::run(&options),
        Mode::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "outlive", &mut script);
            // Whoever reads may have enough.
            let _ = std::io::stdout().write_all(&script);
            0
        }
        #[cfg(debug_assertions)]
        Mode::Openapi => i32::from(std::io::stdout().write_all(api::openapi().as_bytes()).is_err()),
        Mode::Client(command) => client(command, arguments.connection),
    };
    ExitCode::from(code.clamp(0, 255) as u8)
}

fn client(command: cli::Command, connection: cli::Connection) -> i32 {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(cli::execute(command, connection)),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "outlive: cannot start: {error}");
            1
        }
    }
}

fn hold(state: i32, check: bool) -> i32 {
    // SAFETY: the number was given to us by `serve` or by the holder before, for us to own.
    let state = unsafe { OwnedFd::from_raw_fd(state) };
    if check { outlive_holder::check(state) } else { outlive_holder::hold(state) }
}
