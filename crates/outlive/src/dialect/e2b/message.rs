//! The messages of the protobuf package `process`, for both encodings: field numbers for protobuf, names for JSON.
//!
//! A `oneof` of the original is a set of optional fields here, which is the same on the wire. Handlers reject a message
//! that sets several of them. Unknown fields are ignored, as both encodings require.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Serialize};

use super::json;

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct Pty {
    #[prost(message, optional, tag = "1")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<PtySize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
pub(super) struct PtySize {
    #[prost(uint32, tag = "1")]
    #[serde(default, deserialize_with = "json::number", skip_serializing_if = "json::is_default")]
    pub(super) cols: u32,
    #[prost(uint32, tag = "2")]
    #[serde(default, deserialize_with = "json::number", skip_serializing_if = "json::is_default")]
    pub(super) rows: u32,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct ProcessConfig {
    #[prost(string, tag = "1")]
    #[serde(default, deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub(super) cmd: String,
    #[prost(string, repeated, tag = "2")]
    #[serde(default, deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub(super) args: Vec<String>,
    #[prost(btree_map = "string, string", tag = "3")]
    #[serde(default, deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub(super) envs: BTreeMap<String, String>,
    #[prost(string, optional, tag = "4")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
pub(super) struct ListRequest {}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct ListResponse {
    #[prost(message, repeated, tag = "1")]
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub(super) processes: Vec<ProcessInfo>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct ProcessInfo {
    #[prost(message, optional, tag = "1")]
    #[serde(default)]
    pub(super) config: Option<ProcessConfig>,
    #[prost(uint32, tag = "2")]
    #[serde(default)]
    pub(super) pid: u32,
    #[prost(string, optional, tag = "3")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tag: Option<String>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct StartRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(default)]
    pub(super) process: Option<ProcessConfig>,
    #[prost(message, optional, tag = "2")]
    #[serde(default)]
    pub(super) pty: Option<Pty>,
    #[prost(string, optional, tag = "3")]
    #[serde(default)]
    pub(super) tag: Option<String>,
    /// Absent means true.
    #[prost(bool, optional, tag = "4")]
    #[serde(default)]
    pub(super) stdin: Option<bool>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct ProcessSelector {
    #[prost(uint32, optional, tag = "1")]
    #[serde(default, deserialize_with = "json::optional_number", skip_serializing_if = "Option::is_none")]
    pub(super) pid: Option<u32>,
    #[prost(string, optional, tag = "2")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tag: Option<String>,
}

/// The request of `Connect` and `CloseStdin`.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct SelectRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(default)]
    pub(super) process: Option<ProcessSelector>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct UpdateRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(default)]
    pub(super) process: Option<ProcessSelector>,
    #[prost(message, optional, tag = "2")]
    #[serde(default)]
    pub(super) pty: Option<Pty>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct SendSignalRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(default)]
    pub(super) process: Option<ProcessSelector>,
    /// The signal's number, or in JSON a name such as `SIGNAL_SIGKILL`.
    #[prost(int32, tag = "2")]
    #[serde(default, deserialize_with = "json::signal")]
    pub(super) signal: i32,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct ProcessInput {
    #[prost(bytes = "bytes", optional, tag = "1")]
    #[serde(default, with = "json::optional_bytes", skip_serializing_if = "Option::is_none")]
    pub(super) stdin: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    #[serde(default, with = "json::optional_bytes", skip_serializing_if = "Option::is_none")]
    pub(super) pty: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct SendInputRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(default)]
    pub(super) process: Option<ProcessSelector>,
    #[prost(message, optional, tag = "2")]
    #[serde(default)]
    pub(super) input: Option<ProcessInput>,
}

/// One message of a stream of input.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct StreamInputRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(default)]
    pub(super) start: Option<SelectRequest>,
    #[prost(message, optional, tag = "2")]
    #[serde(default)]
    pub(super) data: Option<StreamInputData>,
    #[prost(message, optional, tag = "3")]
    #[serde(default)]
    pub(super) keepalive: Option<Empty>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct StreamInputData {
    #[prost(message, optional, tag = "2")]
    #[serde(default)]
    pub(super) input: Option<ProcessInput>,
}

/// Most responses, and keepalives.
#[derive(Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
pub(super) struct Empty {}

/// The response of `Start` and `Connect`.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct EventResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) event: Option<ProcessEvent>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct ProcessEvent {
    #[prost(message, optional, tag = "1")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<StartEvent>,
    #[prost(message, optional, tag = "2")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<DataEvent>,
    #[prost(message, optional, tag = "3")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<EndEvent>,
    #[prost(message, optional, tag = "4")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) keepalive: Option<Empty>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
pub(super) struct StartEvent {
    #[prost(uint32, tag = "1")]
    #[serde(default)]
    pub(super) pid: u32,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
pub(super) struct DataEvent {
    #[prost(bytes = "bytes", optional, tag = "1")]
    #[serde(default, with = "json::optional_bytes", skip_serializing_if = "Option::is_none")]
    pub(super) stdout: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    #[serde(default, with = "json::optional_bytes", skip_serializing_if = "Option::is_none")]
    pub(super) stderr: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    #[serde(default, with = "json::optional_bytes", skip_serializing_if = "Option::is_none")]
    pub(super) pty: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndEvent {
    #[prost(sint32, tag = "1")]
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub(super) exit_code: i32,
    #[prost(bool, tag = "2")]
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub(super) exited: bool,
    #[prost(string, tag = "3")]
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub(super) status: String,
    #[prost(string, optional, tag = "4")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
        serde_json::from_str(text).ok()
    }

    #[test]
    fn requests_of_the_sdks_are_decoded() {
        let start: StartRequest = read(
            r#"{"process":{"cmd":"/bin/bash","args":["-l","-c","echo hi"],"envs":{"A":"1"},"cwd":"/tmp"},"stdin":false}"#,
        )
        .unwrap();
        let config = start.process.unwrap();
        assert_eq!((config.cmd.as_str(), config.args.len(), start.stdin), ("/bin/bash", 3, Some(false)));
        let signal: SendSignalRequest = read(r#"{"process":{"pid":42},"signal":"SIGNAL_SIGKILL"}"#).unwrap();
        assert_eq!((signal.process.unwrap().pid, signal.signal), (Some(42), 9));
        let input: SendInputRequest = read(r#"{"process":{"pid":42},"input":{"stdin":"YWJj"}}"#).unwrap();
        assert_eq!(input.input.unwrap().stdin.as_deref(), Some(&b"abc"[..]));
        let stream: StreamInputRequest = read(r#"{"data":{"input":{"pty":""}}}"#).unwrap();
        assert_eq!(stream.data.unwrap().input.unwrap().pty.as_deref(), Some(&b""[..]));
    }

    #[test]
    fn lenient_forms_of_protobuf_json_are_decoded() {
        let start: StartRequest =
            read(r#"{"process":{"cmd":"x","args":null,"envs":null,"cwd":null,"later":1},"pty":null,"tag":null}"#)
                .unwrap();
        assert_eq!((start.process.unwrap().args.len(), start.pty, start.stdin), (0, None, None));
        for pid in ["42", "\"42\"", "42.0"] {
            let selector: ProcessSelector = read(&format!(r#"{{"pid":{pid},"tag":null}}"#)).unwrap();
            assert_eq!((selector.pid, selector.tag), (Some(42), None));
        }
        for invalid in ["-1", "4294967296", "1.5", "true", "\"x\""] {
            assert_eq!(read::<ProcessSelector>(&format!(r#"{{"pid":{invalid}}}"#)), None, "{invalid}");
        }
        for (text, bytes) in [("-_8=", &[0xfb, 0xff][..]), ("+/8", &[0xfb, 0xff]), ("", &[])] {
            let input: ProcessInput = read(&format!(r#"{{"stdin":"{text}"}}"#)).unwrap();
            assert_eq!(input.stdin.as_deref(), Some(bytes), "{text}");
        }
        for (text, number) in [("15", 15), ("\"SIGNAL_SIGTERM\"", 15), ("\"SIGNAL_SIGINT\"", 2), ("null", 0)] {
            let request: SendSignalRequest = read(&format!(r#"{{"signal":{text}}}"#)).unwrap();
            assert_eq!(request.signal, number);
        }
        assert_eq!(read::<SendSignalRequest>(r#"{"signal":"SIGNAL_NOPE"}"#), None);
    }

    #[test]
    fn events_have_the_form_that_the_sdks_expect() {
        let json = |event: ProcessEvent| serde_json::to_string(&EventResponse { event: Some(event) }).unwrap();
        let start = ProcessEvent { start: Some(StartEvent { pid: 42 }), ..ProcessEvent::default() };
        assert_eq!(json(start), r#"{"event":{"start":{"pid":42}}}"#);
        let data = DataEvent { stdout: Some(Bytes::from_static(b"hi\n")), ..DataEvent::default() };
        let data = ProcessEvent { data: Some(data), ..ProcessEvent::default() };
        assert_eq!(json(data.clone()), r#"{"event":{"data":{"stdout":"aGkK"}}}"#);
        let end = EndEvent { exited: true, status: "exit status 0".into(), ..EndEvent::default() };
        let end = ProcessEvent { end: Some(end), ..ProcessEvent::default() };
        assert_eq!(json(end), r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#);
        let keepalive = ProcessEvent { keepalive: Some(Empty {}), ..ProcessEvent::default() };
        assert_eq!(json(keepalive), r#"{"event":{"keepalive":{}}}"#);
        // Field 1 (event) contains field 2 (data), which contains field 1 (stdout).
        let binary = EventResponse { event: Some(data) }.encode_to_vec();
        assert_eq!(binary, b"\x0a\x07\x12\x05\x0a\x03hi\n");
    }
}
