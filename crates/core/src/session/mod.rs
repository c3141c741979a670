//! Sessions: persistent shells that run one command after the other.
//!
//! ```text
//!                control lines (stdin)                 status frames (the shell's log)
//!  exec ─▶ queue ─▶ task ─────────────▶ shell ─────────────▶ holder ─▶ task ─▶ result
//!                     │ command file, named pipes │                     │
//!                     └──────────▶ sink ◀─────────┘ output              └▶ ends the sink's log
//! ```
//!
//! A *session* owns one shell, a hidden process. Each *exec* (one command) has a *sink*: a hidden process without a
//! program, whose log records two named pipes. The shell never reads a command from stdin, only short lines
//! of code: a prologue when it starts, two control lines per exec, and a probe from a server that takes over a running
//! exec. It reports by status frames on a descriptor that commands do not see (`shell_protocol` has both). Everything
//! that the next server needs is in a record (`persist`) or in a log.
//!
//! The creation (`registry`) starts the first shell. After it only the session's task (`task`) starts shells and writes
//! to them; all others change the queue (`session`) and wake the task. One exec, step by step:
//!
//! 1. `Session::exec` saves an `ExecRecord`, queues the exec and wakes the task.
//! 2. `Session::dispatch` (`task`) writes the command file, makes the pipes and the sink, and sends the control lines.
//! 3. `Session::wait_outcome` (`task`) reads status frames until the shell is idle or has exited. A timeout or a
//!    cancel in the meantime runs the steps of `stop_sequence`.
//! 4. `Session::finish` (`task`) finishes the sink and saves an `EndRecord`.
//! 5. `Exec::collect_output` (`exec`) returns the output to the caller.
//!
//! Where the parts of `impl Session` are:
//!
//! | file | part |
//! |---|---|
//! | `session` | the type; queueing, cancelling and ending execs; deletion |
//! | `task` | running one exec after the other |
//! | `stop_sequence` | stopping a running exec |
//! | `shell` | starting the shell |
//! | `historic` | storing it in the history |
//! | `persist` | saving and restoring records, evicting old execs |
//! | `registry` | creation, lookup by id |
//! | `start_process` | starting a managed process with the session's state |
//! | `types` | what clients see |

mod directory;
mod exec;
mod historic;
mod persist;
mod registry;
#[expect(clippy::module_inception, reason = "the session itself, beside its parts")]
mod session;
mod shell;
mod shell_protocol;
mod start_process;
mod stop_sequence;
mod task;
mod types;

pub use exec::{Exec, ExecOutput};
pub use registry::CreateOutcome;
pub(crate) use registry::SessionRegistry;
pub use session::Session;
pub use start_process::StartSpec;
pub use types::{ExecInfo, ExecSpec, ExecStatus, OnExit, SessionInfo, SessionSpec, SessionStatus};
