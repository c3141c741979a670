//! Those who want to know what a terminal shows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;

use super::behind::{Behind, Repaint};
use super::kept::State;
use super::model::MOST_SCROLLBACK;
use super::picture;
use super::sizes::Sizes;
use super::snapshot::{Snapshot, snapshot};
use crate::process::Process;
use crate::{Error, Result};

/// So long somebody waits for others' screens to be worked out.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

impl Process {
    /// What the terminal shows now.
    pub async fn snapshot(self: &Arc<Self>) -> Result<Snapshot> {
        self.with_screen(|behind| snapshot(&behind.shown(), behind.offset, behind.approximate)).await
    }

    /// The same as a picture, and after which byte of the log.
    pub async fn picture(self: &Arc<Self>) -> Result<(String, u64)> {
        self.with_screen(|behind| (picture::svg(&behind.shown()), behind.offset)).await
    }

    /// What a terminal must print to show the same, with so many lines above the screen.
    pub async fn repaint(self: &Arc<Self>, scrollback: usize) -> Result<Repaint> {
        self.with_screen(move |behind| behind.repaint(scrollback.min(MOST_SCROLLBACK))).await
    }

    /// The same for somebody who goes on from there, and would rather be shown something at once: where it cannot be worked out now,
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
            return Err(Error::conflict("not_a_terminal", "only what runs on a terminal has a screen; see /output"));
        }
        self.check_safe_mode()?;
        let log = self.log()?;
        let sizes = Arc::new(Sizes::of(self));
        let work = async |blank: bool| {
            let state: OwnedMutexGuard<State> = Arc::clone(&self.screen.state).lock_owned().await;
            // So many at a time: each needs memory, and a processor. It is done when it is done, whoever has hung up meanwhile.
            let turns = Arc::clone(&self.services.model_turns);
            let Ok(Ok(turn)) = tokio::time::timeout(LONGEST_WAIT, turns.acquire_owned()).await else { return Ok(None) };
            let (process, log, sizes, look) = (Arc::clone(self), Arc::clone(&log), Arc::clone(&sizes), look.clone());
            // A long log takes a while, and no other task should wait for that.
            tokio::task::spawn_blocking(move || {
                let (_turn, mut state) = (turn, state);
                // Taken out: should it fail in the midst of something, nobody uses it again.
                let mut behind = match state.behind.take() {
                    Some(behind) if !blank => behind,
                    _ if blank => Behind::blank(&log, &sizes),
                    _ => Behind::begin(&log, &sizes, process.checkpoint()),
                };
                behind.catch_up(&log, &sizes);
                let seen = look(&behind);
                state.behind = Some(behind);
                state.used = Some(Instant::now());
                process.keep_model(&mut state);
                Some(seen)
            })
            .await
        };
        let busy = || {
            let message = "other screens are being worked out; ask again, or attach without one".to_owned();
            Error::Exhausted { code: "screen_busy", message }
        };
        if let Ok(seen) = work(false).await {
            return seen.ok_or_else(busy);
        }
        tracing::error!(id = self.id(), "the screen of a process could not be worked out; it begins anew");
        let failed =
            |_| Error::Exhausted { code: "screen_failed", message: "the screen could not be worked out".to_owned() };
        work(true).await.map_err(failed)?.ok_or_else(busy)
    }
}
