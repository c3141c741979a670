//! Turning what people type into values, and values into what people read. No I/O.

pub(crate) mod amount;
pub(crate) mod environment;
pub(crate) mod table;
pub(crate) mod time;
