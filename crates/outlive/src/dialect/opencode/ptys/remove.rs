//! The end of a terminal by its client. It is gone at once for everybody here; its tree is ended behind that, in an orderly way first, and by the next server if
//! this one dies meanwhile.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::Core;
use outlive_core::process::{Patch, Process};

use super::super::error::Failure;
use super::DELETED;

/// For those who want to say goodbye.
const GRACE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn remove(process: &Arc<Process>) -> Result<(), Failure> {
    let mark = [(DELETED.to_owned(), Some("1".to_owned()))];
    process.patch(Patch { annotations: mark.into(), ..Patch::default() })?;
    tokio::spawn(end(Arc::clone(process)));
    Ok(())
}

async fn end(process: Arc<Process>) {
    if process.is_running() {
        let _ = process.hang_up(GRACE, PATIENCE).await;
    }
    if let Err(error) = process.delete(true).await {
        tracing::warn!(id = process.id(), %error, "a deleted terminal could not be ended");
    }
}

/// Ends what the server before was about to end.
pub(in super::super) fn go_on_removing(core: &Core) {
    for process in core.list(true) {
        if process.spec().annotations.contains_key(DELETED) {
            tokio::spawn(end(process));
        }
    }
}
