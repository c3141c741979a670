//! A new terminal.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlive_core::Create;
use outlive_core::process::{Process, Pty, Spec};
use serde::Deserialize;

use super::super::error::Failure;
use super::super::location::Location;
use super::DIRECTORY;
use super::shells::{default_shell, with_login};
use crate::api::App;

#[derive(Deserialize)]
pub(super) struct CreateRequest {
    command: Option<String>,
    args: Option<Vec<String>>,
    cwd: Option<String>,
    title: Option<String>,
    env: Option<BTreeMap<String, String>>,
}

/// What a program on a terminal gets, whatever its client says.
const ALWAYS: [(&str, &str); 2] = [("TERM", "xterm-256color"), ("OPENCODE_TERMINAL", "1")];
/// There is no way to say another one: clients resize right afterwards.
const SIZE: Pty = Pty { cols: 80, rows: 24 };

pub(super) async fn create(app: &App, location: &Location, request: CreateRequest) -> Result<Arc<Process>, Failure> {
    let create = Create { spec: spec(location, request), start: true, reader_comes: true, ..Create::default() };
    let (process, _) = app.core.create(create).await?;
    // From the first byte on, so that its units are counted exactly.
    app.opencode.trackers.begin(&app.core, &process)?;
    Ok(process)
}

fn spec(location: &Location, request: CreateRequest) -> Spec {
    let command = request.command.filter(|command| !command.is_empty()).unwrap_or_else(default_shell);
    let args = with_login(&command, request.args.unwrap_or_default());
    let mut env = request.env.unwrap_or_default();
    env.extend(ALWAYS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let annotations = location.directory.iter().map(|directory| (DIRECTORY.to_owned(), directory.clone())).collect();
    Spec {
        command,
        args,
        cwd: Some(within(&location.folder(), request.cwd.as_deref())),
        env: env.into_iter().map(|(name, value)| (name, Some(value))).collect(),
        label: request.title.filter(|title| !title.is_empty()),
        annotations,
        pty: Some(SIZE),
        ..Spec::default()
    }
}

/// A folder that was named, seen from another one.
fn within(folder: &str, named: Option<&str>) -> String {
    match named.filter(|named| !named.is_empty()) {
        None => folder.to_owned(),
        Some(named) if named.starts_with(['/', '~']) => named.to_owned(),
        Some(named) => format!("{}/{named}", folder.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_begins_in_the_folder_of_its_request() {
        let location = Location { directory: Some("/d".into()), workspace: None };
        let of = |cwd: Option<&str>| {
            let env = Some(BTreeMap::from([("TERM".to_owned(), "vt52".to_owned()), ("A".to_owned(), "b".to_owned())]));
            spec(
                &location,
                CreateRequest {
                    command: None,
                    args: None,
                    cwd: cwd.map(str::to_owned),
                    title: Some(String::new()),
                    env,
                },
            )
        };
        for (cwd, expected) in
            [(None, "/d"), (Some(""), "/d"), (Some("/x"), "/x"), (Some("x/y"), "/d/x/y"), (Some("~"), "~")]
        {
            assert_eq!(of(cwd).cwd.as_deref(), Some(expected));
        }
        let spec = of(None);
        assert_eq!(spec.env["TERM"].as_deref(), Some("xterm-256color"), "not to be changed");
        assert_eq!((spec.env["A"].as_deref(), spec.label), (Some("b"), None));
        assert_eq!(spec.annotations[DIRECTORY], "/d");
    }
}
