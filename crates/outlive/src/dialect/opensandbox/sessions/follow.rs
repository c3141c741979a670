//! The stream of one command in a session. As there, a client that goes away takes its command with it: the session is free for the next.

use std::io;
use std::sync::Arc;

use axum::body::Bytes;
use futures_util::{Stream, stream};
use outlive_core::log::{Cursor, Flow, Start, StreamFilter};
use outlive_core::session::{Exec, Session};
use tokio::time::Interval;

use super::super::events::end::{self, End};
use super::super::events::event::{Event, cut_off, ping, pings};
use super::super::events::output::{Output, PIECE_BYTES, Told};
use crate::api::App;

struct Running {
    app: App,
    session: Arc<Session>,
    exec: Arc<Exec>,
    limit_ms: Option<u64>,
    stage: Stage,
    pings: Interval,
}

enum Stage {
    /// Others are before it.
    Waits,
    Prints(Output),
    /// All was said that it printed.
    Ends,
    Over,
}

pub(super) fn follow(
    app: App,
    session: Arc<Session>,
    exec: Arc<Exec>,
    opening: Vec<u8>,
    limit_ms: Option<u64>,
) -> impl Stream<Item = io::Result<Bytes>> {
    let running = Running { app, session, exec, limit_ms, stage: Stage::Waits, pings: pings() };
    let rest = stream::unfold(running, |mut running| async move {
        let piece = running.next_piece().await?;
        Some((piece, running))
    });
    futures_util::StreamExt::chain(stream::iter([Ok(Bytes::from(opening))]), rest)
}

impl Drop for Running {
    fn drop(&mut self) {
        // A server that is replaced cuts its clients off, and nobody has left.
        if !matches!(self.stage, Stage::Over) && !*self.app.ending.borrow() {
            let _ = self.session.cancel(self.exec.id());
        }
    }
}

impl Running {
    async fn next_piece(&mut self) -> Option<io::Result<Bytes>> {
        let mut piece = Vec::new();
        while piece.is_empty() {
            if matches!(self.stage, Stage::Over) {
                return None;
            }
            tokio::select! {
                biased;
                () = self.app.ended() => {
                    self.stage = Stage::Over;
                    return Some(Err(cut_off()));
                }
                () = step(&self.exec, &mut self.stage, self.limit_ms, &mut piece) => {}
                _ = self.pings.tick() => ping(&mut piece),
            }
        }
        Some(Ok(piece.into()))
    }
}

/// Waits for the next thing that happens, and says it. Nothing is lost if it is dropped while it waits.
async fn step(exec: &Exec, stage: &mut Stage, limit_ms: Option<u64>, piece: &mut Vec<u8>) {
    match stage {
        Stage::Waits => {
            let log = exec.started().await.and_then(|sink| sink.log().ok());
            *stage = match log {
                Some(log) => {
                    let cursor = Cursor::new(log, Start::At(0), Flow::Lossless, StreamFilter::All);
                    Stage::Prints(Output::merged(cursor))
                }
                None => Stage::Ends,
            };
        }
        Stage::Prints(output) => {
            let mut item = Some(output.next().await);
            let mut after = None;
            while let Some(next) = item.take() {
                match output.tell(next, piece) {
                    Told::More if piece.len() < PIECE_BYTES => item = output.try_next(),
                    Told::More => {}
                    Told::Exited(_) => after = Some(Stage::Ends),
                    Told::Lost(why) => {
                        end::fault(&why).append(piece);
                        after = Some(Stage::Over);
                    }
                }
            }
            if let Some(after) = after {
                *stage = after;
            }
        }
        Stage::Ends => {
            exec.finished().await;
            event(exec, limit_ms).append(piece);
            *stage = Stage::Over;
        }
        Stage::Over => {}
    }
}

fn event(exec: &Exec, limit_ms: Option<u64>) -> Event<'static> {
    if let Some(error) = exec.failure() {
        return end::fault(&error.to_string());
    }
    let info = exec.info();
    End::of_exec(&info).event(info.duration_ms.unwrap_or(0), limit_ms)
}
