//! `POST /command`: a command and the stream of its events; in the background only that it was started. `resume` goes on where a
//! stream was cut off.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use outlive_core::log::{Cursor, Flow, Start, StreamFilter};
use outlive_core::process::{Process, Spec, StdinMode};
use outlive_core::{Create, Error};
use serde::Deserialize;

use super::super::asked::{Asked, Named, Sent};
use super::super::error::Failure;
use super::super::events::end;
use super::super::events::event::{self, Event};
use super::super::events::lines::Shape;
use super::super::events::output::Output;
use super::super::ids;
use super::super::launch::{Variables, folder, program};
use super::follow::follow;
use crate::access::Grant;
use crate::api::App;
use crate::peer::Peer;

/// execd writes to files: what a background command has printed is fetched later, and all of it; and an SDK that takes its time with
/// every line finds the last of them all the same. Memory that is not written to costs nothing.
const LOG_BYTES: u64 = 64 << 20;

/// On pipes, but told as it was printed: whoever resumes wants the same.
const PARTIAL: &str = "opensandbox.partial";

/// What we do not know is ignored, as there.
#[derive(Default, Deserialize)]
pub(in super::super) struct RunRequest {
    command: Option<String>,
    argv: Option<Vec<String>>,
    cwd: Option<String>,
    background: Option<bool>,
    /// In milliseconds; 0 is none.
    timeout: Option<i64>,
    uid: Option<u32>,
    gid: Option<u32>,
    envs: Option<BTreeMap<String, String>>,
    /// On a terminal of this size; its output is told as it is printed.
    tty: Option<bool>,
    cols: Option<u32>,
    rows: Option<u32>,
    /// The same for pipes: lines keep their ends, and one that is not finished does not wait.
    partial: Option<bool>,
}

impl RunRequest {
    fn is_background(&self) -> bool {
        self.background.unwrap_or(false)
    }

    fn shape(&self) -> Shape {
        let as_printed = self.tty.unwrap_or(false) || self.partial.unwrap_or(false);
        if as_printed { Shape::AsPrinted } else { Shape::Lines }
    }

    fn spec(self, variables: &Variables, usual_log_bytes: u64) -> Result<Spec, Failure> {
        let is_background = self.is_background();
        let program = match (&self.command, &self.argv) {
            (Some(text), None) if !text.trim().is_empty() => program::of_text(text),
            (None, Some(argv)) => program::of_argv(argv)?,
            (Some(_), Some(_)) => return Err(Failure::invalid("either command or argv, not both")),
            _ => return Err(Failure::invalid("command: required")),
        };
        let user = match (self.uid, self.gid) {
            (None, None) => None,
            (Some(uid), None) => Some(uid.to_string()),
            (Some(uid), Some(gid)) => Some(format!("{uid}:{gid}")),
            (None, Some(_)) => return Err(Failure::invalid("gid: uid is needed too")),
        };
        let timeout = self.timeout.unwrap_or(0);
        let timeout = u64::try_from(timeout).map_err(|_| Failure::invalid("timeout: must not be negative"))?;
        let envs = self.envs.unwrap_or_default();
        let cwd = match self.cwd.filter(|cwd| !cwd.is_empty()) {
            Some(cwd) => Some(folder::expand(&cwd, variables, &envs)?),
            None => None,
        };
        let pty = match self.tty {
            Some(true) => Some(program::size(self.cols, self.rows)?),
            _ => None,
        };
        let kind = if is_background { program::BACKGROUND } else { program::FOREGROUND };
        let mut annotations = BTreeMap::from([(program::KIND.to_owned(), kind.to_owned())]);
        if self.partial == Some(true) {
            annotations.insert(PARTIAL.to_owned(), "true".to_owned());
        }
        Ok(Spec {
            cwd,
            env: variables.with(envs),
            user,
            pty,
            stdin_mode: StdinMode::Null,
            merge_stderr: is_background,
            timeout_ms: (timeout > 0).then_some(timeout),
            max_log_bytes: Some(usual_log_bytes.max(LOG_BYTES)),
            annotations,
            ..program
        })
    }
}

pub(in super::super) async fn run(
    State(app): State<App>,
    peer: Peer,
    Sent(request): Sent<RunRequest>,
) -> Result<Response, Failure> {
    let (is_background, shape) = (request.is_background(), request.shape());
    let variables = Variables::read(&app).await;
    let spec = request.spec(&variables, app.core.process_config().max_log_bytes_per_process)?;
    let create = Create { spec: spec.clone(), start: true, reader_comes: !is_background, ..Create::default() };
    let process = match app.core.create(create).await {
        Ok((process, _)) => process,
        Err(error @ Error::Spawn { code: "command_not_found" | "not_executable", .. }) => {
            return not_started(&app, spec, &error).await;
        }
        Err(error) => return Err(error.into()),
    };
    let mut opening = event::opening(&ids::of_command(&process));
    if is_background {
        // It means that it was started.
        Event { kind: "execution_complete", ..Event::default() }.append(&mut opening);
        return Ok(event::answer(stream::iter([Ok(opening.into())])));
    }
    // From the very first byte: the holder keeps it for whoever asks for the start.
    let cursor = Cursor::new(process.log()?, Start::At(0), Flow::Lossless, StreamFilter::All);
    Ok(event::answer(follow(app, process, Output::new(cursor, shape, 0), opening, &peer)?))
}

/// A stream that says why there is nothing to see, and a record that says it to those who ask later.
async fn not_started(app: &App, spec: Spec, error: &Error) -> Result<Response, Failure> {
    let why = error.to_string();
    let create = Create { spec: program::in_place_of(spec, &why), start: true, ..Create::default() };
    let (process, _) = app.core.create(create).await?;
    process.until_exited().await;
    let mut all = event::opening(&ids::of_command(&process));
    end::fault(&why).append(&mut all);
    Ok(event::answer(stream::iter([Ok(all.into())])))
}

#[derive(Deserialize)]
pub(in super::super) struct ResumeQuery {
    /// The last event that was seen.
    #[serde(default)]
    after_eid: u64,
}

/// Everything that was told after an event, and what comes then.
pub(in super::super) async fn resume(
    State(app): State<App>,
    Named(id): Named<String>,
    Asked(query): Asked<ResumeQuery>,
    grant: Grant,
    peer: Peer,
) -> Result<Response, Failure> {
    let process: Arc<Process> = ids::find(&app, &id).ok_or_else(|| Failure::no_command(&id))?;
    let flow = grant.flow(None, Flow::Lossless).unwrap_or(Flow::Live);
    let log = process.started_log().await?;
    let is_partial = process.spec().annotations.contains_key(PARTIAL);
    let shape = if is_partial || process.is_terminal() { Shape::AsPrinted } else { Shape::Lines };
    let start = match shape {
        // From the beginning, as far as it is there: where lines of two streams begin can only be told from all that was before.
        Shape::Lines => Start::Oldest,
        Shape::AsPrinted => Start::At(Output::offset_of(query.after_eid).max(log.tail())),
    };
    let cursor = Cursor::new(log, start, flow, StreamFilter::All);
    if !Output::covers(&cursor, query.after_eid) {
        let error = Error::Gone {
            asked: Output::offset_of(query.after_eid),
            oldest: cursor.offset(),
            head: cursor.log().head(),
        };
        cursor.close();
        return Err(error.into());
    }
    let opening = event::opening(&ids::of_command(&process));
    Ok(event::answer(follow(app, process, Output::new(cursor, shape, query.after_eid), opening, &peer)?))
}

#[cfg(any(fuzzing, test))]
pub(in super::super) fn fuzz(data: &[u8]) {
    let request = crate::api::extract::parse::<RunRequest>(data);
    let _ = request.map(|request| request.spec(&Variables::default(), 1).map(|spec| spec.check()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(body: &str) -> Result<Spec, Failure> {
        let request: RunRequest = serde_json::from_str(body).unwrap();
        request.spec(&Variables::default(), 10)
    }

    #[test]
    fn each_field_becomes_ours() {
        let all = r#"{"command":"x","cwd":"/d","timeout":500,"uid":7,"gid":8,"envs":{"A":"1"},"tty":true,"cols":90,"unknown":1}"#;
        let spec = spec(all).unwrap();
        assert_eq!((spec.cwd.as_deref(), spec.timeout_ms, spec.user.as_deref()), (Some("/d"), Some(500), Some("7:8")));
        assert_eq!(spec.env["A"].as_deref(), Some("1"));
        assert_eq!(spec.pty.map(|pty| (pty.cols, pty.rows)), Some((90, 24)));
        assert!(!spec.merge_stderr);
    }

    #[test]
    fn the_background_keeps_the_order() {
        let spec = spec(r#"{"argv":["ls","-l"],"background":true,"timeout":0}"#).unwrap();
        assert_eq!((spec.command.as_str(), spec.args.as_slice()), ("ls", &["-l".to_owned()][..]));
        assert_eq!((spec.merge_stderr, spec.max_log_bytes, spec.timeout_ms), (true, Some(LOG_BYTES), None));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for body in [
            "{}",
            r#"{"command":" "}"#,
            r#"{"command":"x","argv":["x"]}"#,
            r#"{"argv":[]}"#,
            r#"{"command":"x","timeout":-1}"#,
            r#"{"command":"x","gid":1}"#,
            r#"{"command":"x","cwd":"$NOBODY_HAS_THIS"}"#,
            r#"{"command":"x","tty":true,"rows":0}"#,
        ] {
            assert!(spec(body).is_err(), "{body}");
        }
    }
}
