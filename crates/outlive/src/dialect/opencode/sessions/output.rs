//! What a command has printed, for a part: from the log of its process, and from what was kept when that is gone.

use std::sync::Arc;

use outlive_core::Core;
use outlive_core::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use serde_json::Value;

use crate::decoder::Decoder;

/// Of the output in a part while the command runs, and in `metadata` afterwards: its end.
pub(super) const SHOWN_BYTES: u64 = 16 * 1024;
/// Of the output in the event about the end of a command.
pub(super) const EVENT_BYTES: u64 = 64 * 1024;
/// Of the output that is kept with the message.
pub(super) const KEPT_BYTES: u64 = 8 * 1024;
/// With less room than this for the output of a command, an answer has what was kept: that may be more.
const LEAST_BYTES: usize = 256 * 1024;
const READ_BYTES: usize = 256 * 1024;

/// Whoever reads an aborted command's output is told so, in the words that they know.
const ABORTED: &str = "\n\n<metadata>\nUser aborted the command\n</metadata>";

pub(super) struct Output {
    pub(super) text: String,
    /// It does not begin at the beginning.
    pub(super) is_cut: bool,
}

/// The last `most` bytes of what is there, in whole characters.
pub(super) fn read(log: &Arc<Log>, most: u64) -> Output {
    let start = log.tail().max(log.head().saturating_sub(most));
    let mut cursor = Cursor::new(Arc::clone(log), Start::At(start), Flow::Live, StreamFilter::All);
    let mut decoder = Decoder::default();
    let (mut text, mut is_cut, mut is_first) = (String::new(), start > 0, true);
    while let Some(item) = cursor.try_next(READ_BYTES) {
        match item {
            Item::Bytes { bytes, .. } => {
                let skipped =
                    if std::mem::take(&mut is_first) && is_cut { super::super::units::continued(&bytes) } else { 0 };
                text.push_str(&decoder.decode(&bytes[skipped..]));
            }
            Item::Gap { .. } => {
                text.clear();
                (decoder, is_cut, is_first) = (Decoder::default(), true, true);
            }
            Item::Exit(_) => break,
            Item::BecameLive => {}
        }
    }
    text.extend(decoder.finish());
    Output { text, is_cut }
}

fn log_of(core: &Core, part: &Value) -> Option<Arc<Log>> {
    let process = part["state"]["metadata"]["processID"].as_str()?;
    core.find(process).ok()?.log().ok()
}

/// Puts as much output into a part as `most` allows; returns how much it was.
pub(super) fn fill(core: &Core, part: &mut Value, most: u64) -> u64 {
    match (part["state"]["status"].as_str(), log_of(core, part)) {
        (Some("running"), Some(log)) => {
            let shown = read(&log, SHOWN_BYTES.min(most));
            part["state"]["metadata"]["output"] = shown.text.into();
            SHOWN_BYTES.min(most)
        }
        (Some("completed"), Some(log)) => {
            let output = read(&log, most);
            let length = output.text.len() as u64;
            put(part, output);
            length
        }
        // The log is gone: what was kept is all there is.
        _ => 0,
    }
}

/// Puts as much output into a part of an answer as has room there once it is written; returns how much that takes.
pub(super) fn fill_answer(core: &Core, part: &mut Value, room: usize) -> usize {
    if room < LEAST_BYTES {
        return 0;
    }
    match (part["state"]["status"].as_str(), log_of(core, part)) {
        (Some("completed"), Some(log)) => put_within(part, read(&log, room as u64), room),
        (Some("running"), Some(_)) => {
            fill(core, part, SHOWN_BYTES);
            written_length(part["state"]["metadata"]["output"].as_str().unwrap_or_default())
        }
        _ => 0,
    }
}

fn put_within(part: &mut Value, mut output: Output, room: usize) -> usize {
    // It is in the part twice: as a whole, and its end in the metadata.
    let shown = written_length(tail(&output.text, SHOWN_BYTES as usize));
    let surplus = output.text.len() - end_within(&output.text, room.saturating_sub(shown)).len();
    if surplus > 0 {
        output.text.drain(..surplus);
        output.is_cut = true;
    }
    let length = written_length(&output.text);
    put(part, output);
    length + shown
}

/// The end of a text that takes at most `most` bytes as JSON.
fn end_within(text: &str, most: usize) -> &str {
    let mut length = 0;
    let begins = text.char_indices().rev().find(|(_, letter)| {
        length += written(*letter);
        length > most
    });
    begins.map_or(text, |(at, letter)| &text[at + letter.len_utf8()..])
}

fn written_length(text: &str) -> usize {
    text.chars().map(written).sum()
}

/// How many bytes a character takes in JSON.
fn written(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => letter.len_utf8(),
    }
}

fn put(part: &mut Value, output: Output) {
    let Output { mut text, is_cut } = output;
    let state = &mut part["state"];
    if state["metadata"]["aborted"] == true {
        text.push_str(ABORTED);
    }
    let shown = tail(&text, SHOWN_BYTES as usize);
    state["metadata"]["truncated"] = is_cut.into();
    state["metadata"]["output"] = shown.into();
    state["output"] = text.into();
}

/// The end of a text, in whole characters.
fn tail(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[from..]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_carries_its_output_and_how_it_came_to_an_end() {
        let mut part = json!({ "state": { "status": "completed", "metadata": { "exit": 1, "aborted": true } } });
        put(&mut part, Output { text: "é".repeat(20_000), is_cut: false });
        let output = part["state"]["output"].as_str().unwrap();
        assert!(output.starts_with("éé") && output.ends_with(ABORTED));
        assert_eq!(output.len(), 40_000 + ABORTED.len());
        let shown = part["state"]["metadata"]["output"].as_str().unwrap();
        assert!(shown.len() <= SHOWN_BYTES as usize && shown.starts_with('é') && output.ends_with(shown));
        assert_eq!(part["state"]["metadata"]["exit"], 1);
    }

    /// 32 MiB of control characters became an answer of 192 MiB, for each client that did not read it.
    #[test]
    fn an_answer_has_its_bound_after_escaping() {
        for text in ["\u{1}", "\n", "é\u{2}\"", "x", "\u{fffd}"].map(|text| text.repeat(100_000)) {
            assert_eq!(written_length(&text) + 2, serde_json::to_string(&text).unwrap().len());
            let mut part = json!({ "state": { "status": "completed", "metadata": {} } });
            let room = 300_000;
            let used = put_within(&mut part, Output { text: text.clone(), is_cut: false }, room);
            let output = part["state"]["output"].as_str().unwrap();
            assert!(used <= room && text.ends_with(output));
            let is_whole = output.len() == text.len();
            assert!(is_whole || used > room - 6, "{used}");
            assert_eq!(part["state"]["metadata"]["truncated"], !is_whole);
            assert!(part.to_string().len() <= used + 200, "{} {used}", part.to_string().len());
        }
    }
}
