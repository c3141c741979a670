//! The output log: one fixed ring of bytes in a sealed memfd, with absolute offsets.
//!
//! ```text
//! memfd:  | header page | marks: (offset, time+stream) ... | data ring ............ |
//!             ^ holder writes head, tail, marks, exit; readers write holds
//! ```
//!
//! * The holder is the only writer of bytes ([`LogWriter`]); it reads a program's descriptor straight
//!   into the ring and publishes the new head with one atomic store.
//! * Any number of readers ([`LogReader`]) pull by offset. They map only header and marks and copy the
//!   bytes with `pread`, so a ring costs a reader no memory and no unsafe access to racing bytes.
//!   After each copy they look at `tail`, which the writer raises *before* it overwrites.
//! * One *mark* per recorded chunk says which stream the bytes came from and when. Mark number + 1 is the
//!   sequence number that people see.
//! * A *hold* is a reader's promise to come for the bytes from some offset on; the writer does not read the
//!   program past `hold + capacity - reserve`. See [`hold`].
//! * A log that nothing can be written to any more (exited, no recorded descriptor open) may be copied
//!   elsewhere and given up; a later ring of the same process then begins where it ended ([`Beginning`]).
//!
//! Unsafe code is confined to [`map`].

pub mod hold;
mod layout;
mod map;
mod reader;
mod writer;

pub use layout::{Beginning, Cause, Exit, Stream};
pub use reader::{Gone, LogReader, Mark, find_mark};
pub use writer::{LogWriter, Recorded};

/// Most bytes that one wake-up moves from one descriptor, so that a flooding program cannot starve the rest.
pub const CHUNK_BYTES: usize = 64 * 1024;
