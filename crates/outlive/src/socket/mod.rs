//! The engine behind every terminal socket, whatever language its client speaks.
//!
//! ```text
//!   log ──Cursor──▶ write ──▶ client      `Speech` turns items into frames …
//!                     ▲ replies
//!   process ◀── read ─┘ ◀──── client      … and frames into calls
//! ```
//!
//! The two halves run side by side, so that a client which does not read can still type, and be closed. What the
//! reading half has to say goes through a short queue to the writing half. Nothing else is buffered: the
//! writing half pulls from the log when the client takes more.

mod asked;
mod credit;
mod flood;
mod reader;
mod speech;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use futures_util::StreamExt;
use outlive_core::log::Cursor;
use outlive_core::process::Process;
use outlive_core::screen::Repaint;
use tokio::sync::mpsc;

use self::asked::Asked;
use self::credit::Credit;
pub(crate) use self::speech::{AfterGap, Frames, Reply, Speech};
use self::writer::{Ended, Writer};
use crate::api::App;
use crate::front::Share;
use crate::settings::Limits;

/// Largest frame that is sent; clients have small limits. One byte is left for a stream's number.
pub(crate) const FRAME_BYTES: usize = 64 * 1024 - 1;
/// How long one who is dismissed may take to hear of it.
const FAREWELL: Duration = Duration::from_millis(200);
/// Replies that may wait for a client which does not read.
const MAX_REPLIES: usize = 64;

/// Messages that are larger than allowed are not taken.
pub(crate) fn limited(socket: WebSocketUpgrade, limits: &Limits) -> WebSocketUpgrade {
    // What clients send is mostly a keystroke, and the buffer is cleared for every read.
    const READ_BYTES: usize = 4096;
    let most = usize::try_from(limits.max_message_bytes).unwrap_or(usize::MAX);
    socket.read_buffer_size(READ_BYTES).max_message_size(most).max_frame_size(most)
}

pub(crate) fn close(code: u16, reason: &'static str) -> Message {
    Message::Close(Some(CloseFrame { code, reason: reason.into() }))
}

/// Serves one client until it, the process or this server ends.
pub(crate) async fn serve<S: Speech>(app: App, process: Arc<Process>, speech: S, cursor: Cursor, socket: WebSocket) {
    serve_from(app, process, speech, cursor, None, socket).await;
}

/// The same, for one who is first shown a screen. The cursor is where that is true.
pub(crate) async fn serve_from<S: Speech>(
    app: App,
    process: Arc<Process>,
    speech: S,
    mut cursor: Cursor,
    screen: Option<(Repaint, Share)>,
    socket: WebSocket,
) {
    let (sink, mut stream) = socket.split();
    let (replies, queue) = mpsc::channel(MAX_REPLIES);
    let dead_after = Duration::from_millis(app.limits.socket_timeout_ms);
    let credit = Credit { window: speech.window(), acknowledged: cursor.offset() };
    let mut writer =
        Writer { app: &app, process: &process, speech: &speech, sink, queue, asked: Asked::default(), credit };
    let said_goodbye = AtomicBool::new(false);
    let ended = tokio::select! {
        ended = writer.run(&mut cursor, screen) => Some(ended),
        () = reader::read(&speech, &mut stream, replies, dead_after, &said_goodbye) => None,
        () = dismissed(&speech) => return cursor.close(),
    };
    // In the midst of a flood, the writing half may find the connection closed before it hears that the client wanted that.
    if matches!(ended, Some(Ended::Orderly)) || said_goodbye.load(Relaxed) {
        cursor.close();
    } else {
        drop(cursor);
    }
    let Writer { sink: _sink, .. } = writer;
    drop(speech);
    if ended.is_some() {
        // To close while something it said is unread would reset the connection, and take away what it has not read.
        let listen = async { while let Some(Ok(_)) = stream.next().await {} };
        let _ = tokio::time::timeout(dead_after, listen).await;
    }
}

/// Returns when a client that has to go has had the time to be told.
async fn dismissed<S: Speech>(speech: &S) {
    speech.dismissed().await;
    tokio::time::sleep(FAREWELL).await;
}
