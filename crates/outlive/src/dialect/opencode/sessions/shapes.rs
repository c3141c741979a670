//! The shapes of messages and their parts.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::id;
use super::order::Model;

/// A message with its parts, as it is kept and as it is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Message {
    pub(super) info: Value,
    pub(super) parts: Vec<Value>,
}

impl Message {
    pub(super) fn id(&self) -> &str {
        self.info["id"].as_str().unwrap_or_default()
    }

    /// The part of a command, if this is the message of one.
    pub(super) fn tool(&self) -> Option<&Value> {
        self.parts.first().filter(|part| part["type"] == "tool")
    }
}

/// What a command's messages have in common.
pub(super) struct Told<'a> {
    pub(super) session: &'a str,
    pub(super) agent: &'a str,
    pub(super) model: &'a Model,
    pub(super) at_ms: u64,
}

/// By a person: that something was run.
pub(super) fn of_user(told: &Told, id: &str) -> Message {
    let Told { session, agent, model, at_ms } = told;
    let info = json!({
        "id": id,
        "sessionID": session,
        "role": "user",
        "time": { "created": at_ms },
        "agent": agent,
        "model": { "providerID": model.provider, "modelID": model.model },
    });
    let part = json!({
        "id": id::ascending("prt"),
        "sessionID": session,
        "messageID": id,
        "type": "text",
        "text": "The following tool was executed by the user",
        "synthetic": true,
    });
    Message { info, parts: vec![part] }
}

/// The answer to it: what was run.
pub(super) fn of_assistant(told: &Told, parent: &str, folder: &str, line: &str) -> Message {
    let Told { session, agent, model, at_ms } = told;
    let id = id::ascending("msg");
    let info = json!({
        "id": id,
        "sessionID": session,
        "role": "assistant",
        "time": { "created": at_ms },
        "parentID": parent,
        "modelID": model.model,
        "providerID": model.provider,
        "mode": agent,
        "agent": agent,
        "path": { "cwd": folder, "root": folder },
        "cost": 0,
        "tokens": no_tokens(),
    });
    let part = json!({
        "id": id::ascending("prt"),
        "sessionID": session,
        "messageID": id,
        "type": "tool",
        "callID": id::ascending("call"),
        "tool": "bash",
        "state": { "status": "running", "input": { "command": line }, "time": { "start": at_ms } },
    });
    Message { info, parts: vec![part] }
}

pub(super) fn no_tokens() -> Value {
    json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } })
}

/// How a command came to its end.
pub(super) struct Ended {
    pub(super) at_ms: u64,
    /// A code, or as a shell says it of a signal.
    pub(super) exit: i32,
    pub(super) signal: Option<String>,
    pub(super) aborted: bool,
}

/// The message of a command that has ended. What it printed is filled in by those who keep or show it (`output.rs`).
pub(super) fn complete(message: &mut Message, ended: &Ended, process: &str) {
    message.info["time"]["completed"] = ended.at_ms.into();
    let Some(part) = message.parts.first_mut() else { return };
    let state = &part["state"];
    let mut metadata = json!({ "exit": ended.exit, "processID": process });
    if let Some(signal) = &ended.signal {
        metadata["signal"] = signal.as_str().into();
    }
    if ended.aborted {
        metadata["aborted"] = true.into();
    }
    part["state"] = json!({
        "status": "completed",
        "input": state["input"],
        "output": "",
        "title": "",
        "metadata": metadata,
        "time": { "start": state["time"]["start"], "end": ended.at_ms },
    });
}

/// The message of a command that could not be started.
pub(super) fn fail(message: &mut Message, why: &str, at_ms: u64) {
    message.info["time"]["completed"] = at_ms.into();
    let Some(part) = message.parts.first_mut() else { return };
    let state = &part["state"];
    part["state"] = json!({
        "status": "error",
        "input": state["input"],
        "error": why,
        "time": { "start": state["time"]["start"], "end": at_ms },
    });
}
