//! `outlive record`: save the recorded output of a terminal as an asciicast.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

use http_body_util::BodyExt;

use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::process::{find, process_path};

/// Save the output of a terminal as an asciicast
///
/// The file has the times and sizes of the terminal. Play it with `outlive play`, asciinema or its web player. The log
/// of the process is the recording, so only output that the log no longer keeps is missing.
#[derive(clap::Args)]
pub(crate) struct Record {
    /// Output file; - for stdout
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Asciicast version
    #[arg(long = "format", value_name = "2|3", default_value = "2", value_parser = ["2", "3"])]
    version: String,
    /// Start at this output offset
    #[arg(long, value_name = "OFFSET")]
    from: Option<u64>,
    /// Record until the process exits
    #[arg(short = 'f', long)]
    follow: bool,
    /// Process ID or tag
    id: String,
}

impl Record {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let is_stdout = self.output.as_ref().is_none_or(|file| file.as_os_str() == "-");
        if self.output.is_none() && io::stdout().is_terminal() {
            return Err(CliError::Usage("no output file given; use -o FILE, or -o - for stdout".to_owned()));
        }
        let process = find(&client, &self.id).await?;
        let from = self.from.map(|from| format!("&from={from}")).unwrap_or_default();
        let query = format!("?version={}&follow={}{from}", self.version, self.follow);
        let request = ApiRequest::get(process_path(&process.id, &format!("recording{query}")));
        let mut body = client.stream(&request).await?;
        let mut out: Box<dyn Write> = match self.output.filter(|_| !is_stdout) {
            Some(file) => Box::new(
                File::create(&file)
                    .map_err(|error| CliError::Local(format!("cannot create {}: {error}", file.display())))?,
            ),
            None => Box::new(io::stdout().lock()),
        };
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| CliError::Local("the recording was cut off; record it again".to_owned()))?;
            if let Some(bytes) = frame.data_ref() {
                out.write_all(bytes)?;
                out.flush()?;
            }
        }
        Ok(0)
    }
}
