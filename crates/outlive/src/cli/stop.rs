//! `outlive stop`: TERM to the whole tree, KILL after a grace time.

use std::sync::Arc;
use std::time::Duration;

use super::failure::Result;
use super::process::{each, path};
use super::spec::milliseconds;
use super::text::amount;
use super::wait;
use super::wire::client::{Call, Client};

#[derive(clap::Args)]
pub(crate) struct Stop {
    /// Time between TERM and KILL [default: as configured, 5s]
    #[arg(long, value_name = "DURATION", value_parser = amount::duration)]
    grace: Option<Duration>,
    /// Return only when it has ended
    #[arg(short = 'w', long)]
    wait: bool,
    /// Ids or tags
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Stop {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let grace = self.grace.map_or(String::new(), |grace| format!("&graceMs={}", milliseconds(grace)));
        let what = format!("stop?waitMs=0{grace}");
        let mut stopped = Vec::new();
        let worst = each(&client, &self.ids, async |client, process| {
            client.ask(Call::post(path(&process.id, &what)).repeatable()).await?;
            stopped.push(process.id);
            Ok(0)
        })
        .await?;
        if self.wait {
            for id in &stopped {
                wait::until_exit(&client, id).await?;
            }
        }
        Ok(worst)
    }
}
