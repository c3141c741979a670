//! Who is attached to a process, and whose window size rules.

mod attachment;
mod size;

pub(crate) use attachment::Attachments;
pub use attachment::{Attachment, AttachmentInfo, Role};
pub use size::{Size, SizePolicy};
