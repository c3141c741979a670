//! The stream of a command's events, from its output to its end. A client that goes away changes nothing: the command goes on.

use std::io;
use std::sync::Arc;

use axum::body::Bytes;
use futures_util::{Stream, stream};
use outlive_core::attach::{Attachment, Role};
use outlive_core::log::{Exit, Item};
use outlive_core::process::Process;
use tokio::time::Interval;

use super::super::error::Failure;
use super::super::events::end::{self, End};
use super::super::events::event::{cut_off, ping, pings};
use super::super::events::output::{Output, PIECE_BYTES, Told};
use super::super::launch::program::START_ERROR;
use crate::api::App;
use crate::peer::Peer;

struct Following {
    app: App,
    process: Arc<Process>,
    _attachment: Attachment,
    output: Output,
    pings: Interval,
    is_over: bool,
}

pub(super) fn follow(
    app: App,
    process: Arc<Process>,
    output: Output,
    opening: Vec<u8>,
    peer: &Peer,
) -> Result<impl Stream<Item = io::Result<Bytes>> + use<>, Failure> {
    let attachment = process.attach(Role::Viewer, Some(peer.to_string()), None)?;
    app.metrics.attached();
    let pings = pings();
    let following = Following { app, process, _attachment: attachment, output, pings, is_over: false };
    let rest = stream::unfold(following, |mut following| async move {
        let piece = following.next_piece().await?;
        Some((piece, following))
    });
    Ok(futures_util::StreamExt::chain(stream::iter([Ok(Bytes::from(opening))]), rest))
}

impl Following {
    /// Waits for something to say, and says with it what else is there by then.
    async fn next_piece(&mut self) -> Option<io::Result<Bytes>> {
        if self.is_over {
            return None;
        }
        let mut piece = Vec::new();
        // What was told before makes no event: until there is one, it goes on.
        while piece.is_empty() && !self.is_over {
            tokio::select! {
                biased;
                () = self.app.ended() => {
                    self.is_over = true;
                    return Some(Err(cut_off()));
                }
                item = self.output.next() => self.tell(item, &mut piece),
                () = self.process.until_removed() => {
                    end::fault("the command was deleted").append(&mut piece);
                    self.is_over = true;
                }
                _ = self.pings.tick() => ping(&mut piece),
            }
            while piece.len() < PIECE_BYTES
                && let Some(item) = self.output.try_next()
            {
                self.tell(item, &mut piece);
            }
        }
        Some(Ok(piece.into()))
    }

    fn tell(&mut self, item: Item, piece: &mut Vec<u8>) {
        match self.output.tell(item, piece) {
            Told::More => {}
            Told::Exited(exit) => self.tell_exit(&exit, piece),
            Told::Lost(why) => {
                end::fault(&format!("{why}; the command goes on")).append(piece);
                self.is_over = true;
            }
        }
    }

    fn tell_exit(&mut self, exit: &Exit, piece: &mut Vec<u8>) {
        // Who has heard of the end finds it in the status.
        self.process.news();
        let spec = self.process.spec();
        let mut event = if let Some(why) = spec.annotations.get(START_ERROR) {
            end::fault(why)
        } else {
            let started = self.process.info().started_at_ms.unwrap_or(exit.at_ms);
            End::of(exit).event(exit.at_ms.saturating_sub(started), spec.timeout_ms)
        };
        event.eid = Output::last_eid(exit);
        event.append(piece);
        self.is_over = true;
    }
}
