//! What only the history knows: admins read and delete it, no call changes it, and other clients do not learn of it.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::http::Response;
use crate::harness::{Outlive, Setup};

/// A second boot with the history of a first one, which ran one terminal.
struct SecondBoot {
    outlive: Outlive,
    /// The terminal of the first boot.
    id: String,
    _directory: tempfile::TempDir,
}

impl SecondBoot {
    fn start() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let setup = |history: PathBuf| Setup {
            token: Some("the-admin".into()),
            history: Some(history.join("history")),
            ..Setup::default()
        };
        let first = Outlive::start_with(setup(directory.path().into()));
        let id = first.start_process(json!({ "command": "echo stored", "shell": true, "tty": true, "tag": "old" }));
        first.wait_exit(&id);
        assert_eq!(first.stop(), 0);
        let outlive = Outlive::start_with(setup(directory.path().into()));
        Self { outlive, id, _directory: directory }
    }

    fn issue_token(&self, scope: &str) -> String {
        let response = self.outlive.post("/v1/tokens", &json!({ "name": scope, "scope": scope }));
        response.json["token"].as_str().unwrap_or_else(|| panic!("{}", response.text())).to_owned()
    }

    fn send(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Response {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        self.outlive.http().send(method, path, &headers, body.map(Value::to_string).as_deref().map(str::as_bytes))
    }
}

#[test]
fn only_admins_learn_of_the_history() {
    let boot = SecondBoot::start();
    let read_paths = ["", "/output", "/logs", "/recording"];
    for scope in ["read", "write"] {
        let token = boot.issue_token(scope);
        for filter in ["all", "previous", "current"] {
            let response = boot.send(&token, "GET", &format!("/v1/processes?boot={filter}"), None);
            assert_eq!((response.status, response.code()), (403, "scope_insufficient"), "{filter}");
        }
        for suffix in read_paths {
            let of = |id: &str| boot.send(&token, "GET", &format!("/v1/processes/{id}{suffix}"), None);
            let (stored, unknown) = (of(&boot.id), of("proc_unknown"));
            assert_eq!(stored.status, 404, "{scope} {suffix}");
            assert_eq!(stored.text().replace(&boot.id, "proc_unknown"), unknown.text(), "{scope} {suffix}");
        }
        let refused = if scope == "write" { 404 } else { 403 };
        let path = format!("/v1/processes/{}", boot.id);
        assert_eq!(boot.send(&token, "DELETE", &path, None).status, refused);
        assert_eq!(boot.send(&token, "POST", &format!("{path}/stop"), None).status, refused);
    }
    let path = format!("/v1/processes/{}", boot.id);
    for suffix in read_paths {
        let response = boot.outlive.get(&format!("{path}{suffix}"));
        assert_eq!(response.status, 200, "{suffix}: {}", response.text());
    }
    assert_eq!(boot.outlive.output(&boot.id), b"stored\r\n");
}

#[test]
fn a_process_of_an_earlier_boot_cannot_be_changed() {
    let boot = SecondBoot::start();
    let path = |suffix: &str| format!("/v1/processes/{}{suffix}", boot.id);
    let input = json!({ "data": "x", "encoding": "utf8" });
    let requests: &[(&str, &str, Option<Value>)] = &[
        ("POST", "/start", None),
        ("POST", "/restart", None),
        ("POST", "/stop", None),
        ("POST", "/kill", None),
        ("POST", "/signal", Some(json!({ "signal": "INT" }))),
        ("POST", "/input", Some(input)),
        ("POST", "/stdin/close", None),
        ("POST", "/resize", Some(json!({ "cols": 80, "rows": 24 }))),
        ("POST", "/wait", Some(json!({}))),
        ("PATCH", "", Some(json!({ "label": "new" }))),
        ("GET", "/screen", None),
        ("GET", "/tree", None),
        ("GET", "/attachments", None),
        ("GET", "/connect", None),
    ];
    for (method, suffix, body) in requests {
        let response = boot.send("the-admin", method, &path(suffix), body.as_ref());
        assert_eq!((response.status, response.code()), (409, "earlier_boot"), "{method} {suffix}: {}", response.text());
    }
    let ticket = boot.outlive.post("/v1/tickets", &json!({ "processId": boot.id, "role": "viewer" }));
    assert_eq!((ticket.status, ticket.code()), (409, "earlier_boot"));
    assert_eq!(boot.outlive.get("/v1/processes/tag:old").status, 404, "a tag names a process of this boot");
    assert_eq!(boot.outlive.delete(&path("")).status, 204);
    assert_eq!(boot.outlive.get(&path("")).status, 404);
    assert_eq!(boot.outlive.delete(&path("")).status, 404);
}
