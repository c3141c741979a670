//! A command whose output is streamed: a run of its own, or an exec in a session. Encoders in `container/execute.rs`
//! and `bridge/exec.rs` turn its events into the two APIs' server-sent events.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use outlive_core::follow::{Ending, Follow, FollowEvent, OnReaderGone};
use outlive_core::log::{Cause, Exit, Stream};
use outlive_core::process::Spec;
use outlive_core::session::{ExecSpec, Session};
use outlive_core::{Error, Result, Run};

use crate::http::AppState;
use crate::utf8_decoder::Utf8Decoder;

/// Bytes of output in one event.
pub(super) const MAX_EVENT_BYTES: usize = 32 * 1024;
/// The exit code of a command that reached its time limit, as in timeout(1).
const TIMED_OUT: i32 = 124;

pub(super) const BASH: &str = "bash";
const SH: &str = "/bin/sh";

/// Variables of one request; a `null` is ignored.
pub(super) type Variables = BTreeMap<String, Option<String>>;

pub(super) fn without_nulls(variables: Option<Variables>) -> Variables {
    variables.unwrap_or_default().into_iter().filter(|(_, value)| value.is_some()).collect()
}

pub(super) struct Command {
    /// `None` after the last event.
    follow: Option<Follow>,
}

pub(super) enum CommandEvent {
    Output(Stream, Bytes),
    Exited(ExitStatus),
    /// The exit status will never be known here.
    Failed(Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExitStatus {
    pub(super) code: i32,
    pub(super) timed_out: bool,
    /// The command ended the shell of its session.
    pub(super) shell_exited: bool,
}

impl Command {
    /// Starts a run without a session.
    pub(super) async fn run(app: &AppState, spec: Spec, on_reader_gone: OnReaderGone) -> Result<Self> {
        app.metrics.count_run();
        let run = Run { spec, ..Run::default() };
        Ok(Self { follow: Some(app.core.follow_run(run, on_reader_gone).await?) })
    }

    /// Queues an exec in a session. It runs to its end even if the client disconnects.
    pub(super) async fn exec(app: &AppState, session: &Arc<Session>, spec: ExecSpec) -> Result<Self> {
        let exec = session.exec(spec).await?;
        let follow = app.core.follow_exec(Arc::clone(session), exec, OnReaderGone::KeepRunning);
        Ok(Self { follow: Some(follow) })
    }

    /// Waits for the next event; `None` after the last one.
    pub(super) async fn next(&mut self, app: &AppState) -> Option<CommandEvent> {
        let event = loop {
            let follow = self.follow.as_mut()?;
            let event = tokio::select! {
                biased;
                event = follow.next(MAX_EVENT_BYTES) => event?,
                () = app.until_shutdown() => {
                    let message = "the server is being replaced; commands in sessions keep running".to_owned();
                    FollowEvent::Failed(Error::Unavailable { code: "server_replaced", message })
                }
            };
            match event {
                FollowEvent::Started => {}
                FollowEvent::Output { stream, bytes, .. } => return Some(CommandEvent::Output(stream, bytes)),
                // The protocols cannot express a gap, and a client must not take the output for complete.
                FollowEvent::Gap { from_offset: requested, to_offset: oldest } => {
                    break CommandEvent::Failed(Error::OffsetGone { requested, oldest, head: oldest });
                }
                FollowEvent::Exited(ending) => break CommandEvent::Exited(ExitStatus::from_ending(&ending)),
                FollowEvent::Failed(error) => break CommandEvent::Failed(error),
            }
        };
        self.follow = None;
        Some(event)
    }
}

impl ExitStatus {
    pub(super) fn from_exit(exit: &Exit) -> Self {
        let timed_out = exit.cause == Cause::TimedOut;
        let code = if timed_out { TIMED_OUT } else { shell_code(exit) };
        Self { code, timed_out, shell_exited: false }
    }

    fn from_ending(ending: &Ending) -> Self {
        match ending {
            Ending::Process(exit) => Self::from_exit(exit),
            Ending::Exec(info) => {
                Self { code: info.exit_code.unwrap_or(1), timed_out: info.timed_out, shell_exited: info.shell_exited }
            }
        }
    }
}

/// The exit code as a shell reports it: 128 plus the signal.
pub(super) fn shell_code(exit: &Exit) -> i32 {
    match exit.status {
        Ok(code) => i32::from(code),
        Err(signal) => 128 + i32::from(signal),
    }
}

/// `SHELL -c LINE`.
pub(super) fn shell_spec(shell: &str, line: String) -> Spec {
    Spec { command: shell.to_owned(), args: vec!["-c".to_owned(), line], ..Spec::default() }
}

/// If the start failed because there is no bash, changes `shell` to sh and returns true: try again.
pub(super) fn fall_back_to_sh(error: &Error, shell: &mut &'static str) -> bool {
    let has_no_bash = error.code() == "command_not_found" && *shell == BASH;
    if has_no_bash {
        *shell = SH;
    }
    has_no_bash
}

/// Quotes a word for a shell.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Decodes the output of a program to text. The protocols carry strings, and a character may be split between two
/// pieces. The output of a terminal counts as stdout.
#[derive(Default)]
pub(super) struct Decoders {
    stdout: Utf8Decoder,
    stderr: Utf8Decoder,
}

impl Decoders {
    pub(super) fn get_mut(&mut self, stream: Stream) -> &mut Utf8Decoder {
        if stream == Stream::Stderr { &mut self.stderr } else { &mut self.stdout }
    }

    /// The incomplete characters at the end of the output, with the name of their stream.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = (&'static str, Vec<u8>)> + use<> {
        let rest = [
            (stream_name(Stream::Stdout), self.stdout.take_incomplete()),
            (stream_name(Stream::Stderr), self.stderr.take_incomplete()),
        ];
        rest.into_iter().filter(|(_, bytes)| !bytes.is_empty())
    }
}

pub(super) fn stream_name(stream: Stream) -> &'static str {
    if stream == Stream::Stderr { "stderr" } else { "stdout" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let status = |status, cause| ExitStatus::from_exit(&Exit { generation: 1, status, cause, offset: 0, at_ms: 0 });
        assert_eq!(status(Ok(3), Cause::SelfExit).code, 3);
        assert_eq!(status(Err(9), Cause::Killed).code, 137);
        let timed_out = ExitStatus { code: 124, timed_out: true, shell_exited: false };
        assert_eq!(status(Err(9), Cause::TimedOut), timed_out);
    }

    #[test]
    fn a_quote_in_a_word_is_escaped() {
        assert_eq!(quote("a'b"), r"'a'\''b'");
    }
}
