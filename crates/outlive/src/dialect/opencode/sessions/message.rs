//! Messages and their parts, and the command output in them. The output comes from the log of the command's process;
//! when that log is gone, from the end of the output that was stored with the message.

use std::sync::Arc;

use outlive_core::Core;
use outlive_core::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::command::Model;
use crate::dialect::opencode::ids;
use crate::dialect::opencode::utf16::continuation_prefix;
use crate::utf8_decoder::Utf8Decoder;

/// Output at the end of `metadata.output`: all that a running command shows.
pub(super) const METADATA_BYTES: u64 = 16 * 1024;
/// Output in the event about the end of a command.
pub(super) const EVENT_BYTES: u64 = 64 * 1024;
/// Output that is stored with the message.
pub(super) const STORED_BYTES: u64 = 8 * 1024;
/// With less room left in a response, a part shows its stored output, which may be more than would fit from the log.
const MIN_RESPONSE_BYTES: usize = 256 * 1024;
const READ_BYTES: usize = 256 * 1024;

/// The text that OpenCode's clients expect at the end of an aborted command's output.
const ABORTED: &str = "\n\n<metadata>\nUser aborted the command\n</metadata>";

/// A message with its parts, as it is stored and as it is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Message {
    pub(super) info: Value,
    pub(super) parts: Vec<Value>,
}

/// What the two messages of a command have in common.
pub(super) struct MessageContext<'a> {
    pub(super) session: &'a str,
    pub(super) agent: &'a str,
    pub(super) model: &'a Model,
    pub(super) at_ms: u64,
}

/// How a command ended.
pub(super) struct CommandExit {
    pub(super) at_ms: u64,
    /// The exit code, or 128 plus the number of the fatal signal.
    pub(super) code: i32,
    pub(super) signal: Option<String>,
    pub(super) aborted: bool,
}

impl Message {
    /// The user's message: that a command was run.
    pub(super) fn from_user(context: &MessageContext, id: &str) -> Self {
        let MessageContext { session, agent, model, at_ms } = context;
        let info = json!({
            "id": id,
            "sessionID": session,
            "role": "user",
            "time": { "created": at_ms },
            "agent": agent,
            "model": { "providerID": model.provider, "modelID": model.model },
        });
        let part = json!({
            "id": ids::ascending("prt"),
            "sessionID": session,
            "messageID": id,
            "type": "text",
            "text": "The following tool was executed by the user",
            "synthetic": true,
        });
        Self { info, parts: vec![part] }
    }

    /// The message with the command and, later, its output.
    pub(super) fn from_assistant(context: &MessageContext, parent: &str, directory: &str, line: &str) -> Self {
        let MessageContext { session, agent, model, at_ms } = context;
        let id = ids::ascending("msg");
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
            "path": { "cwd": directory, "root": directory },
            "cost": 0,
            "tokens": zero_tokens(),
        });
        let part = json!({
            "id": ids::ascending("prt"),
            "sessionID": session,
            "messageID": id,
            "type": "tool",
            "callID": ids::ascending("call"),
            "tool": "bash",
            "state": { "status": "running", "input": { "command": line }, "time": { "start": at_ms } },
        });
        Self { info, parts: vec![part] }
    }

    pub(super) fn id(&self) -> &str {
        self.info["id"].as_str().unwrap_or_default()
    }

    /// Whether this is the message of a command that runs.
    pub(super) fn is_running(&self) -> bool {
        let tool = self.parts.first().filter(|part| part["type"] == "tool");
        tool.is_some_and(|part| part["state"]["status"] == "running")
    }

    /// Records the exit of the command. The output is filled in when the message is stored or sent.
    pub(super) fn complete(&mut self, exit: &CommandExit, process: &str) {
        self.info["time"]["completed"] = exit.at_ms.into();
        let Some(part) = self.parts.first_mut() else { return };
        let state = &part["state"];
        let mut metadata = json!({ "exit": exit.code, "processID": process });
        if let Some(signal) = &exit.signal {
            metadata["signal"] = signal.as_str().into();
        }
        if exit.aborted {
            metadata["aborted"] = true.into();
        }
        part["state"] = json!({
            "status": "completed",
            "input": state["input"],
            "output": "",
            "title": "",
            "metadata": metadata,
            "time": { "start": state["time"]["start"], "end": exit.at_ms },
        });
    }

    /// Records that the command could not be started.
    pub(super) fn fail(&mut self, reason: &str, at_ms: u64) {
        self.info["time"]["completed"] = at_ms.into();
        let Some(part) = self.parts.first_mut() else { return };
        let state = &part["state"];
        part["state"] = json!({
            "status": "error",
            "input": state["input"],
            "error": reason,
            "time": { "start": state["time"]["start"], "end": at_ms },
        });
    }
}

pub(super) fn zero_tokens() -> Value {
    json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } })
}

// ---- output

struct Output {
    text: String,
    /// The beginning is missing.
    is_cut: bool,
}

/// The last `max` bytes of a log, in whole characters.
async fn read_tail(log: &Arc<Log>, max: u64) -> Output {
    let start = log.tail().max(log.head().saturating_sub(max));
    let mut cursor = Cursor::new(Arc::clone(log), Start::At(start), Flow::Live, StreamFilter::All);
    let mut decoder = Utf8Decoder::default();
    let (mut text, mut is_cut, mut is_first) = (String::new(), start > 0, true);
    while let Some(item) = cursor.next_now(READ_BYTES).await {
        match item {
            Item::Bytes { bytes, .. } => {
                let skipped = if std::mem::take(&mut is_first) && is_cut { continuation_prefix(&bytes) } else { 0 };
                text.push_str(&decoder.decode(&bytes[skipped..]));
            }
            Item::Gap { .. } => {
                text.clear();
                (decoder, is_cut, is_first) = (Utf8Decoder::default(), true, true);
            }
            Item::Exit(_) | Item::End => break,
            Item::BecameLive => {}
        }
    }
    text.extend(decoder.finish());
    Output { text, is_cut }
}

fn find_log(core: &Core, part: &Value) -> Option<Arc<Log>> {
    let process = part["state"]["metadata"]["processID"].as_str()?;
    core.find(process).ok()?.log().ok()
}

/// Fills in the last `max` bytes of output; returns the number of bytes filled in.
pub(super) async fn fill_output(core: &Core, part: &mut Value, max: u64) -> u64 {
    match (part["state"]["status"].as_str(), find_log(core, part)) {
        (Some("running"), Some(log)) => set_running_output(part, read_tail(&log, METADATA_BYTES.min(max)).await),
        (Some("completed"), Some(log)) => {
            let output = read_tail(&log, max).await;
            let length = output.text.len() as u64;
            set_output(part, output);
            length
        }
        // Without a log the stored output stays.
        _ => 0,
    }
}

/// Fills in as much output as fits into `room` bytes of JSON; returns how many of them it takes.
pub(super) async fn fill_output_within(core: &Core, part: &mut Value, room: usize) -> usize {
    if room < MIN_RESPONSE_BYTES {
        return 0;
    }
    match (part["state"]["status"].as_str(), find_log(core, part)) {
        (Some("completed"), Some(log)) => set_output_within(part, read_tail(&log, room as u64).await, room),
        (Some("running"), Some(_)) => {
            fill_output(core, part, METADATA_BYTES).await;
            json_length(part["state"]["metadata"]["output"].as_str().unwrap_or_default())
        }
        _ => 0,
    }
}

fn set_output_within(part: &mut Value, mut output: Output, room: usize) -> usize {
    // The part contains the output in full, and its end once more in the metadata.
    let metadata_length = json_length(text_tail(&output.text, METADATA_BYTES as usize));
    let surplus = output.text.len() - json_tail(&output.text, room.saturating_sub(metadata_length)).len();
    if surplus > 0 {
        output.text.drain(..surplus);
        output.is_cut = true;
    }
    let length = json_length(&output.text);
    set_output(part, output);
    length + metadata_length
}

/// A running command has output only in the metadata; returns the number of bytes.
fn set_running_output(part: &mut Value, output: Output) -> u64 {
    let length = output.text.len() as u64;
    part["state"]["metadata"]["output"] = output.text.into();
    length
}

fn set_output(part: &mut Value, output: Output) {
    let Output { mut text, is_cut } = output;
    let state = &mut part["state"];
    if state["metadata"]["aborted"] == true {
        text.push_str(ABORTED);
    }
    state["metadata"]["truncated"] = is_cut.into();
    state["metadata"]["output"] = text_tail(&text, METADATA_BYTES as usize).into();
    state["output"] = text.into();
}

/// The longest end of a text that takes at most `max` bytes as JSON.
fn json_tail(text: &str, max: usize) -> &str {
    let mut length = 0;
    let last_excluded = text.char_indices().rev().find(|(_, char)| {
        length += json_char_length(*char);
        length > max
    });
    last_excluded.map_or(text, |(at, char)| &text[at + char.len_utf8()..])
}

fn json_length(text: &str) -> usize {
    text.chars().map(json_char_length).sum()
}

/// The bytes of a character in a JSON string.
fn json_char_length(char: char) -> usize {
    match char {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => char.len_utf8(),
    }
}

/// The last `max` bytes of a text, in whole characters.
fn text_tail(text: &str, max: usize) -> &str {
    let from = text.len().saturating_sub(max);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[from..]
}

/// The bounds of an output hold for its JSON form.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(text: &str) {
    assert_eq!(json_length(text) + 2, Value::from(text).to_string().len());
    for max in [0, 1, 7, text.len() / 2] {
        let tail = json_tail(text, max);
        assert!(text.ends_with(tail) && json_length(tail) <= max);
        let tail = text_tail(text, max);
        assert!(text.ends_with(tail) && tail.len() <= max);
        let mut part = json!({ "state": { "metadata": {} } });
        let used = set_output_within(&mut part, Output { text: text.to_owned(), is_cut: false }, max);
        let is_whole = part["state"]["output"] == text;
        assert!(used <= max.max(json_length(text_tail(text, METADATA_BYTES as usize))));
        assert_eq!(part["state"]["metadata"]["truncated"], !is_whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aborted_part_carries_its_output_and_the_note_about_the_abort() {
        let mut part = json!({ "state": { "status": "completed", "metadata": { "exit": 1, "aborted": true } } });
        set_output(&mut part, Output { text: "é".repeat(20_000), is_cut: false });
        let output = part["state"]["output"].as_str().unwrap();
        assert!(output.starts_with("éé") && output.ends_with(ABORTED));
        assert_eq!(output.len(), 40_000 + ABORTED.len());
        let shown = part["state"]["metadata"]["output"].as_str().unwrap();
        assert!(shown.len() <= METADATA_BYTES as usize && shown.starts_with('é') && output.ends_with(shown));
        assert_eq!(part["state"]["metadata"]["exit"], 1);
    }

    // Regression: each event counted as 16 KiB, so a quiet command was soon published at the slow interval.
    #[test]
    fn a_running_part_counts_the_bytes_that_it_shows() {
        let mut part = json!({ "state": { "status": "running", "metadata": {} } });
        assert_eq!(set_running_output(&mut part, Output { text: "é\n".to_owned(), is_cut: false }), 3);
        assert_eq!(part["state"]["metadata"]["output"], "é\n");
        assert_eq!(set_running_output(&mut part, Output { text: String::new(), is_cut: false }), 0);
    }

    // Regression: 32 MiB of control characters became a response of 192 MiB, for each client that did not read it.
    #[test]
    fn the_bound_of_a_response_holds_after_escaping() {
        for text in ["\u{1}", "\n", "é\u{2}\"", "x", "\u{fffd}"].map(|text| text.repeat(100_000)) {
            assert_eq!(json_length(&text) + 2, serde_json::to_string(&text).unwrap().len());
            let mut part = json!({ "state": { "status": "completed", "metadata": {} } });
            let room = 300_000;
            let used = set_output_within(&mut part, Output { text: text.clone(), is_cut: false }, room);
            let output = part["state"]["output"].as_str().unwrap();
            assert!(used <= room && text.ends_with(output));
            let is_whole = output.len() == text.len();
            assert!(is_whole || used > room - 6, "{used}");
            assert_eq!(part["state"]["metadata"]["truncated"], !is_whole);
            assert!(part.to_string().len() <= used + 200, "{} {used}", part.to_string().len());
        }
    }
}
