//! Finding and killing the whole tree of a managed process.
//!
//! ```text
//!   spawn ── mark ──▶ every descendant inherits it
//!
//!   /proc ── scan ──▶ Seen, Seen, …  ── forest ──▶ members of one Root ──▶ killer (own thread)
//!                                        ▲    ▲
//!                            cgroup.procs┘    └environ (only where the mark could not be set)
//! ```
//!
//! Owns: what belongs to a tree, signalling it, and the optional cgroups. Does not spawn, does not reap and
//! knows nothing of records. The holder's loop only posts jobs and collects answers; everything that reads
//! /proc runs on the killer's thread, and nothing on it reads a file that a stuck process could make hang.

pub mod cgroup;
mod environ;
mod forest;
mod hunt;
pub mod killer;
pub mod mark;
pub mod scan;
mod target;

pub use cgroup::Cgroups;
pub use environ::{VARIABLE as ENVIRON_VARIABLE, carriers as environ_carriers};
pub use forest::{Forest, Root, members};
pub use killer::{Action, Done, Job, Killer};
pub use scan::Seen;
