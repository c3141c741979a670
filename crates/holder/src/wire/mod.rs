//! The protocol between holder and server: one Unix SOCK_SEQPACKET socket, one message per packet.
//!
//! ```text
//! server                          holder
//!   Hello ───────────────────────▶          protocol version
//!                          ◀────── Welcome  epoch, boot id, safe mode …
//!   Ready ───────────────────────▶          started (an upgrade waits for this)
//!                          ◀────── StoredFd, HeldProcess (one at a time, each acknowledged)
//!   Ack ─────────────────────────▶
//!                          ◀────── StartServing
//!   Serving ─────────────────────▶          everything restored (the holder may follow an upgrade)
//!   Spawn, Signal, Terminate, … ─▶
//!                          ◀────── Spawned, BriefRunResult, SpawnFailed, Completion, Wake
//!                          ◀────── Retire   (upgrade) stop writing and accepting
//!   Retired ─────────────────────▶          then the new server takes over
//!                          ◀────── PredecessorExited   (to the new server)
//! ```
//!
//! * A packet is a message number (u8) and a body, little-endian. A struct is a u32 length and its fields in order;
//!   byte strings and lists start with a u32 count.
//! * Fields are only added at the end of a struct, including nested ones. A decoder assumes zero for missing fields,
//!   skips unknown ones, and ignores unknown message numbers. So adjacent versions understand each other.
//! * Descriptors are attached to a message as SCM_RIGHTS. A message above [`MAX_PACKET_BYTES`] is sent as a sealed
//!   memfd.
//! * Output is not sent here: it is in the logs, and `Wake` only names the logs that changed. The exception is the
//!   short output of a brief run (`BriefRunResult`).

pub(crate) mod codec;
mod message;
mod socket;

pub use message::{
    BriefRunResult, Completion, FinishSink, HeldProcessInfo, Identity, Io, Limit, SetDeadline, Signal, SignalTarget,
    SinkStream, Spawn, SpawnFailed, SpawnStage, Spawned, Terminate, ToHolder, ToServer, Welcome,
};
pub use socket::{Packet, Socket};
pub(crate) use socket::{read_sealed_memfd, sealed_memfd};

/// Incremented when an older peer would misunderstand a message.
pub const PROTOCOL: u32 = 2;

/// Larger messages are sent as a memfd. Far below the size of a socket buffer.
pub const MAX_PACKET_BYTES: usize = 64 * 1024;
