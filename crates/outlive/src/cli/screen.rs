//! `outlive screen`: what a terminal shows now.

use std::io::{self, Write};
use std::sync::Arc;

use super::failure::Result;
use super::process::{find, path};
use super::wire::client::{Call, Client};

/// Print what a terminal shows now, without attaching to it
///
/// As text for people and agents; `json` adds cursor, title and modes, `svg` is a picture, and `ansi` are the bytes that make a terminal
/// show the same (they begin by resetting it).
#[derive(clap::Args)]
pub(crate) struct Screen {
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json", "ansi", "svg"])]
    format: String,
    /// Id or tag
    id: String,
}

impl Screen {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let process = find(&client, &self.id).await?;
        let call = Call::get(path(&process.id, &format!("screen?format={}", self.format)));
        let body = client.fetch(&call).await?.into_body();
        let mut out = io::stdout().lock();
        out.write_all(&body)?;
        if self.format == "json" {
            out.write_all(b"\n")?;
        }
        out.flush()?;
        Ok(0)
    }
}
