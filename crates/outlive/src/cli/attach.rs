//! `outlive attach`: attach to a process, detach and attach again.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use super::attach_loop::{AlternateScreen, AttachLoop, AttachOptions, AttachOutcome};
use super::client::Client;
use super::client::socket::OutputStart;
use super::error::Result;
use super::output;
use super::process::find;
use super::terminal::keys::{self, DetachKeys};
use super::text::units;

/// Fills a large screen with colours.
const REPLAY_BYTES: u64 = 64 * 1024;

/// Attach to a running process
///
/// Prints recent output, then forwards your input. Detach with Ctrl-\ d, or with Ctrl-C if the process has no
/// terminal. Press Ctrl-\ twice to send it once. A lost connection is resumed without losing output.
///
/// Exits with the exit code of the process, 0 after detaching, or 125 if outlive itself failed.
#[derive(clap::Args)]
pub(crate) struct Attach {
    /// Do not send input or change the terminal size
    #[arg(short = 'r', long)]
    read_only: bool,
    /// Print only new output
    #[arg(long, conflicts_with = "tail")]
    no_replay: bool,
    /// Bytes of recent output to print first [default: 64K, or the current screen of a full-screen program]
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    tail: Option<u64>,
    /// Key sequence for detaching, such as ctrl-p,ctrl-q, or none
    #[arg(long, value_name = "KEYS", env = "OUTLIVE_DETACH_KEYS", default_value = keys::DEFAULT)]
    detach_keys: DetachKeys,
    /// Process ID or tag
    id: String,
}

impl Attach {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let process = find(&client, &self.id).await?;
        let has_screen = process.tty && process.status == "running" && io::stdout().is_terminal();
        let alternate_screen = if has_screen && !self.no_replay && self.tail.is_none() {
            AlternateScreen::fetch(&client, &process.id).await
        } else {
            None
        };
        let start = match &alternate_screen {
            Some(screen) => OutputStart::From(screen.offset),
            None if self.no_replay => OutputStart::Now,
            None => OutputStart::Tail(self.tail.unwrap_or(REPLAY_BYTES)),
        };
        let options = AttachOptions {
            start,
            alternate_screen,
            is_read_only: self.read_only,
            keys: self.detach_keys,
            announce: true,
        };
        let is_interactive = io::stdin().is_terminal();
        if process.status == "created" {
            output::print_notice(format!("waiting for {} to start", process.display_name()));
        }
        Ok(match AttachLoop::new(Arc::clone(&client), &process, options)?.run().await? {
            AttachOutcome::Exited(exit_status) => {
                if is_interactive {
                    output::print_notice(exit_status.describe());
                }
                exit_status.exit_code()
            }
            AttachOutcome::Detached => {
                output::print_notice("detached; the process keeps running");
                0
            }
            AttachOutcome::Signalled(code) => code,
        })
    }
}
