//! The API of the container, as `SandboxClient` speaks it.

pub(super) mod execute;
mod frames;
pub(super) mod inspect;
pub(super) mod kill;
pub(super) mod logs;
pub(super) mod multiplex;
mod place;
pub(super) mod port;
pub(super) mod sessions;
mod sse;
pub(super) mod start;
pub(super) mod status;
