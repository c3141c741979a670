//! The tree module against real processes: each test starts its own tree, with its own tree tag, and signals only it.

mod cgroups;
mod forkers;
mod kill;
mod measure;
mod support;
