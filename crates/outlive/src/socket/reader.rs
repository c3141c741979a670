//! The reading half: what the client says.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::extract::ws::WebSocket;
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use tokio::sync::mpsc;

use super::asked::Asked;
use super::close;
use super::speech::{Reply, Speech};

/// Returns when the client is gone.
pub(super) async fn read<S: Speech>(
    speech: &S,
    stream: &mut SplitStream<WebSocket>,
    replies: mpsc::Sender<Reply>,
    dead_after: Duration,
    said_goodbye: &AtomicBool,
) {
    let mut last_sign = Instant::now();
    loop {
        let patience = dead_after.saturating_sub(last_sign.elapsed());
        let message = match tokio::time::timeout(patience, stream.next()).await {
            Ok(Some(Err(error))) if is_too_large(&error) => None,
            Ok(Some(Ok(message))) => Some(message),
            _ => return,
        };
        last_sign = Instant::now();
        let reply = match message {
            None => Reply::Close(close(1009, "the message is too large")),
            Some(message) => match Asked::offset_of(&message) {
                Some(offset) => Reply::Answered(offset),
                None => speech.understand(message).await,
            },
        };
        match reply {
            Reply::Nothing => {}
            // A client that does not read its error frames loses them, not us our memory; and the answer to the
            // next ping, or the next key, says more than this one.
            reply @ (Reply::Send(_) | Reply::Answered(_) | Reply::Typed) => drop(replies.try_send(reply)),
            reply @ Reply::Acknowledge(_) => {
                if replies.send(reply).await.is_err() {
                    return;
                }
            }
            reply @ Reply::Close(_) => {
                said_goodbye.store(true, Relaxed);
                if replies.send(reply).await.is_ok() {
                    // The writing half ends the connection.
                    replies.closed().await;
                }
                return;
            }
        }
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    use tokio_tungstenite::tungstenite::Error;
    let inner = std::error::Error::source(error).and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(Error::Capacity(_)))
}
