//! `outlive start`: start a process in the background.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::json;

use super::client::Client;
use super::error::{CliError, Result};
use super::spec::{SpecArgs, create_process, millis};
use super::text::units;
use super::{output, terminal};

#[derive(clap::Args)]
#[expect(clippy::struct_field_names, reason = "the field is the flag --no-start")]
pub(crate) struct Start {
    /// Allocate a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// Terminal size [default: size of this terminal, or 80x24]
    #[arg(long, value_name = "COLSxROWS", value_parser = units::parse_size)]
    size: Option<(u16, u16)>,
    /// Restart policy
    #[arg(long, value_enum, value_name = "MODE")]
    restart: Option<RestartMode>,
    /// Maximum number of restarts (0: no limit)
    #[arg(long, value_name = "N", requires = "restart")]
    max_restarts: Option<u32>,
    /// If the tag is taken: fail, or return the process that has it
    #[arg(long, value_enum, value_name = "ACTION", default_value = "error")]
    if_tag_exists: IfTagExists,
    /// Create the process without starting it; start it with `outlive restart`
    #[arg(long)]
    no_start: bool,
    /// Use /dev/null as stdin
    #[arg(short = 'n', long)]
    no_stdin: bool,
    /// Keep the process record for this long after exit [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    retain: Option<Duration>,
    /// Kill the process when no client has been attached for this long
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    kill_after_detach: Option<Duration>,
    /// Print the process record as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    spec: SpecArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum RestartMode {
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
            return Err(CliError::Usage("--size requires -t".into()));
        }
        let mut body = self.spec.to_json(&client.endpoint)?;
        if self.tty {
            let current = terminal::size().map(|size| (size.cols, size.rows));
            body.insert("tty".into(), true.into());
            if let Some((cols, rows)) = self.size.or(current) {
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
        if self.no_start {
            body.insert("start".into(), false.into());
        }
        if self.no_stdin {
            body.insert("stdinMode".into(), "null".into());
        }
        for (name, duration) in [("retainMs", self.retain), ("killAfterDetachMs", self.kill_after_detach)] {
            if let Some(duration) = duration {
                body.insert(name.into(), millis(duration).into());
            }
        }
        let (process, response) = create_process(&client, body).await?;
        if self.json {
            output::print_json(&response)?;
        } else {
            output::print_line(process.id)?;
        }
        Ok(0)
    }
}
