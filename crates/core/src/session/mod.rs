//! Persistent shells: the only thing with shell memory.
//!
//! ```text
//!                 control lines (stdin)                     status frames (its log)
//!  exec ─▶ queue ─▶ driver ───────────▶ shell ───────────────▶ holder ─▶ driver ─▶ result
//!                      │ command file, pipes with names │                    ▲
//!                      └───────────────▶ sink ◀─────────┘ output             └─ "conclude" closes the sink's log
//! ```
//!
//! A *session* owns one shell, a hidden process. Each *exec* has a *sink*, a hidden process without a program: two
//! named pipes that the holder records into a log of its own. The shell never sees a command's text on its stdin, only
//! two short lines (`script`), and answers on a descriptor that commands do not see (`status`). Everything that the next
//! server needs is a record (`keep`) or in a log: whoever takes over reads on where the frames are.
//!
//! One task per session (`drive`) writes to the shell; everybody else changes the queue and wakes it.

mod cancel;
mod collect;
mod drive;
mod exec;
mod folder;
mod keep;
mod outcome;
mod refusal;
mod script;
#[expect(clippy::module_inception, reason = "the session itself, among what it consists of")]
mod session;
mod sessions;
mod shell;
mod snapshot;
mod spec;
mod status;

pub use collect::Collected;
pub use exec::{Exec, ExecInfo, ExecStatus};
pub use session::{Session, SessionInfo, SessionStatus};
pub use sessions::Created;
pub(crate) use sessions::Sessions;
pub use snapshot::StartSpec;
pub use spec::{ExecSpec, OnExit, SessionSpec};
