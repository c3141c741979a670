//! The core's events about terminals, in OpenCode's words.

use outlive_core::events::Event;
use serde::Deserialize;
use serde_json::json;

use super::envelope::Told;
use crate::dialect::opencode::ptys::Seen;

#[derive(Deserialize)]
struct Body {
    #[serde(rename = "atMs", default)]
    at_ms: u64,
    reason: Option<String>,
    process: Seen,
}

pub(super) fn translate(event: &Event) -> Option<Told> {
    // Most events are about something else, and need not be read for that.
    if !event.json.contains("\"tty\":true") {
        return None;
    }
    let Body { at_ms, reason, process } = serde_json::from_str(&event.json).ok()?;
    let (kind, properties) = word(&event.kind, reason.as_deref(), &process)?;
    // The same for all who listen.
    let id = format!("evt_{:012x}{:014}", (at_ms << 12) & ((1 << 48) - 1), event.sequence % 100_000_000_000_000);
    Some(Told { id, kind, directory: Some(process.directory()), properties: properties.to_string() })
}

fn word(kind: &str, reason: Option<&str>, process: &Seen) -> Option<(&'static str, serde_json::Value)> {
    let id = process.id();
    let info = || json!({ "info": process.to_pty() });
    match (kind, reason) {
        // Deleted there is deleted at once; what the core tells of its end comes too late.
        ("process.updated", Some("patched")) if process.is_deleted() => Some(("pty.deleted", json!({ "id": id }))),
        _ if !process.is_shown() => None,
        ("process.created", _) | ("process.updated", Some("started")) => Some(("pty.created", info())),
        ("process.updated", Some("patched")) => Some(("pty.updated", info())),
        ("process.exited", _) => Some(("pty.exited", json!({ "id": id, "exitCode": process.exit_code() }))),
        ("process.deleted", _) => Some(("pty.deleted", json!({ "id": id }))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word_of(kind: &str, reason: Option<&str>, status: &str, annotations: serde_json::Value) -> Option<&'static str> {
        let process =
            json!({ "id": "proc_1", "command": "x", "tty": true, "status": status, "annotations": annotations });
        word(kind, reason, &serde_json::from_value(process).unwrap()).map(|(kind, _)| kind)
    }

    #[test]
    fn each_word() {
        let deleted = || json!({ "opencode.deleted": "1" });
        assert_eq!(word_of("process.created", None, "running", json!({})), Some("pty.created"));
        assert_eq!(word_of("process.created", None, "created", json!({})), None, "it is only reserved");
        assert_eq!(word_of("process.updated", Some("started"), "running", json!({})), Some("pty.created"));
        assert_eq!(word_of("process.updated", Some("attached"), "running", json!({})), None);
        assert_eq!(word_of("process.updated", Some("patched"), "running", json!({})), Some("pty.updated"));
        assert_eq!(word_of("process.updated", Some("patched"), "running", deleted()), Some("pty.deleted"));
        assert_eq!(word_of("process.exited", None, "exited", json!({})), Some("pty.exited"));
        assert_eq!(word_of("process.exited", None, "exited", deleted()), None, "deleted is all that is told");
        assert_eq!(word_of("process.deleted", None, "exited", deleted()), None);
        assert_eq!(word_of("process.deleted", None, "exited", json!({})), Some("pty.deleted"));
    }
}
