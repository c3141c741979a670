//! One event of this dialect: its three encodings, and the translation of core events about terminals.

use outlive_core::events as core_events;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::dialect::opencode::ids;
use crate::dialect::opencode::ptys::PtyInfo;

/// An event, independent of the stream that it is sent on.
pub(super) struct Event {
    pub(super) id: String,
    pub(super) kind: &'static str,
    /// `None` for events about the server, which every stream carries.
    pub(super) directory: Option<String>,
    /// JSON on one line.
    pub(super) properties: String,
}

/// How a stream encodes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Envelope {
    /// `GET /event`
    Directory,
    /// `GET /global/event`
    Global,
    /// `GET /api/event`
    Api,
}

impl Envelope {
    pub(super) fn frame(self, event: &Event) -> String {
        let Event { id, kind, directory, properties } = event;
        let object = |properties_key: &str, location: &str| {
            format!("{{\"id\":\"{id}\",\"type\":\"{kind}\"{location},\"{properties_key}\":{properties}}}")
        };
        let quoted = directory.as_ref().map(|directory| Value::from(directory.as_str()));
        let data = match (self, quoted) {
            (Self::Directory, _) => object("properties", ""),
            (Self::Global, None) => format!("{{\"payload\":{}}}", object("properties", "")),
            (Self::Global, Some(directory)) => {
                format!("{{\"directory\":{directory},\"payload\":{}}}", object("properties", ""))
            }
            (Self::Api, None) => object("data", ""),
            (Self::Api, Some(directory)) => {
                object("data", &format!(",\"location\":{}", json!({ "directory": directory })))
            }
        };
        format!("data: {data}\n\n")
    }

    pub(super) fn heartbeat(self) -> String {
        match self {
            Self::Api => ": heartbeat\n\n".to_owned(),
            _ => self.frame(&Event::about_server("server.heartbeat")),
        }
    }
}

impl Event {
    pub(super) fn about_server(kind: &'static str) -> Self {
        Self { id: ids::ascending("evt"), kind, directory: None, properties: "{}".to_owned() }
    }

    /// The event that a core event about a terminal becomes; `None` for all other core events.
    pub(super) fn from_core(event: &core_events::Event) -> Option<Self> {
        #[derive(Deserialize)]
        struct Body {
            #[serde(rename = "atMs", default)]
            at_ms: u64,
            reason: Option<String>,
            process: PtyInfo,
        }
        // Most core events are not about terminals; this check spares them the parser.
        if !event.json.contains("\"tty\":true") {
            return None;
        }
        let Body { at_ms, reason, process } = serde_json::from_str(&event.json).ok()?;
        let (kind, properties) = translate(&event.kind, reason.as_deref(), &process)?;
        // Derived from the core event, so that all streams carry the same id.
        let id = format!("evt_{:012x}{:014}", (at_ms << 12) & ((1 << 48) - 1), event.sequence % 100_000_000_000_000);
        Some(Self { id, kind, directory: Some(process.directory()), properties: properties.to_string() })
    }
}

fn translate(kind: &str, reason: Option<&str>, process: &PtyInfo) -> Option<(&'static str, Value)> {
    let id = process.id();
    let info = || json!({ "info": process.to_json() });
    match (kind, reason) {
        // A removal hides the terminal at once by an annotation. The core's own events about its end come later.
        ("process.updated", Some("patched")) if process.is_deleted() => Some(("pty.deleted", json!({ "id": id }))),
        _ if !process.is_visible() => None,
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

    #[test]
    fn session_events_of_the_core_are_ignored() {
        let event = core_events::Event {
            sequence: 1,
            kind: "session.updated".into(),
            process_id: None,
            tag: None,
            session_id: Some("work".into()),
            json: r#"{"type":"session.updated","atMs":1,"session":{"id":"work","tty":true}}"#.into(),
        };
        assert!(Event::from_core(&event).is_none());
    }

    #[test]
    fn each_envelope_is_json_on_one_line() {
        let event = Event {
            id: "evt_1".into(),
            kind: "pty.deleted",
            directory: Some("/a\"\n".into()),
            properties: "{\"id\":1}".into(),
        };
        let read = |envelope: Envelope, event: &Event| -> Value {
            let frame = envelope.frame(event);
            let line = frame.strip_prefix("data: ").and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
            assert!(!line.contains('\n'));
            serde_json::from_str(line).unwrap()
        };
        let plain = json!({ "id": "evt_1", "type": "pty.deleted", "properties": { "id": 1 } });
        assert_eq!(read(Envelope::Directory, &event), plain);
        assert_eq!(read(Envelope::Global, &event), json!({ "directory": "/a\"\n", "payload": plain }));
        let api =
            json!({ "id": "evt_1", "type": "pty.deleted", "location": { "directory": "/a\"\n" }, "data": { "id": 1 } });
        assert_eq!(read(Envelope::Api, &event), api);
        let server = Event::about_server("server.connected");
        assert_eq!(read(Envelope::Global, &server)["payload"]["properties"], json!({}));
    }

    #[test]
    fn core_events_about_terminals_are_translated() {
        let kind_of = |kind: &str, reason: Option<&str>, status: &str, annotations: Value| {
            let process =
                json!({ "id": "proc_1", "command": "x", "tty": true, "status": status, "annotations": annotations });
            translate(kind, reason, &serde_json::from_value(process).unwrap()).map(|(kind, _)| kind)
        };
        let deleted = || json!({ "opencode.deleted": "1" });
        assert_eq!(kind_of("process.created", None, "running", json!({})), Some("pty.created"));
        assert_eq!(kind_of("process.created", None, "created", json!({})), None, "it is only reserved");
        assert_eq!(kind_of("process.updated", Some("started"), "running", json!({})), Some("pty.created"));
        assert_eq!(kind_of("process.updated", Some("attached"), "running", json!({})), None);
        assert_eq!(kind_of("process.updated", Some("patched"), "running", json!({})), Some("pty.updated"));
        assert_eq!(kind_of("process.updated", Some("patched"), "running", deleted()), Some("pty.deleted"));
        assert_eq!(kind_of("process.exited", None, "exited", json!({})), Some("pty.exited"));
        assert_eq!(kind_of("process.exited", None, "exited", deleted()), None, "pty.deleted was the last event");
        assert_eq!(kind_of("process.deleted", None, "exited", deleted()), None);
        assert_eq!(kind_of("process.deleted", None, "exited", json!({})), Some("pty.deleted"));
    }
}
