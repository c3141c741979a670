//! Those who want to know what a terminal shows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::behind::{Behind, Repaint};
use super::model::MOST_SCROLLBACK;
use super::picture;
use super::sizes::Sizes;
use super::snapshot::{Snapshot, snapshot};
use crate::process::Process;
use crate::{Error, Result};

/// So long somebody waits for others who want to know this screen, and for other screens that are being worked out.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Why a model could not be looked at.
enum Unseen {
    Busy,
    /// It failed in the midst of something, and is given up.
    Failed,
}

impl Process {
    /// What the terminal shows now.
    pub async fn snapshot(self: &Arc<Self>) -> Result<Snapshot> {
        self.with_screen(|behind| snapshot(&behind.shown(), behind.offset, behind.approximate)).await
    }

    /// The same as a picture, and after which byte of the log.
    pub async fn picture(self: &Arc<Self>) -> Result<(String, u64)> {
        self.with_screen(|behind| (picture::svg(&behind.shown()), behind.offset)).await
    }

    /// What a terminal must print to show the same, with so many lines above the screen, or fewer if each needs very much.
    pub async fn repaint(self: &Arc<Self>, scrollback: usize) -> Result<Repaint> {
        self.with_screen(move |behind| behind.repaint_within(scrollback.min(MOST_SCROLLBACK))).await
    }

    /// What a terminal that shows other things must print to show what a program has drawn on the alternate screen; empty if it
    /// draws on the main one.
    pub async fn overlay(self: &Arc<Self>) -> Result<Repaint> {
        self.with_screen(Behind::overlay).await
    }

    /// A repaint for somebody who goes on from there, and would rather be shown something at once: where it cannot be worked out now,
    /// an empty screen, from which the end of the log leads to nearly the same.
    pub async fn repaint_or_nearly(self: &Arc<Self>, scrollback: usize) -> Result<Repaint> {
        match self.repaint(scrollback).await {
            Err(Error::Exhausted { .. }) => {
                let log = self.log()?;
                Ok(Behind::near_the_end(&log, &Sizes::of(self)).repaint(0))
            }
            known => known,
        }
    }

    /// Brings the model to the end of the log, and looks at it.
    pub(super) async fn with_screen<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl Fn(&Behind) -> T + Clone + Send + 'static,
    ) -> Result<T> {
        if !self.is_terminal() {
            return Err(Error::conflict(
                "not_a_terminal",
                "only what runs on a terminal has a screen; read what it has printed instead",
            ));
        }
        self.check_safe_mode()?;
        let seen = match self.look(look.clone(), false).await? {
            Err(Unseen::Failed) => {
                tracing::error!(id = self.id(), "the screen of a process could not be worked out; it begins anew");
                self.look(look, true).await?
            }
            seen => seen,
        };
        let refused = |code, message: &str| Error::Exhausted { code, message: message.to_owned() };
        seen.map_err(|why| match why {
            Unseen::Busy => {
                refused("screen_busy", "other screens are being worked out; ask again, or attach without one")
            }
            Unseen::Failed => refused("screen_failed", "the screen could not be worked out"),
        })
    }

    /// `anew`: whatever the model knew is forgotten.
    async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl Fn(&Behind) -> T + Send + 'static,
        anew: bool,
    ) -> Result<std::result::Result<T, Unseen>> {
        let (process, log, sizes) = (Arc::clone(self), self.log()?, Sizes::of(self));
        // So many at a time: each needs memory, and a processor. It is done when it is done, whoever has hung up meanwhile.
        let turns = Arc::clone(&self.services.model_turns);
        let waiting = async { (Arc::clone(&self.screen.state).lock_owned().await, turns.acquire_owned().await) };
        let Ok((mut state, Ok(turn))) = tokio::time::timeout(LONGEST_WAIT, waiting).await else {
            return Ok(Err(Unseen::Busy));
        };
        // A long log takes a while, and no other task should wait for that.
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            // Taken out: should it fail in the midst of something, nobody uses it again.
            let mut behind = match state.behind.take() {
                _ if anew => Behind::blank(&log, &sizes),
                Some(behind) => behind,
                None => Behind::begin(&log, &sizes, process.checkpoint()),
            };
            behind.catch_up(&log, &sizes);
            let seen = look(&behind);
            state.behind = Some(behind);
            state.used = Some(Instant::now());
            process.keep_model(&mut state);
            seen
        });
        Ok(work.await.map_err(|_| Unseen::Failed))
    }
}
