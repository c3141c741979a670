//! A terminal whose shell has ended. `SandboxAddon` connects again after every close, and would do so for ever: so it is told what
//! there is to tell, and the socket stays open.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use outlive_core::log::Exit;
use outlive_core::process::Process;

use super::speech;
use crate::api::App;
use crate::socket;

pub(super) async fn stay(app: &App, process: &Process, exit: &Exit, mut socket: WebSocket) {
    let dead_after = Duration::from_millis(app.limits.socket_timeout_ms);
    for frame in [speech::ready(), speech::exit(exit)] {
        if !sent(&mut socket, frame, dead_after).await {
            return;
        }
    }
    let mut ping = tokio::time::interval(dead_after / 3);
    ping.reset();
    let mut last_sign = Instant::now();
    loop {
        let answer = tokio::select! {
            message = socket.recv() => {
                last_sign = Instant::now();
                match message {
                    Some(Ok(Message::Binary(_))) => Some(speech::error("the shell has ended")),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => None,
                }
            }
            _ = ping.tick() => {
                let lives = last_sign.elapsed() < dead_after;
                Some(if lives { Message::Ping(Bytes::new()) } else { Message::Close(None) })
            }
            () = process.until_removed() => Some(socket::close(1000, "the terminal was deleted")),
            () = app.ended() => Some(socket::close(1012, "the server is being replaced; connect again")),
        };
        let Some(answer) = answer else { continue };
        let is_last = matches!(answer, Message::Close(_));
        if !sent(&mut socket, answer, dead_after).await || is_last {
            return;
        }
    }
}

/// Who does not read for so long is not there.
async fn sent(socket: &mut WebSocket, frame: Message, within: Duration) -> bool {
    matches!(tokio::time::timeout(within, socket.send(frame)).await, Ok(Ok(())))
}
