//! The screen of a terminal, computed from its log when a client requests it.
//!
//! ```text
//!   log ──(read on request: process_screen,──▶ ModelReader { model, offset } ──▶ repaint, snapshot, picture
//!          or by checkpoint_before_overwrite)        │        ▲
//!                                                    ▼        │ a later request, or the next server
//!                                           checkpoint (store/screen_checkpoint)
//! ```
//!
//! The model follows the log and is never in the path of the bytes: no screen is computed until a client requests it,
//! or until the ring is about to overwrite output that the model has not read. Idle models are released
//! (`model_cache`). If the output that a model was built from may be gone before the next use, a checkpoint is written
//! first: a repaint and the offset it is valid for.

mod checkpoint_before_overwrite;
mod colors;
mod links;
mod model;
mod model_cache;
mod model_reader;
mod picture;
mod process_screen;
#[cfg(test)]
mod properties;
mod repaint;
pub mod sequences;
mod snapshot;

pub use self::model::Model;
pub(crate) use self::model_cache::{ModelCache, Screen, ScreenState};
pub use self::model_reader::Repaint;
pub use self::repaint::repaint;
pub use self::snapshot::{CursorShape, CursorView, ModesView, MouseEncodingView, MouseView, Snapshot};
