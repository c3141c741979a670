//! Why a session does not do what it was asked for, in words that say what to do.

use std::io;
use std::sync::Arc;

use outlive_holder::log::Exit;

use super::exec::Exec;
use crate::{Error, Result};

pub(super) fn destroyed(id: &str) -> Error {
    Error::Over { code: "session_destroyed", message: format!("the session {id} was deleted; make another") }
}

pub(super) fn not_found(id: &str) -> Result<Arc<Exec>> {
    Err(Error::no_such("exec", id))
}

pub(super) fn disk(error: &io::Error) -> Error {
    Error::Exhausted {
        code: "session_folder_failed",
        message: format!("the session's files could not be written ({error}); is there room in the temporary folder?"),
    }
}

pub(super) fn exited(id: &str, exit: &Exit) -> Error {
    let how = match exit.status {
        Ok(code) => format!("with code {code}"),
        Err(signal) => format!("by {}", crate::signal::name(i32::from(signal))),
    };
    let message = format!("the shell of session {id} has ended {how}; delete it and make another, or use onExit");
    Error::Over { code: "session_exited", message }
}
