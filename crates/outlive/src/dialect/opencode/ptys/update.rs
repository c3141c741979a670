//! Title and size.

use std::sync::Arc;

use outlive_core::attach::Size;
use outlive_core::process::{Patch, Process};
use serde::Deserialize;

use super::super::error::Failure;

#[derive(Deserialize)]
pub(super) struct UpdateRequest {
    title: Option<String>,
    size: Option<SizeRequest>,
}

#[derive(Deserialize)]
struct SizeRequest {
    rows: i64,
    cols: i64,
}

impl SizeRequest {
    /// A size that a terminal can have. (There 70000 columns are 4464.)
    fn checked(&self) -> Result<Size, Failure> {
        let fit = |field: &str, number: i64| match u16::try_from(number) {
            Ok(0) | Err(_) if number <= 0 => Err(Failure::wrong(field, "a value greater than 0", &number.to_string())),
            Ok(fits) => Ok(fits),
            Err(_) => Err(Failure::wrong(field, "a value less than or equal to 65535", &number.to_string())),
        };
        Ok(Size { rows: fit("size.rows", self.rows)?, cols: fit("size.cols", self.cols)? })
    }
}

/// Everybody hears of every update, also of one that changes nothing: a patch is an event of its own, and the size is no part of what is told.
pub(super) async fn update(process: &Arc<Process>, request: UpdateRequest) -> Result<(), Failure> {
    let size = request.size.map(|size| size.checked()).transpose()?;
    // Before the size, so that a title that makes no sense changes nothing.
    let label = request.title.filter(|title| !title.is_empty()).map(Some);
    process.patch(Patch { label, ..Patch::default() })?;
    match size {
        None => Ok(()),
        Some(size) => match process.resize(size).await {
            // It has just ended, and has no size any more.
            Err(error) if error.code() == "not_running" => Ok(()),
            other => Ok(other?),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_were_taken_modulo_65536() {
        let of = |rows, cols| SizeRequest { rows, cols }.checked().ok().map(|size| (size.rows, size.cols));
        assert_eq!(of(24, 65_535), Some((24, 65_535)));
        for (rows, cols) in [(0, 1), (1, 0), (-1, 1), (70_000, 1), (1, i64::MAX)] {
            assert_eq!(of(rows, cols), None, "{rows} {cols}");
        }
    }
}
