//! The end of a command before its time; of a session too, if the id is one's.

use std::time::Duration;

use axum::extract::State;
use serde::Deserialize;

use super::super::asked::Asked;
use super::super::error::Failure;
use super::super::{ids, sessions};
use crate::api::App;

/// Between TERM and KILL of an interrupt.
const GRACE: Duration = Duration::from_secs(3);
/// How long the answer waits for both.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
pub(in super::super) struct InterruptQuery {
    #[serde(default)]
    id: String,
}

/// TERM to the whole tree, and KILL to what is left of it. Answered when it is over.
pub(in super::super) async fn interrupt(
    State(app): State<App>,
    Asked(InterruptQuery { id }): Asked<InterruptQuery>,
) -> Result<(), Failure> {
    if id.is_empty() {
        return Err(Failure::missing_query("missing query parameter 'id'"));
    }
    let Some(process) = ids::find(&app, &id) else {
        return sessions::rest::end(&app, &id).await.map_err(|_| Failure::no_command(&id));
    };
    if !process.is_running() {
        return Err(Failure::not_running(&id));
    }
    Ok(process.stop(GRACE, PATIENCE).await?)
}
