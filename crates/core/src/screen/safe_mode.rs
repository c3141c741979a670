//! A server that was started again and again leaves screens alone for a while: one of them may be the reason.

use std::time::Duration;

use crate::process::Process;
use crate::{Error, Result};

const SAFE_FOR: Duration = Duration::from_secs(60);

impl Process {
    /// How long it is yet until screens are worked out again.
    pub(super) fn safe_mode_left(&self) -> Duration {
        if !self.services.link.welcome().safe_mode {
            return Duration::ZERO;
        }
        SAFE_FOR.saturating_sub(self.services.begun.elapsed())
    }

    pub(super) fn check_safe_mode(&self) -> Result<()> {
        if self.safe_mode_left().is_zero() {
            return Ok(());
        }
        let message =
            "the server has died several times, and leaves screens alone for a minute; attach without one".to_owned();
        Err(Error::Exhausted { code: "safe_mode", message })
    }
}
