//! `outlive kill`: KILL to the whole tree.

use std::sync::Arc;

use super::failure::Result;
use super::process::{each, path};
use super::wire::client::{Call, Client};

#[derive(clap::Args)]
pub(crate) struct Kill {
    /// Ids or tags
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Kill {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        each(&client, &self.ids, async |client, process| {
            client.ask(Call::post(path(&process.id, "kill")).repeatable()).await.map(|_| 0)
        })
        .await
    }
}
