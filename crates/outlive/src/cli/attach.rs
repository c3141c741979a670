//! `outlive attach`: be in a process's terminal; leave it and come back.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use super::attached::{Attached, Overlay, Plan};
use super::exit::Ending;
use super::failure::Result;
use super::output;
use super::process::find;
use super::terminal::keys::{self, Keys};
use super::text::amount;
use super::wire::client::Client;
use super::wire::socket::Start;

/// Enough for a large screen with colours.
const REPLAY_BYTES: u64 = 64 * 1024;

/// Attach to a process: see its recent output, then type into it
///
/// Detach with Ctrl-\ d (Ctrl-\ twice sends one); from a process without a terminal, with Ctrl-C. The exit code is
/// that of the program, 0 when you detach, 125 if outlive itself failed. A lost connection is taken up again where it broke off.
#[derive(clap::Args)]
pub(crate) struct Attach {
    /// Look, but do not type; does not change the size of the terminal either
    #[arg(short = 'r', long)]
    read_only: bool,
    /// Only what is printed from now on
    #[arg(long, conflicts_with = "tail")]
    no_replay: bool,
    /// How much of its recent output to show first [default: 64K, or what a full-screen program shows]
    #[arg(long, value_name = "BYTES", value_parser = amount::bytes)]
    tail: Option<u64>,
    /// Keys that detach, such as ctrl-p,ctrl-q; the first one twice sends itself; none for none
    #[arg(long, value_name = "KEYS", env = "OUTLIVE_DETACH_KEYS", default_value = keys::DEFAULT)]
    detach_keys: Keys,
    /// Id or tag
    id: String,
}

/// How it came that we are not attached any more.
pub(crate) enum End {
    Exited(Ending),
    Detached,
    /// A signal told us to end.
    Signalled(i32),
}

impl Attach {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let process = find(&client, &self.id).await?;
        let has_screen = process.tty && process.status == "running" && io::stdout().is_terminal();
        let overlay = if has_screen && !self.no_replay && self.tail.is_none() {
            Overlay::fetch(&client, &process.id).await
        } else {
            None
        };
        let start = match &overlay {
            Some(overlay) => Start::From(overlay.offset),
            None if self.no_replay => Start::Now,
            None => Start::Tail(self.tail.unwrap_or(REPLAY_BYTES)),
        };
        let plan = Plan { start, overlay, is_read_only: self.read_only, keys: self.detach_keys, is_announced: true };
        let is_interactive = io::stdin().is_terminal();
        if process.status == "created" {
            output::remark(format!("waiting until {} is started", process.name()));
        }
        let session = Attached::new(Arc::clone(&client), &process, plan)?;
        let end = session.run().await?;
        Ok(match end {
            End::Exited(ending) => {
                if is_interactive {
                    output::remark(ending.describe());
                }
                ending.exit_code()
            }
            End::Detached => {
                output::remark("detached; the program runs on");
                0
            }
            End::Signalled(code) => code,
        })
    }
}
