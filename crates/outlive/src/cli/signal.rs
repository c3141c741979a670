//! `outlive signal`: a signal to the whole tree.

use std::sync::Arc;

use serde_json::json;

use super::failure::{Failure, Result};
use super::process::{find, path};
use super::wire::client::{Call, Client};

#[derive(clap::Args)]
pub(crate) struct Signal {
    /// Id or tag
    id: String,
    /// A name such as INT or SIGINT, or a number
    signal: String,
}

impl Signal {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        outlive_core::signal::parse(&self.signal).map_err(|error| Failure::Usage(error.to_string()))?;
        let process = find(&client, &self.id).await?;
        client.ask(Call::post(path(&process.id, "signal")).json(json!({ "signal": self.signal }))).await?;
        Ok(0)
    }
}
