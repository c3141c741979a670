//! `outlive start`: start something and leave it alone.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::json;

use super::failure::{Failure, Result};
use super::spec::{SpecArgs, create, milliseconds};
use super::text::amount;
use super::wire::client::Client;
use super::{output, terminal};

#[derive(clap::Args)]
pub(crate) struct Start {
    /// On a terminal instead of pipes
    #[arg(short = 't', long)]
    tty: bool,
    /// Size of the terminal [default: this one's, else 80x24]
    #[arg(long, value_name = "COLSxROWS", value_parser = amount::size)]
    size: Option<(u16, u16)>,
    /// Whether to start it again when it ends
    #[arg(long, value_enum, value_name = "MODE")]
    restart: Option<Restart>,
    /// How often at most (0: without end)
    #[arg(long, value_name = "N", requires = "restart")]
    max_restarts: Option<u32>,
    /// What to do if the tag is taken: error, or return the process that has it
    #[arg(long, value_enum, value_name = "WHAT", default_value = "error")]
    if_tag_exists: IfTagExists,
    /// Only reserve it; start it later with `outlive restart`
    #[arg(long = "no-start")]
    only_reserve: bool,
    /// Give it no stdin
    #[arg(short = 'n', long)]
    no_stdin: bool,
    /// How long its record is kept after the end (24h by default)
    #[arg(long, value_name = "DURATION", value_parser = amount::duration)]
    retain: Option<Duration>,
    /// Kill it when nobody has been attached for this long
    #[arg(long, value_name = "DURATION", value_parser = amount::duration)]
    kill_after_detach: Option<Duration>,
    /// Print the whole record
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    spec: SpecArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Restart {
    Never,
    OnFailure,
    Always,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IfTagExists {
    Error,
    Return,
}

impl Start {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        if self.size.is_some() && !self.tty {
            return Err(Failure::Usage("--size is for a terminal; add -t".into()));
        }
        let mut body = self.spec.body(&client.endpoint)?;
        if self.tty {
            let own = terminal::size().map(|size| (size.cols, size.rows));
            body.insert("tty".into(), true.into());
            if let Some((cols, rows)) = self.size.or(own) {
                body.insert("cols".into(), cols.into());
                body.insert("rows".into(), rows.into());
            }
        }
        if let Some(mode) = self.restart {
            let mode = mode.to_possible_value().map(|value| value.get_name().to_owned());
            body.insert("restart".into(), json!({ "mode": mode, "maxRestarts": self.max_restarts.unwrap_or(0) }));
        }
        if self.if_tag_exists == IfTagExists::Return {
            body.insert("ifTagExists".into(), "return".into());
        }
        if self.only_reserve {
            body.insert("start".into(), false.into());
        }
        if self.no_stdin {
            body.insert("stdinMode".into(), "null".into());
        }
        for (name, time) in [("retainMs", self.retain), ("killAfterDetachMs", self.kill_after_detach)] {
            if let Some(time) = time {
                body.insert(name.into(), milliseconds(time).into());
            }
        }
        let (process, answer) = create(&client, body).await?;
        if self.json {
            output::json(&answer)?;
        } else {
            output::line(process.id)?;
        }
        Ok(0)
    }
}
