//! Tokens do not leak into logs, records or children, and the audit log is complete.

use serde_json::json;

use crate::harness::socket::Socket;
use crate::harness::{Outlive, Setup, proc};

const SECRET: &str = "s3cr3t-t0k3n-of-this-test";

fn contains_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

fn use_secret(outlive: &Outlive) -> String {
    let id = outlive.start_process(json!({ "command": "sh", "args": ["-c", "env; cat"], "tag": "t" }));
    let path = format!("/v1/processes/{id}/connect?access_token={SECRET}");
    let mut socket = Socket::open(outlive.http(), &path, true, None).unwrap();
    socket.type_text("x\n");
    assert!(Socket::try_connect(outlive.http(), "unknown", &format!("access_token={SECRET}&from=x"), true).is_err());
    let header = format!("Bearer {SECRET}x");
    outlive.http().send("GET", &format!("/v1/processes?access_token={SECRET}"), &[("authorization", &header)], None);
    outlive.http().send("GET", &format!("/nowhere?access_token={SECRET}"), &[], None);
    id
}

fn assert_not_leaked(outlive: &Outlive, id: &str) {
    outlive.wait_output(id, "PATH|PWD");
    assert!(!contains_secret(&outlive.output(id)), "the child's environment");
    let pid = outlive.info(id)["pid"].as_i64().unwrap() as i32;
    for pid in [pid, outlive.holder_pid(), outlive.server_pid()] {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            assert!(!contains_secret(&bytes), "/proc/{pid}/{file}");
        }
    }
    for path in ["/v1/processes", "/metrics", "/v1/health", "/v1/tokens", "/v1/config", &format!("/v1/processes/{id}")]
    {
        let response = outlive.get(path);
        assert_eq!(response.status, 200);
        assert!(!contains_secret(&response.body), "{path}");
    }
}

#[test]
fn a_token_is_not_in_logs_records_or_children() {
    for by_environment in [false, true] {
        let trace = vec!["--log-level".to_owned(), "trace".to_owned()];
        let setup = Setup { arguments: trace, ..Setup::default() };
        let mut outlive = Outlive::start_with(if by_environment {
            let environment = vec![("OUTLIVE_TOKEN".to_owned(), SECRET.to_owned())];
            Setup { environment, access: Some(Vec::new()), ..setup }
        } else {
            Setup { token: Some(SECRET.to_owned()), ..setup }
        });
        outlive.use_token(SECRET);
        let id = use_secret(&outlive);
        assert_not_leaked(&outlive, &id);
        outlive.kill_server();
        assert_not_leaked(&outlive, &id);
        assert!(!contains_secret(outlive.stderr().as_bytes()), "the log at trace level");
        assert!(outlive.stderr().contains("audit"), "the log has audit lines");
    }
}

/// Reads the memfds that the holder keeps for the next server.
#[test]
fn a_token_is_not_in_the_holders_memfds() {
    let outlive = Outlive::start_with(Setup { token: Some(SECRET.to_owned()), ..Setup::default() });
    use_secret(&outlive);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut memfds = 0;
    for entry in std::fs::read_dir(format!("/proc/{}/fd", outlive.holder_pid())).unwrap().flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if target.to_string_lossy().contains("memfd:") {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            assert!(!contains_secret(&bytes), "{}", target.display());
            memfds += 1;
        }
    }
    assert!(memfds >= 2, "settings and journal at least: {memfds}");
}

#[test]
fn requests_that_change_state_are_audited() {
    let outlive = Outlive::start_with(Setup { token: Some(SECRET.to_owned()), ..Setup::default() });
    let id = outlive.start_shell("cat");
    outlive.get("/v1/processes");
    outlive.delete(&format!("/v1/processes/{id}?force=true"));
    crate::harness::eventually("both lines", || {
        let lines: Vec<String> =
            outlive.stderr().lines().filter(|line| line.contains("audit")).map(str::to_owned).collect();
        (lines.len() == 2).then_some(()).inspect(|()| {
            assert!(lines[0].contains("who=\"startup\"") && lines[0].contains("from=127.0.0.1:"), "{}", lines[0]);
            assert!(lines[1].contains("DELETE") && lines[1].contains(&id), "{}", lines[1]);
        })
    });
    assert!(proc::is_alive(outlive.holder_pid()));
}

// Regression: warnings about a viewer's invalid frames pushed other clients' audit lines out of the log queue.
#[test]
fn a_flood_of_invalid_frames_does_not_displace_audit_lines() {
    let outlive = Outlive::start_with(Setup { token: Some(SECRET.to_owned()), ..Setup::default() });
    let id = outlive.start_shell("cat");
    let mut socket = Socket::connect(outlive.http(), &id, &format!("role=viewer&access_token={SECRET}"), true);
    for _ in 0..5_000 {
        socket.send_control(json!("nonsense"));
    }
    for number in 0..20 {
        outlive.post(&format!("/v1/processes/unknown{number}/stop"), &json!({}));
    }
    crate::harness::eventually("every line", || {
        let log = outlive.stderr();
        (0..20).all(|number| log.contains(&format!("unknown{number}/stop"))).then_some(())
    });
    assert!(outlive.stderr().contains("malformed control frame"));
    assert!(!outlive.stderr().contains("were dropped"));
}

// Regression: neither a refusal because of the scope nor the issue of a writer's ticket was logged.
#[test]
fn insufficient_scopes_and_issued_tickets_are_audited() {
    let outlive = Outlive::start_with(Setup { token: Some(SECRET.to_owned()), ..Setup::default() });
    let id = outlive.start_shell("cat");
    outlive.post("/v1/tickets", &json!({ "processId": id, "role": "writer" }));
    let given = outlive.post("/v1/tokens", &json!({ "name": "a b\" status=200", "scope": "read" })).json;
    let bearer = format!("Bearer {}", given["token"].as_str().unwrap());
    let path = format!("/v1/processes/{id}/kill");
    assert_eq!(outlive.http().send("POST", &path, &[("authorization", &bearer)], None).status, 403);
    let find_line = |text: &str| outlive.stderr().lines().find(|line| line.contains(text)).map(str::to_owned);
    crate::harness::eventually("the ticket", || find_line("path=\"/v1/tickets\""));
    let refused = crate::harness::eventually("the refusal", || find_line("/kill"));
    assert!(refused.contains(r#"who="a b\" status=200""#) && refused.contains("status=403"), "{refused}");
}
