//! Conversions between text that users read or type and values. No I/O except the clock.

pub(crate) mod environment;
pub(crate) mod table;
pub(crate) mod units;
