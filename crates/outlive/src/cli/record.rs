//! `outlive record`: what a terminal has shown, as a file for players.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

use http_body_util::BodyExt;

use super::failure::{Failure, Result};
use super::process::{find, path};
use super::wire::client::{Call, Client};

/// Write down what a terminal has shown, with its times and sizes
///
/// The file is an asciicast: `outlive play`, asciinema and its web player know it. Nothing has to be switched on before: a terminal's log
/// is its recording. Only what is no longer in the log is missing.
#[derive(clap::Args)]
pub(crate) struct Record {
    /// Where to; - is stdout
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Version of the asciicast format
    #[arg(long = "format", value_name = "2|3", default_value = "2", value_parser = ["2", "3"])]
    version: String,
    /// Begin at this byte of its output
    #[arg(long, value_name = "OFFSET")]
    from: Option<u64>,
    /// Go on until it ends
    #[arg(short = 'f', long)]
    follow: bool,
    /// Id or tag
    id: String,
}

impl Record {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let is_stdout = self.output.as_ref().is_none_or(|file| file.as_os_str() == "-");
        if self.output.is_none() && io::stdout().is_terminal() {
            return Err(Failure::Usage("say where to: -o FILE, or -o - for this terminal".to_owned()));
        }
        let process = find(&client, &self.id).await?;
        let from = self.from.map(|from| format!("&from={from}")).unwrap_or_default();
        let query = format!("?version={}&follow={}{from}", self.version, self.follow);
        let call = Call::get(path(&process.id, &format!("recording{query}")));
        let mut body = client.stream(&call).await?;
        let mut out: Box<dyn Write> = match self.output.filter(|_| !is_stdout) {
            Some(file) => Box::new(
                File::create(&file)
                    .map_err(|error| Failure::Here(format!("{} cannot be written: {error}", file.display())))?,
            ),
            None => Box::new(io::stdout().lock()),
        };
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Failure::Here("the recording was cut off; record it again".to_owned()))?;
            if let Some(bytes) = frame.data_ref() {
                out.write_all(bytes)?;
                out.flush()?;
            }
        }
        Ok(0)
    }
}
