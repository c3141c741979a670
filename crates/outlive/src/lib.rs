//! outlive: processes and terminals that outlive their connections.
//!
//! One binary with three roles: `serve` becomes the holder, the holder starts servers, and all other commands are clients
//! (`cli`).

// Parts of `http/` and `socket/` serve dialects only, and are unused when their features are off.
#![cfg_attr(
    not(all(feature = "cloudflare", feature = "e2b", feature = "opencode", feature = "opensandbox")),
    allow(dead_code, unused_imports)
)]

mod access;
mod api;
mod asciicast;
mod cli;
#[cfg(test)]
mod cli_reference;
mod dialect;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod http;
mod local_daemon;
mod rfc3339;
mod serve;
mod server;
mod settings;
mod socket;
mod utf8_decoder;

use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[derive(Parser)]
#[command(name = "outlive", version, about = "Processes and terminals that outlive their connections")]
struct Arguments {
    #[command(flatten)]
    connection: cli::ConnectionArgs,
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Start the daemon
    Serve(serve::Options),
    #[command(flatten)]
    Client(cli::Command),
    /// Print shell completions
    Completions {
        /// Shell to print completions for
        shell: clap_complete::Shell,
    },
    /// Generate the OpenAPI document and print it
    #[cfg(debug_assertions)]
    #[command(hide = true)]
    Openapi,
    /// Run the holder, which owns processes and logs; `serve` executes this
    #[command(hide = true)]
    Hold {
        /// File descriptor of the holder's state
        state: i32,
        /// Only check that this version can read the state
        #[arg(long)]
        check: bool,
    },
    /// Run the server; the holder starts this, with its socket as descriptor 0
    #[command(hide = true)]
    Server(server::Options),
}

/// Entry point: parses the command line, runs the command and returns its exit code.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let code = match arguments.mode {
        Mode::Serve(options) => serve::serve(&options, &arguments.connection),
        Mode::Hold { state, check } => hold(state, check),
        Mode::Server(options) => server::run(&options),
        Mode::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "outlive", &mut script);
            // The reader may close the pipe early.
            let _ = std::io::stdout().write_all(&script);
            0
        }
        #[cfg(debug_assertions)]
        Mode::Openapi => i32::from(std::io::stdout().write_all(dialect::main_openapi().as_bytes()).is_err()),
        Mode::Client(command) => client(command, arguments.connection),
    };
    ExitCode::from(code.clamp(0, 255) as u8)
}

fn client(command: cli::Command, connection: cli::ConnectionArgs) -> i32 {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(cli::execute(command, connection)),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "outlive: cannot start: {error}");
            1
        }
    }
}

fn hold(state: i32, check: bool) -> i32 {
    // SAFETY: `serve` or the previous holder image passed this descriptor for this process to own.
    let state = unsafe { OwnedFd::from_raw_fd(state) };
    if check { outlive_holder::check(state) } else { outlive_holder::hold(state) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_has_a_one_line_help() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let name = format!("{} {}", command.get_name(), argument.get_id());
                assert!(!help.is_empty() && !help.contains('\n') && !help.ends_with('.'), "{name}: {help:?}");
            }
            command.get_subcommands().filter(|command| !command.is_hide_set()).for_each(check);
        }
        check(&Arguments::command());
    }
}
