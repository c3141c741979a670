//! The tree module against real processes: each test starts its own, with a mark of its own, and signals
//! only those.

mod cgroups;
mod forkers;
mod kill;
mod measure;
mod support;
