//! Waiting for something that others change.

use tokio::sync::Notify;

/// Waits until `look` finds what it wants, looking again whenever `changed` tells. Registered before each look, so that
/// no change is missed.
pub(crate) async fn until<T>(changed: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        let mut told = std::pin::pin!(changed.notified());
        told.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        told.await;
    }
}
