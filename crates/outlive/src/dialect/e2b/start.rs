//! `Start`: a process, and the stream of its events from the first byte on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use outlive_core::log::{Cursor, Flow, Start, StreamFilter};
use outlive_core::process::{EnvMode, Process, Pty, Spec, StdinMode};
use outlive_core::{Create, Error};

use super::connect::{Failure, ServerStream, answer};
use super::error;
use super::init::Defaults;
use super::message::{PtySize, StartRequest};
use super::select::{TAG, VARIABLES};
use super::watch::{Watched, watch};
use crate::access::credentials::{after_scheme, user_and_password};
use crate::api::App;
use crate::peer::Peer;

pub(super) async fn start(
    State(app): State<App>,
    headers: HeaderMap,
    peer: Peer,
    call: ServerStream<StartRequest>,
) -> Response {
    let codec = call.codec;
    let begun = begin(&app, &headers, &call).await;
    let events = begun.and_then(|process| {
        // From the very first byte: the holder keeps it for whoever asks for the start.
        let cursor = Cursor::new(process.log()?, Start::At(0), Flow::Lossless, StreamFilter::All);
        watch(app, Watched { process, cursor, life: call.timeout, takes: true }, &peer, &call)
    });
    answer(codec, events)
}

async fn begin(app: &App, headers: &HeaderMap, call: &ServerStream<StartRequest>) -> Result<Arc<Process>, Failure> {
    let defaults = Defaults::read(app);
    let user = user(headers).or_else(|| defaults.user.clone());
    let spec = spec(&call.message, user, &defaults, call.timeout)?;
    let (command, cwd) = (spec.command.clone(), spec.cwd.clone().unwrap_or_default());
    let user = spec.user.clone();
    let failed = |error: Error| error::of_start(error, &command, &cwd, user.as_deref());
    match create(app, spec.clone()).await {
        // There a shell starts everything, so these are exits (127 and 126) with the shell's words on stderr.
        Err(error) if ["command_not_found", "not_executable"].contains(&error.code()) => {
            create(app, by_shell(spec)).await.map_err(failed)
        }
        other => other.map_err(failed),
    }
}

async fn create(app: &App, spec: Spec) -> Result<Arc<Process>, Error> {
    let create = Create { spec, start: true, reader_comes: true, ..Create::default() };
    app.core.create(create).await.map(|(process, _)| process)
}

fn by_shell(mut spec: Spec) -> Spec {
    let command = std::mem::replace(&mut spec.command, "/bin/sh".to_owned());
    let line = ["-c", r#"exec "$@""#, "sh"].map(str::to_owned);
    spec.args = line.into_iter().chain([command]).chain(spec.args).collect();
    spec
}

/// `Authorization: Basic USER:` names the Unix user.
fn user(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (user, _) = user_and_password(after_scheme(value, "basic")?)?;
    (!user.is_empty()).then_some(user)
}

pub(super) fn spec(
    request: &StartRequest,
    user: Option<String>,
    defaults: &Defaults,
    life: Option<Duration>,
) -> Result<Spec, Failure> {
    let config = request.process.clone().ok_or_else(|| Failure::invalid("process: the command is missing"))?;
    let mut annotations = BTreeMap::new();
    annotations.extend(request.tag.clone().map(|tag| (TAG.to_owned(), tag)));
    let names: Vec<&str> = config.envs.keys().map(String::as_str).collect();
    let names = names.join("=");
    // More than an annotation may have is not shown later; the program gets it anyway.
    if (1..MOST_NAMES_BYTES).contains(&names.len()) {
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
        Some(pty) => Some(size(pty.size)?),
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
        timeout_ms: life.map(|life| u64::try_from(life.as_millis()).unwrap_or(u64::MAX)),
        ..Spec::default()
    })
}

/// Well below what an annotation may have.
const MOST_NAMES_BYTES: usize = 4000;

/// A size that a terminal can have; the usual one when none is given.
pub(super) fn size(wanted: Option<PtySize>) -> Result<Pty, Failure> {
    let Some(PtySize { cols, rows }) = wanted else { return Ok(Pty { cols: 80, rows: 24 }) };
    let fit = |number: u32| u16::try_from(number).ok().filter(|number| *number > 0);
    match (fit(cols), fit(rows)) {
        (Some(cols), Some(rows)) => Ok(Pty { cols, rows }),
        _ => Err(Failure::invalid(format!("pty.size: expected 1 to 65535, got {cols} columns and {rows} rows"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::ProcessConfig;
    use super::*;

    fn of(config: ProcessConfig, defaults: &Defaults) -> Spec {
        let request = StartRequest { process: Some(config), ..StartRequest::default() };
        spec(&request, None, defaults, None).unwrap()
    }

    #[test]
    fn folders_are_below_home_unless_they_say_otherwise() {
        let at = |cwd: &str, defaults: &Defaults| {
            let cwd = Some(cwd.to_owned());
            of(ProcessConfig { cmd: "x".into(), cwd, ..ProcessConfig::default() }, defaults).cwd.unwrap()
        };
        let none = Defaults::default();
        for (asked, meant) in [("", "~"), ("~", "~"), ("~/a", "~/a"), ("a/b", "~/a/b"), ("/a", "/a")] {
            assert_eq!(at(asked, &none), meant);
        }
        let some = Defaults { workdir: Some("/w".into()), ..Defaults::default() };
        assert_eq!((at("", &some).as_str(), at("a", &some).as_str()), ("/w", "~/a"));
    }

    #[test]
    fn what_was_asked_for_is_stronger_than_the_defaults_and_only_that_is_shown() {
        let variables = [("A", "default"), ("B", "default")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let defaults = Defaults { variables: variables.into(), ..Defaults::default() };
        let envs = [("B", "asked"), ("C", "asked")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let spec = of(ProcessConfig { cmd: "x".into(), envs: envs.into(), ..ProcessConfig::default() }, &defaults);
        let value = |name: &str| spec.env[name].clone().unwrap();
        assert_eq!([value("A"), value("B"), value("C")], ["default", "asked", "asked"]);
        assert_eq!(spec.annotations[VARIABLES], "B=C");
    }

    #[test]
    fn sizes_were_cut_to_sixteen_bits() {
        let of = |cols, rows| size(Some(PtySize { cols, rows })).ok().map(|pty| (pty.cols, pty.rows));
        assert_eq!(of(90, 30), Some((90, 30)));
        assert_eq!((of(0, 30), of(90, 0), of(65_626, 30)), (None, None, None));
        assert_eq!(size(None), Ok(Pty { cols: 80, rows: 24 }));
    }

    #[test]
    fn basic_names_the_user() {
        let with = |value: &str| user(&HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]));
        assert_eq!(with("Basic cm9vdDo="), Some("root".into()));
        assert_eq!(with("basic cm9vdDo"), Some("root".into()));
        assert_eq!((with("Basic Og=="), with("Bearer x"), with("Basic !")), (None, None, None));
    }
}
