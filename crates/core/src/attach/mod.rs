//! Who is attached to a process, and whose window size rules.

mod attachment;
mod size;

pub use attachment::{Attachment, AttachmentInfo, Role};
pub(crate) use attachment::Attachments;
pub use size::{Size, SizePolicy};
