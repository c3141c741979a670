//! Which process is meant, and which there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use outlive_core::process::Process;

use super::connect::{Failure, Reply, Unary};
use super::error::not_found;
use super::message::{ListRequest, ListResponse, ProcessConfig, ProcessInfo, ProcessSelector};
use crate::api::App;

/// E2B's tag, which several processes may have, other than ours.
pub(super) const TAG: &str = "e2b.tag";
/// The variables that the client has set, with `=` between their names; others are not for it to see.
pub(super) const VARIABLES: &str = "e2b.envs";

/// By pid, also some time after it has ended (the latest that had it); or by tag, the newest that runs first.
pub(super) fn find(app: &App, selector: Option<ProcessSelector>) -> Result<(Arc<Process>, ProcessSelector), Failure> {
    let missing = || Failure::invalid("process: either a pid or a tag is needed");
    let selector = selector.ok_or_else(missing)?;
    let found = match (selector.pid, &selector.tag) {
        (Some(pid), None) => app.core.find(&format!("pid:{pid}")).ok(),
        (None, Some(tag)) => app.core.find_annotated(TAG, tag).or_else(|| app.core.find(&format!("tag:{tag}")).ok()),
        _ => return Err(missing()),
    };
    match found {
        Some(process) => Ok((process, selector)),
        None => Err(not_found(&selector)),
    }
}

/// All that run, wherever they were started.
pub(super) async fn list(State(app): State<App>, call: Unary<ListRequest>) -> Reply {
    let processes = app.core.list(false).into_iter().filter_map(|process| describe(&process)).collect();
    call.answer(ListResponse { processes })
}

fn describe(process: &Process) -> Option<ProcessInfo> {
    let pid = process.pid()?;
    let spec = process.spec();
    let shown: Vec<&str> = spec.annotations.get(VARIABLES).map(|names| names.split('=').collect()).unwrap_or_default();
    let envs: BTreeMap<String, String> = spec
        .env
        .into_iter()
        .filter(|(name, _)| shown.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let (cmd, args) = if spec.shell {
        ("/bin/sh".to_owned(), vec!["-c".to_owned(), spec.command])
    } else {
        (spec.command, spec.args)
    };
    // What nobody asked for is not shown.
    let cwd = spec.cwd.filter(|cwd| cwd != "~");
    let tag = spec.annotations.get(TAG).cloned().or(spec.tag);
    Some(ProcessInfo { config: Some(ProcessConfig { cmd, args, envs, cwd }), pid, tag })
}
