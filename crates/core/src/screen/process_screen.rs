//! The screen of a process for clients: snapshot, picture, repaint and overlay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::model::MAX_SCROLLBACK_LINES;
use super::model_reader::{ModelReader, Repaint, SizeTimeline};
use super::picture;
use super::snapshot::{Snapshot, snapshot};
use crate::process::Process;
use crate::{Error, Result};

/// How long a request waits for other requests for this screen, and for other screens.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that was restarted repeatedly computes no screens for this long: one of them may be the cause.
const SAFE_MODE_DURATION: Duration = Duration::from_secs(60);

/// Why a model could not be read.
enum ModelFailure {
    Busy,
    /// The model panicked and was discarded.
    Panicked,
}

impl Process {
    pub async fn snapshot(self: &Arc<Self>) -> Result<Snapshot> {
        self.with_model(|reader| snapshot(&reader.complete_model(), reader.offset, reader.approximate)).await
    }

    /// The screen as SVG, and the log offset that it is valid for.
    pub async fn picture(self: &Arc<Self>) -> Result<(String, u64)> {
        self.with_model(|reader| (picture::svg(&reader.complete_model()), reader.offset)).await
    }

    /// The bytes that make an empty terminal show this screen with up to `scrollback` lines above it; fewer if they are
    /// very large.
    pub async fn repaint(self: &Arc<Self>, scrollback: usize) -> Result<Repaint> {
        self.with_model(move |reader| reader.bounded_repaint(scrollback.min(MAX_SCROLLBACK_LINES))).await
    }

    /// The bytes that make a terminal with other contents show the alternate screen; empty if the program draws on the
    /// main screen.
    pub async fn overlay(self: &Arc<Self>) -> Result<Repaint> {
        self.with_model(ModelReader::overlay).await
    }

    /// A repaint for a client that continues with the log. If none can be computed now, it is an empty screen near the
    /// end of the log: the output that follows leads to nearly the same screen.
    pub async fn repaint_or_approximate(self: &Arc<Self>, scrollback: usize) -> Result<Repaint> {
        match self.repaint(scrollback).await {
            Err(Error::Exhausted { .. }) => {
                let log = self.log()?;
                Ok(ModelReader::near_the_end(&log, &SizeTimeline::for_process(self)).repaint(0))
            }
            result => result,
        }
    }

    /// Brings the model to the end of the log, and applies `read` to it.
    pub(super) async fn with_model<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&ModelReader) -> T + Clone + Send + 'static,
    ) -> Result<T> {
        if !self.is_terminal() {
            return Err(Error::conflict("not_a_terminal", "the process has no terminal; read its output instead"));
        }
        if !self.safe_mode_left().is_zero() {
            let message = "the server crashed repeatedly and serves no screens for a minute; attach without one";
            return Err(Error::Exhausted { code: "safe_mode", message: message.to_owned() });
        }
        let result = match self.update_model(read.clone(), false).await? {
            Err(ModelFailure::Panicked) => {
                tracing::error!(id = self.id(), "the screen model panicked; starting with an empty one");
                self.update_model(read, true).await?
            }
            result => result,
        };
        let exhausted = |code, message: &str| Error::Exhausted { code, message: message.to_owned() };
        result.map_err(|failure| match failure {
            ModelFailure::Busy => {
                exhausted("screen_busy", "too many screens are being computed; retry, or attach without one")
            }
            ModelFailure::Panicked => exhausted("screen_failed", "cannot compute the screen"),
        })
    }

    /// `from_blank`: start with an empty screen at the end of the log instead of the cached model.
    async fn update_model<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&ModelReader) -> T + Send + 'static,
        from_blank: bool,
    ) -> Result<std::result::Result<T, ModelFailure>> {
        let (process, log, sizes) = (Arc::clone(self), self.log()?, SizeTimeline::for_process(self));
        let updates = Arc::clone(&self.services.model_cache.updates);
        let acquire = async { (self.screen.state().lock_owned().await, updates.acquire_owned().await) };
        let Ok((mut state, Ok(permit))) = tokio::time::timeout(QUEUE_TIMEOUT, acquire).await else {
            return Ok(Err(ModelFailure::Busy));
        };
        // A long log takes long enough to delay other tasks of this thread. The work is finished even if the client
        // disconnects, and holds the permit until then.
        let work = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            // Taken out of the state: a model that panics halfway is not used again.
            let mut reader = match state.reader.take() {
                _ if from_blank => ModelReader::blank(&log, &sizes),
                Some(reader) => reader,
                None => ModelReader::from_checkpoint(&log, &sizes, process.read_checkpoint()),
            };
            reader.catch_up(&log, &sizes);
            let result = read(&reader);
            state.reader = Some(reader);
            state.last_used = Some(Instant::now());
            process.cache_model(&mut state);
            result
        });
        Ok(work.await.map_err(|_| ModelFailure::Panicked))
    }

    /// How long this server still computes no screens.
    pub(super) fn safe_mode_left(&self) -> Duration {
        if !self.services.link.welcome().safe_mode {
            return Duration::ZERO;
        }
        SAFE_MODE_DURATION.saturating_sub(self.services.started_at.elapsed())
    }
}
