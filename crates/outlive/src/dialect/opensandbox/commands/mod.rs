//! One-off commands. Each is a process that continues when its client leaves and is found by its id.

pub(super) mod inspect;
pub(super) mod run;
