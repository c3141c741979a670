//! What a terminal shows, worked out from its log when somebody wants to know.
//!
//! ```text
//!   log ──(read when asked: ask, or before it is overwritten: watch)──▶ Behind { model, offset } ──▶ repaint, snapshot
//!                                                                          │        ▲
//!                                                                          ▼        │ the next server, or the next one who asks
//!                                                                        checkpoint (journal)
//! ```
//!
//! The model runs behind the log and never in the way of the bytes: nothing is worked out for a terminal that nobody looks at, until
//! its log is about to lose what was not read. A model that is not used is given up; if what it was made from may be gone by the
//! time it is needed again, what it knew is kept as a checkpoint, which is a repaint and the offset it is true for.

mod ask;
mod behind;
mod checkpoint;
mod colors;
mod kept;
mod links;
mod model;
mod picture;
#[cfg(test)]
mod properties;
mod repaint;
mod safe_mode;
pub mod sequences;
mod sizes;
mod snapshot;
mod watch;

pub use self::behind::Repaint;
pub(crate) use self::kept::Screen;
pub use self::model::Model;
pub use self::repaint::repaint;
pub use self::snapshot::{CursorShape, CursorView, ModesView, MouseEncodingView, MouseView, Snapshot};
