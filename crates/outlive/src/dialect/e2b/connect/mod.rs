//! The Connect protocol (JSON and binary protobuf), as much of it as E2B's process service needs: unary calls, server streams and
//! client streams over plain HTTP.
//!
//! ```text
//! unary    body = message                    ─▶ 200 + message, or the code's HTTP status + {"code","message"}
//! stream   body = envelopes (envelope.rs)    ─▶ 200 + envelopes, the last one says how it ended
//! ```
//!
//! Once a stream's content type is understood, whatever goes wrong is said in its last envelope: clients look there.

mod codec;
mod envelope;
mod failure;
mod headers;
mod stream;
mod unary;

pub(super) use self::codec::Codec;
pub(super) use self::envelope::{Envelopes, append_end, append_message};
pub(super) use self::failure::{Failure, FailureCode};
pub(super) use self::stream::{ClientStream, ServerStream, answer, refuse_early};
pub(super) use self::unary::{Reply, Unary};
