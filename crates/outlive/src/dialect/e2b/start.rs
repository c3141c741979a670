//! `Start`: spawns a process and streams its events from the first byte.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use outlive_core::log::{Cursor, Flow, Start, StreamFilter};
use outlive_core::process::{EnvMode, Process, Pty, Spec, StdinMode};
use outlive_core::{Error, NewProcess};
use serde::{Deserialize, Serialize};

use super::connect_rpc::{ServerStream, stream_response};
use super::error::ConnectError;
use super::events::{ResumePolicy, StreamSetup, TimeoutScope};
use super::message::{PtySize, StartRequest};
use super::process::{TAG, VARIABLES};
use crate::access::credentials::{decode_basic, strip_scheme};
use crate::http::AppState;
use crate::http::peer::Peer;

/// Stays well below the size limit of an annotation.
const MAX_NAMES_BYTES: usize = 4000;
const DEFAULT_SIZE: Pty = Pty { cols: 80, rows: 24 };
/// Name of the stored [`Defaults`].
const DEFAULTS: &str = "e2b/init";
/// Set in every process unless `/init` sets it.
const SANDBOX_VARIABLE: (&str, &str) = ("E2B_SANDBOX", "true");

pub(super) async fn start(
    State(app): State<AppState>,
    headers: HeaderMap,
    peer: Peer,
    call: ServerStream<StartRequest>,
) -> Response {
    let started = async {
        let process = spawn(&app, &headers, &call).await?;
        // No byte is lost before the cursor is there: `reader_expected` made the holder keep the output for it.
        let cursor = Cursor::new(process.log()?, Start::At(0), Flow::Lossless, StreamFilter::All);
        let timeout_scope = if call.timeout.is_some() { TimeoutScope::CallAndProcess } else { TimeoutScope::CallOnly };
        let resume_policy = ResumePolicy::Advance;
        StreamSetup { process, cursor, resume_policy, timeout_scope, peer }.open(app, &call).await
    };
    stream_response(call.codec, started.await)
}

async fn spawn(
    app: &AppState,
    headers: &HeaderMap,
    call: &ServerStream<StartRequest>,
) -> Result<Arc<Process>, ConnectError> {
    let defaults = Defaults::load(app);
    let user = requested_user(headers).or_else(|| defaults.user.clone());
    let spec = build_spec(&call.message, user, &defaults, call.timeout)?;
    let (command, cwd) = (spec.command.clone(), spec.cwd.clone().unwrap_or_default());
    let user = spec.user.clone();
    let start_error = |error: Error| ConnectError::for_start(error, &command, &cwd, user.as_deref());
    match create(app, spec.clone()).await {
        // envd starts everything through a shell. So these errors are exits there (127 and 126), with the shell's
        // message on stderr.
        Err(error) if ["command_not_found", "not_executable"].contains(&error.code()) => {
            create(app, through_shell(spec)).await.map_err(start_error)
        }
        other => other.map_err(start_error),
    }
}

async fn create(app: &AppState, spec: Spec) -> Result<Arc<Process>, Error> {
    let new_process = NewProcess { spec, start: true, reader_expected: true, ..NewProcess::default() };
    app.core.create(new_process).await
}

fn through_shell(mut spec: Spec) -> Spec {
    let command = std::mem::replace(&mut spec.command, "/bin/sh".to_owned());
    let shell_args = ["-c", r#"exec "$@""#, "sh"].map(str::to_owned);
    spec.args = shell_args.into_iter().chain([command]).chain(spec.args).collect();
    spec
}

/// `Authorization: Basic USER:` selects the Unix user.
fn requested_user(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (user, _) = decode_basic(strip_scheme(value, "basic")?)?;
    (!user.is_empty()).then_some(user)
}

pub(super) fn build_spec(
    request: &StartRequest,
    user: Option<String>,
    defaults: &Defaults,
    timeout: Option<Duration>,
) -> Result<Spec, ConnectError> {
    let config = request.process.clone().ok_or_else(|| ConnectError::invalid("process: the command is missing"))?;
    let mut annotations = BTreeMap::new();
    annotations.extend(request.tag.clone().map(|tag| (TAG.to_owned(), tag)));
    let names: Vec<&str> = config.envs.keys().map(String::as_str).collect();
    let names = names.join("=");
    // Names that do not fit in an annotation are missing in `List`; the process has them anyway.
    if (1..MAX_NAMES_BYTES).contains(&names.len()) {
        annotations.insert(VARIABLES.to_owned(), names);
    }
    let cwd = match config.cwd.filter(|cwd| !cwd.is_empty()) {
        None => defaults.workdir.clone().unwrap_or_else(|| "~".to_owned()),
        Some(cwd) if cwd.starts_with(['/', '~']) => cwd,
        Some(relative) => format!("~/{relative}"),
    };
    let mut env = defaults.variables.clone();
    env.extend(config.envs);
    let pty = match &request.pty {
        Some(pty) => Some(parse_size(pty.size)?),
        None => None,
    };
    Ok(Spec {
        command: config.cmd,
        args: config.args,
        cwd: Some(cwd),
        env: env.into_iter().map(|(name, value)| (name, Some(value))).collect(),
        env_mode: EnvMode::Fresh,
        user,
        pty,
        stdin_mode: if request.stdin == Some(false) { StdinMode::Null } else { StdinMode::Pipe },
        annotations,
        timeout_ms: timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        ..Spec::default()
    })
}

/// Checks a window size, which is 32 bits wide on the wire.
pub(super) fn parse_size(size: Option<PtySize>) -> Result<Pty, ConnectError> {
    let Some(PtySize { cols, rows }) = size else { return Ok(DEFAULT_SIZE) };
    let narrow = |number: u32| u16::try_from(number).ok().filter(|number| *number > 0);
    match (narrow(cols), narrow(rows)) {
        (Some(cols), Some(rows)) => Ok(Pty { cols, rows }),
        _ => Err(ConnectError::invalid(format!("pty.size: expected 1 to 65535, got {cols} columns and {rows} rows"))),
    }
}

/// What applies to every start unless the request sets it. `/init` stores it, and it survives the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Defaults {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) user: Option<String>,
    pub(super) workdir: Option<String>,
    /// The timestamp of the latest `/init`, in nanoseconds since 1970.
    pub(super) at: Option<i128>,
}

impl Defaults {
    pub(super) fn load(app: &AppState) -> Self {
        let stored = app.core.load(DEFAULTS);
        let mut defaults: Self = stored.and_then(|value| serde_json::from_slice(&value).ok()).unwrap_or_default();
        let (name, value) = SANDBOX_VARIABLE;
        defaults.variables.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        defaults
    }

    pub(super) fn store(&self, app: &AppState) -> Result<(), Error> {
        app.core.store(DEFAULTS, Some(serde_json::to_vec(self).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::ProcessConfig;
    use super::*;

    fn spec_for(config: ProcessConfig, defaults: &Defaults) -> Spec {
        let request = StartRequest { process: Some(config), ..StartRequest::default() };
        build_spec(&request, None, defaults, None).unwrap()
    }

    #[test]
    fn a_relative_directory_is_below_home() {
        let resolve = |cwd: &str, defaults: &Defaults| {
            let cwd = Some(cwd.to_owned());
            spec_for(ProcessConfig { cmd: "x".into(), cwd, ..ProcessConfig::default() }, defaults).cwd.unwrap()
        };
        let none = Defaults::default();
        for (requested, resolved) in [("", "~"), ("~", "~"), ("~/a", "~/a"), ("a/b", "~/a/b"), ("/a", "/a")] {
            assert_eq!(resolve(requested, &none), resolved);
        }
        let some = Defaults { workdir: Some("/w".into()), ..Defaults::default() };
        assert_eq!((resolve("", &some).as_str(), resolve("a", &some).as_str()), ("/w", "~/a"));
    }

    #[test]
    fn requested_variables_override_the_defaults_and_only_they_are_listed() {
        let variables = [("A", "default"), ("B", "default")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let defaults = Defaults { variables: variables.into(), ..Defaults::default() };
        let envs = [("B", "requested"), ("C", "requested")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let config = ProcessConfig { cmd: "x".into(), envs: envs.into(), ..ProcessConfig::default() };
        let spec = spec_for(config, &defaults);
        let value = |name: &str| spec.env[name].clone().unwrap();
        assert_eq!([value("A"), value("B"), value("C")], ["default", "requested", "requested"]);
        assert_eq!(spec.annotations[VARIABLES], "B=C");
    }

    // Regression: sizes were truncated to 16 bits.
    #[test]
    fn a_size_that_does_not_fit_in_16_bits_is_rejected() {
        let parse = |cols, rows| parse_size(Some(PtySize { cols, rows })).ok().map(|pty| (pty.cols, pty.rows));
        assert_eq!(parse(90, 30), Some((90, 30)));
        assert_eq!((parse(0, 30), parse(90, 0), parse(65_626, 30)), (None, None, None));
        assert_eq!(parse_size(None), Ok(DEFAULT_SIZE));
    }

    #[test]
    fn basic_authentication_selects_the_user() {
        let parse =
            |value: &str| requested_user(&HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]));
        assert_eq!(parse("Basic cm9vdDo="), Some("root".into()));
        assert_eq!(parse("basic cm9vdDo"), Some("root".into()));
        assert_eq!((parse("Basic Og=="), parse("Bearer x"), parse("Basic !")), (None, None, None));
    }
}
