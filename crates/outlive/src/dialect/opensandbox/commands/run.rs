//! `POST /command` and `resume`: the event stream of a command. A client that leaves does not stop the command.

use std::collections::BTreeMap;
use std::io;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use outlive_core::log::{Cursor, Flow, Start, StreamFilter};
use outlive_core::process::{Spec, StdinMode};
use outlive_core::{Error, NewProcess};
use serde::Deserialize;

use crate::access::Grant;
use crate::dialect::opensandbox::error::Failure;
use crate::dialect::opensandbox::events::event::{Event, failure, opening_events};
use crate::dialect::opensandbox::events::lines::OutputFormat;
use crate::dialect::opensandbox::events::stream::{OutputEncoder, process_response};
use crate::dialect::opensandbox::ids;
use crate::dialect::opensandbox::launch::{Variables, directory, program};
use crate::http::extract::{Body, Params, Path, WithRejection};
use crate::http::peer::Peer;
use crate::http::{AppState, sse};
use crate::socket::direct_terminal::parse_size;

/// execd writes output to files, so clients expect to fetch all output of a background command later, and a slow SDK
/// expects to find the last lines. Log memory that is not written to costs nothing.
const LOG_BYTES: u64 = 64 << 20;

/// Annotation: the output of a command on pipes is sent verbatim, including by `resume`.
const PARTIAL: &str = "opensandbox.partial";

/// Unknown fields are ignored, as by execd.
#[derive(Default, Deserialize)]
pub(crate) struct RunRequest {
    command: Option<String>,
    argv: Option<Vec<String>>,
    cwd: Option<String>,
    background: Option<bool>,
    /// In milliseconds; 0 means no timeout.
    timeout: Option<i64>,
    uid: Option<u32>,
    gid: Option<u32>,
    envs: Option<BTreeMap<String, String>>,
    /// Run on a terminal of this size, with verbatim output.
    tty: Option<bool>,
    cols: Option<u32>,
    rows: Option<u32>,
    /// Verbatim output on pipes: line ends are kept, and incomplete lines are not held back.
    partial: Option<bool>,
}

impl RunRequest {
    fn is_background(&self) -> bool {
        self.background.unwrap_or(false)
    }

    fn format(&self) -> OutputFormat {
        let verbatim = self.tty.unwrap_or(false) || self.partial.unwrap_or(false);
        if verbatim { OutputFormat::Verbatim } else { OutputFormat::Lines }
    }

    fn into_spec(self, variables: &Variables, default_log_bytes: u64) -> Result<Spec, Failure> {
        let is_background = self.is_background();
        let program = match (&self.command, &self.argv) {
            (Some(text), None) if !text.trim().is_empty() => program::from_text(text),
            (None, Some(argv)) => program::from_argv(argv)?,
            (Some(_), Some(_)) => return Err(Failure::invalid("either command or argv, not both")),
            _ => return Err(Failure::invalid("command: required")),
        };
        let user = match (self.uid, self.gid) {
            (None, None) => None,
            (Some(uid), None) => Some(uid.to_string()),
            (Some(uid), Some(gid)) => Some(format!("{uid}:{gid}")),
            (None, Some(_)) => return Err(Failure::invalid("gid: requires uid")),
        };
        let timeout = self.timeout.unwrap_or(0);
        let timeout = u64::try_from(timeout).map_err(|_| Failure::invalid("timeout: must not be negative"))?;
        let envs = self.envs.unwrap_or_default();
        let cwd = match self.cwd.filter(|cwd| !cwd.is_empty()) {
            Some(cwd) => Some(directory::expand_variables(&cwd, variables, &envs)?),
            None => None,
        };
        let pty = match self.tty {
            Some(true) => Some(parse_size(self.cols, self.rows)?),
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
            max_log_bytes: Some(default_log_bytes.max(LOG_BYTES)),
            annotations,
            ..program
        })
    }
}

/// `POST /command`: starts a command and streams its events. A background command's stream only reports the start.
pub(crate) async fn run(
    State(app): State<AppState>,
    peer: Peer,
    WithRejection(Body(request), _): WithRejection<Body<RunRequest>, Failure>,
) -> Result<Response, Failure> {
    let (is_background, format) = (request.is_background(), request.format());
    let variables = Variables::read(&app).await;
    let spec = request.into_spec(&variables, app.core.process_config().max_log_bytes_per_process)?;
    let new = NewProcess { spec: spec.clone(), start: true, reader_expected: !is_background, ..NewProcess::default() };
    let process = match app.core.create(new).await {
        Ok(process) => process,
        Err(error @ Error::Spawn { code: "command_not_found" | "not_executable", .. }) => {
            return respond_not_started(&app, spec, &error).await;
        }
        Err(error) => return Err(error.into()),
    };
    let mut opening = opening_events(&ids::command_id(&process));
    if is_background {
        // For a background command this event means that it was started.
        Event { kind: "execution_complete", ..Event::default() }.append_to(&mut opening);
        return Ok(complete_response(opening));
    }
    // `reader_expected` makes the holder keep the log from its first byte until this cursor has its lease.
    let cursor = Cursor::new(process.log()?, Start::At(0), Flow::Lossless, StreamFilter::All);
    process_response(app, process, cursor, OutputEncoder::new(format, 0), opening, &peer)
}

fn complete_response(events: Vec<u8>) -> Response {
    sse::raw_response(stream::iter([io::Result::Ok(Bytes::from(events))]))
}

/// Reports a failed start in the stream, and in the record of a placeholder process for later status calls.
async fn respond_not_started(app: &AppState, spec: Spec, error: &Error) -> Result<Response, Failure> {
    let reason = error.to_string();
    let new = NewProcess { spec: program::placeholder(spec, &reason), start: true, ..NewProcess::default() };
    let process = app.core.create(new).await?;
    process.wait_exited().await;
    let mut events = opening_events(&ids::command_id(&process));
    failure(&reason).append_to(&mut events);
    Ok(complete_response(events))
}

#[derive(Deserialize)]
pub(crate) struct ResumeQuery {
    /// The last event that the client received.
    #[serde(default)]
    after_eid: u64,
}

/// `GET /command/{id}/resume`: the events after one that the client has received.
pub(crate) async fn resume(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, Failure>,
    WithRejection(Params(query), _): WithRejection<Params<ResumeQuery>, Failure>,
    grant: Grant,
    peer: Peer,
) -> Result<Response, Failure> {
    let process = ids::find(&app, &id).ok_or_else(|| Failure::command_not_found(&id))?;
    let flow = grant.flow(None, Flow::Lossless).unwrap_or(Flow::Live);
    let log = process.wait_for_log().await?;
    let is_partial = process.spec().annotations.contains_key(PARTIAL);
    let is_verbatim = is_partial || process.is_terminal();
    let format = if is_verbatim { OutputFormat::Verbatim } else { OutputFormat::Lines };
    let resume_offset = OutputEncoder::offset_of(query.after_eid);
    let start = match format {
        // From the oldest byte: the line starts of two interleaved streams depend on all output before.
        OutputFormat::Lines => Start::Oldest,
        OutputFormat::Verbatim => Start::At(resume_offset.max(log.tail())),
    };
    let cursor = Cursor::new(log, start, flow, StreamFilter::All);
    let (oldest, head) = (cursor.offset(), cursor.log().head());
    if oldest > resume_offset {
        cursor.close();
        return Err(Error::OffsetGone { requested: resume_offset, oldest, head }.into());
    }
    let opening = opening_events(&ids::command_id(&process));
    process_response(app, process, cursor, OutputEncoder::new(format, query.after_eid), opening, &peer)
}

#[cfg(any(fuzzing, test))]
pub(crate) fn fuzz(data: &[u8]) {
    let request = crate::http::extract::parse::<RunRequest>(data);
    let _ = request.map(|request| request.into_spec(&Variables::default(), 1).map(|spec| spec.check()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(body: &str) -> Result<Spec, Failure> {
        let request: RunRequest = serde_json::from_str(body).unwrap();
        request.into_spec(&Variables::default(), 10)
    }

    #[test]
    fn request_fields_become_spec_fields() {
        let all = r#"{"command":"x","cwd":"/d","timeout":500,"uid":7,"gid":8,"envs":{"A":"1"},
                      "tty":true,"cols":90,"unknown":1}"#;
        let spec = spec(all).unwrap();
        assert_eq!((spec.cwd.as_deref(), spec.timeout_ms, spec.user.as_deref()), (Some("/d"), Some(500), Some("7:8")));
        assert_eq!(spec.env["A"].as_deref(), Some("1"));
        assert_eq!(spec.pty.map(|pty| (pty.cols, pty.rows)), Some((90, 24)));
        assert!(!spec.merge_stderr);
    }

    #[test]
    fn a_background_command_merges_its_streams_and_has_a_large_log() {
        let spec = spec(r#"{"argv":["ls","-l"],"background":true,"timeout":0}"#).unwrap();
        assert_eq!((spec.command.as_str(), spec.args.as_slice()), ("ls", &["-l".to_owned()][..]));
        assert_eq!((spec.merge_stderr, spec.max_log_bytes, spec.timeout_ms), (true, Some(LOG_BYTES), None));
    }

    #[test]
    fn invalid_requests_are_rejected() {
        for body in [
            "{}",
            r#"{"command":" "}"#,
            r#"{"command":"x","argv":["x"]}"#,
            r#"{"argv":[]}"#,
            r#"{"command":"x","timeout":-1}"#,
            r#"{"command":"x","gid":1}"#,
            r#"{"command":"x","cwd":"$UNSET_VARIABLE"}"#,
            r#"{"command":"x","tty":true,"rows":0}"#,
        ] {
            assert!(spec(body).is_err(), "{body}");
        }
    }
}
