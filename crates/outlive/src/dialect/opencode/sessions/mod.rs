//! Sessions: messages of people, and of the commands that they have run. No model answers here.
//!
//! ```text
//! POST shell, command ─▶ order.rs: what to run ─▶ run.rs: the one task of each command
//!                                                   ├─▶ core: a process on pipes, as any other
//!                                                   ├─▶ store.rs: messages and parts      (Core::store)
//!                                                   └─▶ events, at most four a second
//! GET message ─▶ store.rs ─▶ output.rs: what the command printed, from its log
//! rest.rs: sessions themselves · messages.rs: messages, and what makes some · shapes.rs: what they look like · words.rs: a line as a shell
//!   splits it
//! ```
//!
//! What a command prints is in the log of its process and nowhere else; a message names the process, and carries the end of the output for when
//! the log is gone. So a session survives the server as its processes do, and costs no more than they. A command goes on when its client or its server goes
//! away: the next server takes the task up ([`take_over`]).
//!
//! What is kept: [`store::MOST_SESSIONS`] sessions, [`store::MOST_MESSAGES`] messages and [`store::MOST_BYTES`] of them in all, the oldest go first; of the output of a command the
//! last [`order::LOG_BYTES`] (of which an answer has 2 MiB) while its process is known (a day), and then [`output::KEPT_BYTES`].

pub(super) mod messages;
mod order;
mod output;
pub(super) mod rest;
mod run;
mod shapes;
mod store;
mod words;

pub(super) use self::run::take_over;
pub(super) use self::store::Sessions;
