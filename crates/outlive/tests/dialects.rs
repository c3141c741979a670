//! Where dialects are mounted, and that their listeners survive the server. conformance/ tests each dialect with its
//! platform's own client.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use harness::http::Http;
use harness::{Outlive, Setup, eventually, proc};
use serde_json::json;

fn start_with_e2b_listener() -> (Outlive, Http) {
    let arguments = ["--dialect", "e2b=127.0.0.1:0"].map(str::to_owned).to_vec();
    let mut outlive = Outlive::start_with(Setup { arguments, ..Setup::default() });
    let line = outlive.next_line();
    let port = line.strip_prefix("e2b on http://127.0.0.1:").and_then(|port| port.parse().ok());
    let port: u16 = port.unwrap_or_else(|| panic!("not an announcement: {line:?}"));
    (outlive, Http::new(port))
}

#[test]
fn a_dialect_is_mounted_below_its_name_and_at_the_root_of_its_own_address() {
    let (outlive, own) = start_with_e2b_listener();
    assert_eq!(outlive.get("/e2b/health").status, 204);
    assert_eq!(own.get("/health").status, 204);
    // The native API has no dialect routes at its root, and the dialect's address has no native routes.
    assert_eq!(outlive.get("/health").status, 404);
    assert_eq!(own.get("/v1/processes").status, 404);
    assert_eq!(own.get("/e2b/health").status, 404);
    // Both places refuse unknown paths in the dialect's error format.
    for response in [own.get("/nowhere"), outlive.get("/e2b/nowhere"), outlive.get("/e2b")] {
        assert_eq!((response.status, response.json["code"].as_u64()), (404, Some(404)), "{}", response.text());
    }
    assert_eq!(outlive.get("/nowhere").code(), "unknown_path");
    let wrong = own.send("DELETE", "/health", &[], None);
    assert_eq!((wrong.status, wrong.json["code"].as_u64()), (405, Some(405)));
    let listed = &outlive.get("/v1/dialects").json["dialects"][0];
    assert_eq!((listed["name"].as_str(), listed["path"].as_str()), (Some("e2b"), Some("/e2b")));
    assert_eq!(listed["addresses"].as_array().map(Vec::len), Some(1));
}

#[test]
fn the_origin_policy_covers_dialects() {
    let (outlive, own) = start_with_e2b_listener();
    for (http, path) in [(own, "/health"), (outlive.http(), "/e2b/health"), (own, "/nowhere")] {
        let page = http.send("GET", path, &[("origin", "https://evil.example")], None);
        assert_eq!((page.status, page.json["code"].as_u64()), (403, Some(403)), "{}", page.text());
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        let mut stream = http.connect().unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    }
}

#[test]
fn the_address_of_a_dialect_survives_the_server() {
    let (outlive, own) = start_with_e2b_listener();
    for _ in 0..3 {
        let server = outlive.server_pid();
        proc::send_signal(server, rustix::process::Signal::KILL);
        // A connection in between is never refused: it waits for the next server.
        assert_eq!(own.get("/health").status, 204);
    }
    let pid = outlive.server_pid();
    assert_eq!(outlive.post("/v1/upgrade", &serde_json::json!({})).status, 200);
    assert_eq!(own.get("/health").status, 204);
    assert_ne!(outlive.server_pid(), pid);
}

#[test]
fn http_1_and_http_2_share_one_port() {
    let (outlive, own) = start_with_e2b_listener();
    for http in [outlive.http(), own] {
        let mut stream = http.connect().unwrap();
        // HTTP/2 with prior knowledge: the preface and empty settings.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).unwrap();
        assert_eq!((frame[3], &frame[5..]), (4, &[0; 4][..]), "settings of the connection: {frame:?}");
    }
}

#[test]
fn a_dialect_listens_on_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("e2b.sock");
    let arguments = vec!["--dialect".to_owned(), format!("e2b=unix:{}", path.display())];
    let mut outlive = Outlive::start_with(Setup { arguments, token: Some("secret".into()), ..Setup::default() });
    assert_eq!(outlive.next_line(), format!("e2b on unix:{}", path.display()));
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 204"), "{response}");
}

#[test]
fn invalid_dialect_flags_are_refused() {
    let serve = |arguments: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_outlive"))
            .args(["serve", "--history", "off", "--listen", "127.0.0.1:0", "--state-dir"])
            .arg(dir.path())
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = serve(&["--dialect", "unknown=127.0.0.1:0"]);
    assert!(code == Some(2) && stderr.contains("e2b"), "{code:?} {stderr}");
    let (code, stderr) = serve(&["--dialect", "e2b=nonsense"]);
    assert!(code == Some(2) && stderr.contains("unix:PATH"), "{code:?} {stderr}");
    let (code, stderr) = serve(&["--no-token", "--dialect", "e2b=0.0.0.0:0"]);
    assert!(code == Some(2) && stderr.contains("--insecure"), "{code:?} {stderr}");
}

/// Opens an E2B `Connect` stream and reads it up to `wanted`.
fn connect_and_read_until(http: Http, pid: u64, token: &str, wanted: &str) {
    let message = json!({ "process": { "pid": pid } }).to_string();
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message.as_bytes());
    let mut stream = http.connect().unwrap();
    let head = format!(
        "POST /e2b/process.Process/Connect HTTP/1.1\r\nhost: localhost\r\nx-access-token: {token}\r\n\
         content-type: application/connect+json\r\nconnect-protocol-version: 1\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the stream ended: {}", String::from_utf8_lossy(&seen));
        seen.extend(&buffer[..count]);
    }
}

// Regression: output sent to a client with a read token counted as received by the owner.
#[test]
fn an_e2b_connect_with_a_read_token_does_not_move_the_resume_offset() {
    let outlive = Outlive::start_with(Setup { token: Some("owner".into()), ..Setup::default() });
    let given = outlive.post("/v1/tokens", &json!({ "name": "eye", "scope": "read" })).json;
    let id = outlive.start_shell("echo important; exec cat");
    outlive.wait_output(&id, "important");
    let pid = outlive.info(&id)["pid"].as_u64().unwrap();
    let important = "aW1wb3J0YW50Cg==";
    connect_and_read_until(outlive.http(), pid, given["token"].as_str().unwrap(), important);
    let resume_offset = || outlive.info(&id)["resumeOffset"].as_u64().unwrap_or(0);
    assert_eq!(resume_offset(), 0);
    connect_and_read_until(outlive.http(), pid, "owner", important);
    eventually("the owner has it", || (resume_offset() == 10).then_some(()));
}

// Regression: the new token with the same secret replaced the admin token, which lost its scope.
#[test]
fn e2b_init_refuses_the_admin_token() {
    let outlive = Outlive::start_with(Setup { token: Some("the-admin".into()), ..Setup::default() });
    let response = outlive.post("/e2b/init", &json!({ "accessToken": "the-admin" }));
    assert_eq!(response.status, 409, "{}", response.text());
    assert_eq!(outlive.get("/v1/tokens").status, 200);
    assert_eq!(outlive.post("/e2b/init", &json!({ "accessToken": "another-one" })).status, 204);
    assert_eq!(
        outlive.post("/e2b/init", &json!({ "accessToken": "another-one" })).status,
        204,
        "the same token again is no conflict"
    );
}
