//! A command under way, wherever it runs: alone, or in the shell of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use outlive_core::log::{Cause, Cursor, Exit, Flow, Item, Start, Stream, StreamFilter};
use outlive_core::process::Spec;
use outlive_core::session::{Created, Exec, ExecSpec, OnExit, Session, SessionSpec};
use outlive_core::{Error, Result, Run, RunStream};

use super::folder;
use crate::api::App;

/// Bytes of output in one event.
const PIECE_BYTES: usize = 32 * 1024;

/// What is set for one command; what is null is left as it is.
pub(super) type Variables = BTreeMap<String, Option<String>>;

pub(super) fn given(variables: Option<Variables>) -> Variables {
    variables.unwrap_or_default().into_iter().filter(|(_, value)| value.is_some()).collect()
}

pub(super) enum Command {
    Alone(Box<RunStream>),
    InSession {
        exec: Arc<Exec>,
        told: Told,
    },
    /// There is nothing more to say of it.
    Over,
}

/// How much of a session's command has been told.
pub(super) enum Told {
    Nothing,
    Some(Cursor),
    Output,
}

pub(super) enum Event {
    Output(Stream, Bytes),
    Ended(Ended),
    /// Nobody will ever tell how it ended.
    Failed(Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) timed_out: bool,
    /// The shell of the session went with it.
    pub(super) shell_exited: bool,
}

impl Command {
    /// Runs it alone. It dies with its caller, unless it is `detached`.
    pub(super) async fn alone(app: &App, spec: Spec, detached: bool) -> Result<Self> {
        app.metrics.run();
        let run = Run { spec, detach: detached, ..Run::default() };
        Ok(Self::Alone(Box::new(app.core.run_streamed(run).await?)))
    }

    /// Runs it in a session, when its turn comes, whatever becomes of the caller.
    pub(super) async fn in_session(session: &Arc<Session>, spec: ExecSpec) -> Result<Self> {
        let (exec, _) = session.exec(spec).await?;
        Ok(Self::InSession { exec, told: Told::Nothing })
    }

    /// What comes next; nothing after its end.
    pub(super) async fn next(&mut self, app: &App) -> Option<Event> {
        let event = tokio::select! {
            biased;
            event = self.next_event() => event?,
            () = app.ended() => {
                let message = "this server is being replaced: what runs in a session goes on".to_owned();
                Event::Failed(Error::Unavailable { code: "server_replaced", message })
            }
            () = app.core.until_holder_gone() => Event::Failed(Error::holder_gone()),
        };
        if !matches!(event, Event::Output(..)) {
            *self = Self::Over;
        }
        Some(event)
    }

    async fn next_event(&mut self) -> Option<Event> {
        match self {
            Self::Over => None,
            Self::Alone(run) => loop {
                match run.next(PIECE_BYTES).await? {
                    Err(error) => return Some(Event::Failed(error)),
                    Ok(Item::BecameLive) => {}
                    Ok(Item::Bytes { stream, bytes, .. }) => return Some(Event::Output(stream, bytes)),
                    Ok(Item::Gap { from, to }) => return Some(Event::Failed(missed(from, to))),
                    Ok(Item::Exit(exit)) => return Some(Event::Ended(Ended::of(&exit))),
                }
            },
            Self::InSession { exec, told } => Some(next_of(exec, told).await),
        }
    }
}

async fn next_of(exec: &Exec, told: &mut Told) -> Event {
    if matches!(told, Told::Nothing) {
        *told = match exec.started().await.and_then(|sink| sink.log().ok()) {
            Some(log) => Told::Some(Cursor::new(log, Start::At(0), Flow::Lossless, StreamFilter::All)),
            None => Told::Output,
        };
    }
    if let Told::Some(cursor) = told {
        loop {
            match cursor.next(PIECE_BYTES).await {
                Item::Bytes { stream, bytes, .. } => return Event::Output(stream, bytes),
                Item::Gap { from, to } => return Event::Failed(missed(from, to)),
                Item::BecameLive => {}
                Item::Exit(_) => break,
            }
        }
        if let Told::Some(cursor) = std::mem::replace(told, Told::Output) {
            cursor.close();
        }
    }
    exec.finished().await;
    if let Some(error) = exec.failure() {
        return Event::Failed(error);
    }
    let info = exec.info();
    let code = info.exit_code.unwrap_or(1);
    Event::Ended(Ended { code, timed_out: info.timed_out, shell_exited: info.shell_exited })
}

/// The protocol has no word for it, and to go on as if nothing had happened would be a lie.
fn missed(from: u64, to: u64) -> Error {
    Error::Gone { asked: from, oldest: to, head: to }
}

impl Ended {
    pub(super) fn of(exit: &Exit) -> Self {
        let timed_out = exit.cause == Cause::TimedOut;
        let code = if timed_out { TIMED_OUT } else { code(exit) };
        Self { code, timed_out, shell_exited: false }
    }
}

const TIMED_OUT: i32 = 124;

/// As a shell tells it.
pub(super) fn code(exit: &Exit) -> i32 {
    match exit.status {
        Ok(code) => i32::from(code),
        Err(signal) => 128 + i32::from(signal),
    }
}

/// A line for bash, or where there is none, for sh.
pub(super) fn line(shell: &str, line: String) -> Spec {
    Spec { command: shell.to_owned(), args: vec!["-c".to_owned(), line], ..Spec::default() }
}

/// What lines are for; sh where there is no bash.
pub(super) const SHELL: &str = "bash";
const OTHER_SHELL: &str = "/bin/sh";

/// Whether it is worth another try, with the other shell.
pub(super) fn another_shell(error: &Error, shell: &mut &'static str) -> bool {
    let other = error.code() == "command_not_found" && *shell == SHELL;
    if other {
        *shell = OTHER_SHELL;
    }
    other
}

/// The session of that id, made now if there is none. Its shell is replaced when it has ended.
pub(super) async fn session(app: &App, id: &str) -> Result<Arc<Session>> {
    if let Ok(session) = app.core.find_session(id) {
        return Ok(session);
    }
    let spec = session_spec(id.to_owned(), folder::usual().await);
    match app.core.create_session(spec).await? {
        Created::New(session) | Created::Existing(session) => Ok(session),
    }
}

pub(super) fn session_spec(id: String, cwd: String) -> SessionSpec {
    SessionSpec { id: Some(id), cwd: Some(cwd), on_exit: OnExit::Fresh, ..SessionSpec::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_as_a_shell_tells_them() {
        let of = |status, cause| Ended::of(&Exit { generation: 1, status, cause, offset: 0, at_ms: 0 });
        assert_eq!(of(Ok(3), Cause::Itself).code, 3);
        assert_eq!(of(Err(9), Cause::Killed).code, 137);
        assert_eq!(of(Err(9), Cause::TimedOut), Ended { code: 124, timed_out: true, shell_exited: false });
    }
}
