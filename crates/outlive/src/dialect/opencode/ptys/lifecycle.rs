//! Creates, updates and removes terminals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::attach::Size;
use outlive_core::process::{Patch, Process, Pty, Spec};
use outlive_core::{Core, NewProcess};
use serde::Deserialize;

use super::{DELETED, DIRECTORY};
use crate::dialect::opencode::error::Failure;
use crate::dialect::opencode::location::Location;
use crate::dialect::opencode::shells::{add_login_flag, default_shell};
use crate::dialect::opencode::utf16::Trackers;

/// Variables of every terminal program, which the client cannot override.
const FIXED_ENV: [(&str, &str); 2] = [("TERM", "xterm-256color"), ("OPENCODE_TERMINAL", "1")];
/// A create request has no size; clients resize right afterwards.
const INITIAL_SIZE: Pty = Pty { cols: 80, rows: 24 };
/// Between SIGHUP and SIGKILL when a terminal is removed.
const REMOVE_GRACE: Duration = Duration::from_secs(1);
const REMOVE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
pub(crate) struct CreateRequest {
    command: Option<String>,
    args: Option<Vec<String>>,
    cwd: Option<String>,
    title: Option<String>,
    env: Option<BTreeMap<String, String>>,
}

pub(super) async fn create(
    core: &Core,
    trackers: &Trackers,
    location: &Location,
    request: CreateRequest,
) -> Result<Arc<Process>, Failure> {
    let spec = build_spec(location, request);
    let new = NewProcess { spec, start: true, reader_expected: true, ..NewProcess::default() };
    let process = core.create(new).await?;
    // The tracker must start at the first byte for an exact count of UTF-16 units.
    trackers.start(core, &process)?;
    Ok(process)
}

fn build_spec(location: &Location, request: CreateRequest) -> Spec {
    let command = request.command.filter(|command| !command.is_empty()).unwrap_or_else(default_shell);
    let args = add_login_flag(&command, request.args.unwrap_or_default());
    let mut env = request.env.unwrap_or_default();
    env.extend(FIXED_ENV.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let annotations = location.directory.iter().map(|directory| (DIRECTORY.to_owned(), directory.clone())).collect();
    Spec {
        command,
        args,
        cwd: Some(resolve_cwd(&location.directory_or_default(), request.cwd.as_deref())),
        env: env.into_iter().map(|(name, value)| (name, Some(value))).collect(),
        label: request.title.filter(|title| !title.is_empty()),
        annotations,
        pty: Some(INITIAL_SIZE),
        ..Spec::default()
    }
}

/// `cwd` relative to `directory`.
fn resolve_cwd(directory: &str, cwd: Option<&str>) -> String {
    match cwd.filter(|cwd| !cwd.is_empty()) {
        None => directory.to_owned(),
        Some(cwd) if cwd.starts_with(['/', '~']) => cwd.to_owned(),
        Some(cwd) => format!("{}/{cwd}", directory.trim_end_matches('/')),
    }
}

#[derive(Deserialize)]
pub(crate) struct UpdateRequest {
    title: Option<String>,
    size: Option<SizeRequest>,
}

#[derive(Deserialize)]
struct SizeRequest {
    rows: i64,
    cols: i64,
}

impl SizeRequest {
    fn parse(&self) -> Result<Size, Failure> {
        let parse = |field: &str, number: i64| match u16::try_from(number) {
            Ok(0) | Err(_) if number <= 0 => {
                Err(Failure::invalid_field(field, "a value greater than 0", &number.to_string()))
            }
            Ok(number) => Ok(number),
            Err(_) => Err(Failure::invalid_field(field, "a value less than or equal to 65535", &number.to_string())),
        };
        Ok(Size { rows: parse("size.rows", self.rows)?, cols: parse("size.cols", self.cols)? })
    }
}

/// Changes title and size. Clients expect a `pty.updated` event for every update. The patch publishes it, even when
/// it changes nothing; a resize alone would not.
pub(super) async fn update(process: &Arc<Process>, request: UpdateRequest) -> Result<(), Failure> {
    let size = request.size.map(|size| size.parse()).transpose()?;
    // The patch comes before the resize, so that an invalid title changes nothing.
    let label = request.title.filter(|title| !title.is_empty()).map(Some);
    process.patch(Patch { label, ..Patch::default() })?;
    match size {
        None => Ok(()),
        Some(size) => match process.resize(size).await {
            // The program exited after the terminal was found.
            Err(error) if error.code() == "not_running" => Ok(()),
            other => Ok(other?),
        },
    }
}

/// Hides a terminal from this dialect at once and ends its process tree in the background. If the server dies before
/// the tree has ended, the next server continues ([`resume_removals`]).
pub(super) fn remove(process: &Arc<Process>) -> Result<(), Failure> {
    let deleted = [(DELETED.to_owned(), Some("1".to_owned()))];
    process.patch(Patch { annotations: deleted.into(), ..Patch::default() })?;
    tokio::spawn(end_and_delete(Arc::clone(process)));
    Ok(())
}

async fn end_and_delete(process: Arc<Process>) {
    if process.is_running() {
        let _ = process.hang_up(REMOVE_GRACE, REMOVE_TIMEOUT).await;
    }
    if let Err(error) = process.delete(true).await {
        tracing::warn!(id = process.id(), %error, "cannot end a deleted terminal");
    }
}

/// Continues the removals that the previous server had started.
pub(crate) fn resume_removals(core: &Core) {
    for process in core.list(true) {
        if process.spec().annotations.contains_key(DELETED) {
            tokio::spawn(end_and_delete(process));
        }
    }
}

/// Parses the input as the bodies about terminals.
#[cfg(any(fuzzing, test))]
pub(crate) fn fuzz(data: &[u8]) {
    use crate::dialect::opencode::fuzzing::check_failure;
    use crate::http::extract::parse;

    match parse::<CreateRequest>(data) {
        Ok(request) => {
            let spec = build_spec(&Location::default(), request);
            assert!(FIXED_ENV.iter().all(|(name, value)| spec.env[*name].as_deref() == Some(*value)));
            assert!(!spec.command.is_empty() && spec.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(['/', '~'])));
            if let Err(error) = spec.check() {
                check_failure(error.into());
            }
        }
        Err(problem) => check_failure(problem.into()),
    }
    match parse::<UpdateRequest>(data).map(|request| request.size.map(|size| size.parse()).transpose()) {
        Ok(Ok(size)) => assert!(size.is_none_or(|size| size.cols > 0 && size.rows > 0)),
        Ok(Err(failure)) => check_failure(failure),
        Err(problem) => check_failure(problem.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_starts_in_the_directory_of_its_request() {
        let location = Location { directory: Some("/d".into()), workspace: None };
        let spec_with = |cwd: Option<&str>| {
            let env = Some(BTreeMap::from([("TERM".to_owned(), "vt52".to_owned()), ("A".to_owned(), "b".to_owned())]));
            let (cwd, title) = (cwd.map(str::to_owned), Some(String::new()));
            build_spec(&location, CreateRequest { command: None, args: None, cwd, title, env })
        };
        for (cwd, expected) in
            [(None, "/d"), (Some(""), "/d"), (Some("/x"), "/x"), (Some("x/y"), "/d/x/y"), (Some("~"), "~")]
        {
            assert_eq!(spec_with(cwd).cwd.as_deref(), Some(expected));
        }
        let spec = spec_with(None);
        assert_eq!(spec.env["TERM"].as_deref(), Some("xterm-256color"), "clients cannot change it");
        assert_eq!((spec.env["A"].as_deref(), spec.label), (Some("b"), None));
        assert_eq!(spec.annotations[DIRECTORY], "/d");
    }

    // Regression: OpenCode's own server takes sizes modulo 65536 (70000 columns become 4464).
    #[test]
    fn sizes_outside_of_sixteen_bits_are_rejected() {
        let parse = |rows, cols| SizeRequest { rows, cols }.parse().ok().map(|size| (size.rows, size.cols));
        assert_eq!(parse(24, 65_535), Some((24, 65_535)));
        for (rows, cols) in [(0, 1), (1, 0), (-1, 1), (70_000, 1), (1, i64::MAX)] {
            assert_eq!(parse(rows, cols), None, "{rows} {cols}");
        }
    }
}
