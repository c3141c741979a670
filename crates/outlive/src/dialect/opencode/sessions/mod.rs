//! Sessions: the messages of users, and of the commands that they ran. No model answers.
//!
//! ```text
//! POST shell, command ─▶ handlers.rs ─▶ command.rs: what to run ─▶ task.rs: one task for each command
//!                                                                    ├─▶ core: a process on pipes
//!                                                                    ├─▶ store.rs: messages     (Core::store)
//!                                                                    └─▶ the event bus, at most four events a second
//! GET message ─▶ handlers.rs ─▶ store.rs ─▶ message.rs: the output of the command, from its process's log
//! ```
//!
//! The output of a command is in the log of its process. A message names the process and carries the end of the
//! output for the time after the log is dropped. A command survives its client and its server: the next server
//! resumes the task ([`take_over`]).
//!
//! Limits: [`store::MAX_SESSIONS`] sessions, [`store::MAX_MESSAGES`] messages and [`store::MAX_MESSAGE_BYTES`] of
//! messages in all; the oldest are dropped first. The last [`command::LOG_BYTES`] of a command's output (2 MiB in one
//! response) are available while its process is known (a day), the last [`message::STORED_BYTES`] after that.

mod command;
pub(super) mod handlers;
mod message;
mod shell_words;
mod store;
mod task;

pub(super) use self::store::Sessions;
pub(super) use self::task::take_over;

/// Feeds the input to every parser of this module.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    handlers::fuzz(data);
    command::fuzz(data);
    if let Ok(text) = std::str::from_utf8(data) {
        shell_words::fuzz(text);
        message::fuzz(text);
    }
}
