//! What became of a command that was sent, and what that means for its record.

use outlive_holder::log::{Cause, Exit};
use serde::{Deserialize, Serialize};

use super::exec::End;
use super::status::Idle;

/// Why a command is made to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Stop {
    TimedOut,
    Cancelled,
}

impl Stop {
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::TimedOut => 124,
            Self::Cancelled => 130,
        }
    }
}

/// What became of a command that was sent.
pub(super) enum Outcome {
    /// The shell is idle again. Without `done` the line was aborted.
    Idle {
        done: Option<u8>,
        idle: Idle,
        stop: Option<Stop>,
    },
    ShellExited {
        exit: Exit,
        stop: Option<Stop>,
    },
    /// Its lines never reached the shell; all that they name is there.
    NeverSent,
}

impl Outcome {
    fn stop(&self) -> Option<Stop> {
        match self {
            Self::Idle { stop, .. } | Self::ShellExited { stop, .. } => *stop,
            Self::NeverSent => None,
        }
    }

    pub(super) fn cause(&self) -> Cause {
        match self.stop() {
            Some(Stop::TimedOut) => Cause::TimedOut,
            Some(Stop::Cancelled) => Cause::Stopped,
            None => Cause::Itself,
        }
    }

    pub(super) fn end(&self) -> End {
        let (exit_code, signal, shell_exited, cwd) = match self {
            Self::Idle { done, idle, .. } => {
                let folder = String::from_utf8_lossy(&idle.folder).into_owned();
                (done.unwrap_or(idle.status), None, false, Some(folder))
            }
            Self::ShellExited { exit, .. } => match exit.status {
                Ok(code) => (code, None, true, None),
                Err(signal) => (signal.saturating_add(128), Some(signal), true, None),
            },
            Self::NeverSent => (0, None, false, None),
        };
        let stop = self.stop();
        End {
            exit_code: stop.map_or(exit_code, Stop::exit_code),
            signal,
            timed_out: stop == Some(Stop::TimedOut),
            cancelled: stop == Some(Stop::Cancelled),
            shell_exited,
            cwd,
            ..End::default()
        }
    }

    /// `$?` and `$-` for the next command.
    pub(super) fn left_behind(&self) -> Option<(u8, String)> {
        match self {
            Self::Idle { done, idle, stop } => {
                // zsh forgets that a loop was interrupted.
                let aborted = if stop.is_some() { Stop::Cancelled.exit_code() } else { idle.status };
                Some((done.unwrap_or(aborted), idle.options.clone()))
            }
            _ => None,
        }
    }
}
