//! `outlive rm`: forget a process and its output.

use std::sync::Arc;

use super::failure::Result;
use super::process::{each, path};
use super::wire::client::{Call, Client};

#[derive(clap::Args)]
pub(crate) struct Rm {
    /// Kill what still runs
    #[arg(short = 'f', long)]
    force: bool,
    /// Ids or tags
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Rm {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        each(&client, &self.ids, async |client, process| remove(client, &process.id, self.force).await.map(|()| 0))
            .await
    }
}

/// Gone already is gone as well.
pub(crate) async fn remove(client: &Client, id: &str, force: bool) -> Result<()> {
    match client.ask(Call::delete(path(id, &format!("?force={force}"))).repeatable()).await {
        Err(failure) if failure.status() != Some(404) => Err(failure),
        _ => Ok(()),
    }
}
