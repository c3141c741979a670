//! Finds and kills the whole tree of a managed process.
//!
//! ```text
//!   event loop ── Job ──▶ killer thread: passes over /proc until the tree is dead ── JobResult ──▶ event loop
//!
//!   one pass:  /proc ── scan.rs ──▶ ScannedProcess … ── membership.rs ──▶ members of each tree ──▶ signals (tree_kill.rs)
//!                                                         ▲    ▲
//!                                             cgroup.procs┘    └environ.rs (only for trees without a confirmed tag)
//! ```
//!
//! How a tree is found: every child gets the *tree tag* at its spawn, an rlimit value that encodes the key of the tree
//! (tag.rs). Fork, exec, setsid and `env -i` all inherit it, so one `prlimit` per process tells its tree. Members without
//! the tag are found by cgroup, by descent, and by sessions and groups that certainly belong to the tree.
//! OUTLIVE_PROCESS_ID is searched for in the environments only if the tag is not confirmed: the kernel refused it, or
//! the command was reaped before the check.
//!
//! How a tree is killed (killer.rs drives, tree_kill.rs decides):
//! 0. `cgroup.kill` where the tree has a cgroup: the kernel kills all its members. The steps below find the rest.
//! 1. *Freeze*: each pass sends SIGSTOP to new members, tagged ones as soon as the scan meets them, until a pass finds no
//!    new member. A frozen process neither forks nor replaces a killed child. The freeze is bounded by passes and time,
//!    because a program that forks fast enough escapes SIGSTOP.
//! 2. *Kill*: SIGKILL to all members, the youngest first, and to every new member on discovery. SIGKILL also makes a fork in
//!    progress fail, so this ends: after two passes in a row without a new member (the last one of the freeze counts), no member can be left unseen.
//! 3. *Wait* on the pidfds of the members for up to 2 s. Processes that still run then are reported as survivors.
//!
//! A signal other than KILL needs one pass: scan, find the members, signal each. A signal is sent through a pidfd whose
//! process was compared with the scanned one, so that no process with a reused pid is hit. Where there is no pidfd, the
//! comparison is made right before kill(2) (`PinnedProcess` in tree_kill.rs).
//!
//! Does not spawn or reap. Every scan of /proc by the holder runs on the killer thread, and nothing there reads a file on which a
//! stuck process could make it hang; environ.rs, which has to, uses threads of its own. The event loop reads single
//! files: at a launch the `stat` of a command without a tag, and after a SIGKILL of unknown origin the count of
//! kills by the OOM killer. A pass serves all jobs, and no tree delays another.

pub mod cgroup;
mod environ;
pub mod killer;
mod membership;
pub mod scan;
pub mod tag;
mod tree_kill;

pub use cgroup::Cgroups;
pub use environ::{VARIABLE as ENVIRON_VARIABLE, processes_with_id};
pub use killer::{Action, Job, JobResult, Killer};
pub use membership::{ProcessIndex, TreeRoot, members};
pub use scan::ScannedProcess;
