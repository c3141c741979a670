//! `outlive restart`: end it if it runs, start it again in place.

use std::sync::Arc;
use std::time::Duration;

use super::failure::Result;
use super::process::{each, path};
use super::spec::milliseconds;
use super::text::amount;
use super::wire::client::{Call, Client};

#[derive(clap::Args)]
pub(crate) struct Restart {
    /// Time between TERM and KILL [default: as configured, 5s]
    #[arg(long, value_name = "DURATION", value_parser = amount::duration)]
    grace: Option<Duration>,
    /// Ids or tags
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Restart {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let grace = self.grace.map_or(String::new(), |grace| format!("?graceMs={}", milliseconds(grace)));
        each(&client, &self.ids, async |client, process| {
            // One that was only reserved has nothing to end.
            let what = if process.status == "created" { "start".to_owned() } else { format!("restart{grace}") };
            client.ask(Call::post(path(&process.id, &what)).patient()).await.map(|_| 0)
        })
        .await
    }
}
