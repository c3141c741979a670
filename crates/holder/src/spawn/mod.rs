//! Starting programs without ever waiting for them.
//!
//! ```text
//! Spawn (wire) ──▶ Io: pipes or terminal ──▶ Stage: everything the child needs, prepared
//!                                             │ clone(CLONE_VM), own stack, same memory
//!                                             ▼
//!      Launch ◀── gate (close-on-exec pipe) ── child: raw system calls only, then execve
//! ```
//!
//! The child shares the holder's memory instead of copying it, so a spawn costs the same whatever the holder
//! holds. Unlike vfork the holder is *not* suspended: a child that hangs before its exec (a dead mount as
//! working folder, say) hangs alone. The holder learns of the exec when the gate closes; a failure is written
//! by the child into the shared `Stage`.

mod child;
mod io;
mod stage;
mod syscall;

pub use io::{ProgramEnds, prepare, reserve, widen};
pub use stage::{Inherited, Launch, launch};
