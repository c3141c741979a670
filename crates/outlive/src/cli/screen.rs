//! `outlive screen`: print the current screen of a terminal.

use std::io::{self, Write};
use std::sync::Arc;

use super::client::{ApiRequest, Client};
use super::error::Result;
use super::process::{find, process_path};

/// Print the current screen of a terminal
///
/// Formats: text; json, which adds cursor, title and modes; svg, an image; ansi, the bytes that reset a terminal and
/// redraw the screen.
#[derive(clap::Args)]
pub(crate) struct Screen {
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json", "ansi", "svg"])]
    format: String,
    /// Process ID or tag
    id: String,
}

impl Screen {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let process = find(&client, &self.id).await?;
        let request = ApiRequest::get(process_path(&process.id, &format!("screen?format={}", self.format)));
        let body = client.fetch_bytes(&request).await?.into_body();
        let mut out = io::stdout().lock();
        out.write_all(&body)?;
        if self.format == "json" {
            out.write_all(b"\n")?;
        }
        out.flush()?;
        Ok(0)
    }
}
