//! Window sizes and signals.

use std::time::Duration;

use axum::extract::State;
use outlive_core::attach::Size;

use super::connect::{Failure, FailureCode, Reply, Unary};
use super::error::{about, not_found};
use super::message::{Empty, SendSignalRequest, UpdateRequest};
use super::{select, start};
use crate::api::App;

const KILL: i32 = 9;
/// How long a kill is waited for; it goes on without us.
const KILL_WAIT: Duration = Duration::from_secs(1);

pub(super) async fn update(State(app): State<App>, call: Unary<UpdateRequest>) -> Result<Reply, Failure> {
    let (process, selector) = select::find(&app, call.message.process.clone())?;
    if let Some(wanted) = call.message.pty.as_ref().and_then(|pty| pty.size) {
        let pty = start::size(Some(wanted))?;
        let size = Size { cols: pty.cols, rows: pty.rows };
        process.resize(size).await.map_err(about(&selector)).map_err(|failure| match failure.code {
            FailureCode::FailedPrecondition => {
                Failure::new(failure.code, format!("error resizing tty: {}", failure.message))
            }
            _ => failure,
        })?;
    }
    Ok(call.answer(Empty {}))
}

/// To the whole tree. `not_found` is what the SDKs' `kill()` turns into `false`, so that must be true.
pub(super) async fn signal(State(app): State<App>, call: Unary<SendSignalRequest>) -> Result<Reply, Failure> {
    let number = call.message.signal;
    let known = u8::try_from(number).ok().filter(|number| (1..=64).contains(number));
    let known = known.ok_or_else(|| Failure::new(FailureCode::Unimplemented, format!("invalid signal: {number}")))?;
    let (process, selector) = select::find(&app, call.message.process.clone())?;
    if number != KILL {
        process.signal(known).await.map_err(about(&selector))?;
    } else if process.is_running() || !process.tree().await.is_empty() {
        // Also what is left of a tree whose command has ended.
        process.kill(KILL_WAIT).await.map_err(about(&selector))?;
    } else {
        return Err(not_found(&selector));
    }
    Ok(call.answer(Empty {}))
}
