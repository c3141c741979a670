//! Recordings in the format of asciinema, versions 2 and 3: a header, then a line per event.
//!
//! Version 2 counts time from the beginning, version 3 from the event before.

mod read;
mod write;

pub(crate) use read::{Event, Reader};
pub(crate) use write::{Beginning, Writer};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    #[default]
    Two,
    Three,
}

/// What events are called; others are passed over.
mod code {
    pub(super) const OUTPUT: &str = "o";
    pub(super) const RESIZE: &str = "r";
    pub(super) const MARKER: &str = "m";
    /// Version 3 only.
    pub(super) const EXIT: &str = "x";
}
