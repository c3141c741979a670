//! The protocol between holder and server: one Unix SOCK_SEQPACKET socket, one message per packet.
//!
//! ```text
//! server                          holder
//!   Hello ───────────────────────▶          protocol version
//!                          ◀────── Welcome  epoch, boot id, safe mode …
//!   Ready ───────────────────────▶          "I can take over" (an upgrade waits for this)
//!                          ◀────── Kept, Held (one at a time, each acknowledged)
//!   Ack ─────────────────────────▶
//!                          ◀────── Go       all handed over: serve
//!   Serving ─────────────────────▶          taken up for good (the holder may follow an upgrade)
//!   Spawn, Signal, End, Arm, … ──▶
//!                          ◀────── Spawned, Over, SpawnFailed, Done, Wake
//!                          ◀────── Retire   (upgrade) stop writing and accepting
//!   Retired ─────────────────────▶          then the new server takes over
//!                          ◀────── Alone    (to the new one) the retired server is gone
//! ```
//!
//! * A packet is `kind: u8` and then its contents, little-endian. A struct is a u32 length and its fields in order;
//!   byte strings and lists begin with a u32 count.
//! * Fields are only ever added at the end of a struct, of a nested one too. A decoder takes missing ones as
//!   zero/empty and skips surplus, so neighbouring versions understand each other; unknown kinds are ignored.
//! * Descriptors travel beside a message as SCM_RIGHTS. A packet above [`MAX_PACKET`] goes as a sealed memfd.
//! * Output does not travel here: it is in the logs, and `Wake` only names those that changed. But for the little that a brief
//!   process has printed, which comes with its end (`Over`).

pub(crate) mod codec;
mod message;
mod socket;

pub use message::{
    Arm, Conclude, Done, End, Held, Identity, Io, Limit, Over, Reach, Record, Signal, Spawn, SpawnFailed, SpawnStage,
    Spawned, ToHolder, ToServer, Welcome,
};
pub use socket::{Received, Socket};
pub(crate) use socket::{read_sealed, sealed};

/// Raised when an older peer would misunderstand a message.
pub const PROTOCOL: u32 = 2;

/// Larger messages are put into a memfd, far below what a socket buffer takes.
pub const MAX_PACKET: usize = 64 * 1024;
