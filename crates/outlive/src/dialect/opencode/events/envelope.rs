//! The three forms in which events are sent.

use serde_json::{Value, json};

use crate::dialect::opencode::id;

/// An event before it is known who hears it.
pub(super) struct Told {
    pub(super) id: String,
    pub(super) kind: &'static str,
    /// None: it concerns everybody.
    pub(super) directory: Option<String>,
    /// JSON on one line.
    pub(super) properties: String,
}

impl Told {
    pub(super) fn of_the_server(kind: &'static str, id: String) -> Self {
        Self { id, kind, directory: None, properties: "{}".to_owned() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Envelope {
    Folder,
    Global,
    Api,
}

impl Envelope {
    pub(super) fn frame(self, told: &Told) -> String {
        let Told { id, kind, directory, properties } = told;
        let plain = |properties_as: &str, between: &str| {
            format!("{{\"id\":\"{id}\",\"type\":\"{kind}\"{between},\"{properties_as}\":{properties}}}")
        };
        let quoted = directory.as_ref().map(|directory| Value::from(directory.as_str()));
        let data = match (self, quoted) {
            (Self::Folder, _) => plain("properties", ""),
            (Self::Global, None) => format!("{{\"payload\":{}}}", plain("properties", "")),
            (Self::Global, Some(directory)) => {
                format!("{{\"directory\":{directory},\"payload\":{}}}", plain("properties", ""))
            }
            (Self::Api, None) => plain("data", ""),
            (Self::Api, Some(directory)) => {
                plain("data", &format!(",\"location\":{}", json!({ "directory": directory })))
            }
        };
        format!("data: {data}\n\n")
    }

    pub(super) fn heartbeat(self) -> String {
        match self {
            Self::Api => ": heartbeat\n\n".to_owned(),
            _ => self.frame(&Told::of_the_server("server.heartbeat", id::ascending("evt"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_json_on_one_line() {
        let told = Told {
            id: "evt_1".into(),
            kind: "pty.deleted",
            directory: Some("/a\"\n".into()),
            properties: "{\"id\":1}".into(),
        };
        let read = |envelope: Envelope, told: &Told| -> Value {
            let frame = envelope.frame(told);
            let line = frame.strip_prefix("data: ").and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
            assert!(!line.contains('\n'));
            serde_json::from_str(line).unwrap()
        };
        let plain = json!({ "id": "evt_1", "type": "pty.deleted", "properties": { "id": 1 } });
        assert_eq!(read(Envelope::Folder, &told), plain);
        assert_eq!(read(Envelope::Global, &told), json!({ "directory": "/a\"\n", "payload": plain }));
        let below =
            json!({ "id": "evt_1", "type": "pty.deleted", "location": { "directory": "/a\"\n" }, "data": { "id": 1 } });
        assert_eq!(read(Envelope::Api, &told), below);
        let server = Told::of_the_server("server.connected", "evt_2".into());
        assert_eq!(read(Envelope::Global, &server)["payload"]["properties"], json!({}));
    }
}
