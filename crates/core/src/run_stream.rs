//! One-shot runs whose output is read while they run. Like every run they leave no record behind.

use std::sync::Arc;

use crate::core::Core;
use crate::log::{Cursor, Flow, Item, Start, StreamFilter};
use crate::process::{Process, StdinMode};
use crate::run::{Begun, OwnRun, Run, RunSlot};
use crate::services::Services;
use crate::{Error, Result};

/// A run under way. Dropped before its exit it takes the tree along, unless it was detached.
pub struct RunStream {
    process: Arc<Process>,
    /// Gone when the exit has been given out.
    cursor: Option<Cursor>,
    /// It lives and dies with this.
    owned: Option<OwnRun>,
    services: Arc<Services>,
    _slot: RunSlot,
}

impl Core {
    /// Begins a run. Of `run` count `spec` with its time limit, `stdin` and `detach`; there is no limit to what it prints.
    pub async fn run_streamed(&self, mut run: Run) -> Result<RunStream> {
        run.spec.stdin_mode = if run.stdin.is_some() { StdinMode::Pipe } else { StdinMode::Null };
        run.spec.check()?;
        let slot = RunSlot::take(&self.services)?;
        let stdin = run.stdin.take();
        let run = Run { spec: run.spec, detach: run.detach, ..Run::default() };
        let Begun { process, owned, .. } = self.begin_run(&run, false).await?;
        if let Some(stdin) = stdin {
            let process = Arc::clone(&process);
            tokio::spawn(async move { process.feed(&stdin).await });
        }
        let cursor = Cursor::new(process.log()?, Start::At(0), Flow::Lossless, StreamFilter::All);
        Ok(RunStream { process, cursor: Some(cursor), owned, services: Arc::clone(&self.services), _slot: slot })
    }
}

impl RunStream {
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// What comes next; nothing after the exit.
    pub async fn next(&mut self, most: usize) -> Option<Result<Item>> {
        let cursor = self.cursor.as_mut()?;
        let item = tokio::select! {
            biased;
            item = cursor.next(most) => item,
            () = self.services.link.until_gone() => return Some(Err(Error::holder_gone())),
        };
        if matches!(item, Item::Exit(_)) {
            self.finish();
        }
        Some(Ok(item))
    }

    fn finish(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            cursor.close();
        }
        // The cursor may have seen the exit before the process itself has.
        self.process.news();
        if let Some(owned) = self.owned.take() {
            owned.let_go();
            self.process.remove();
        }
    }
}
