//! Where a token must not turn up.

use serde_json::json;

use crate::harness::socket::Socket;
use crate::harness::{Outlive, Setup, proc};

const SECRET: &str = "s3cr3t-t0k3n-of-this-test";

fn contains(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

fn use_it(outlive: &Outlive) -> String {
    let id = outlive.start_process(json!({ "command": "sh", "args": ["-c", "env; cat"], "tag": "t" }));
    let path = format!("/v1/processes/{id}/connect?access_token={SECRET}");
    let mut socket = Socket::open(outlive.http(), &path, true, None).unwrap();
    socket.type_text("x\n");
    assert!(Socket::try_connect(outlive.http(), "nobody", &format!("access_token={SECRET}&from=x"), true).is_err());
    let header = format!("Bearer {SECRET}x");
    outlive.http().send("GET", &format!("/v1/processes?access_token={SECRET}"), &[("authorization", &header)], None);
    outlive.http().send("GET", &format!("/nowhere?access_token={SECRET}"), &[], None);
    id
}

fn look_everywhere(outlive: &Outlive, id: &str) {
    outlive.wait_output(id, "PATH|PWD");
    assert!(!contains(&outlive.output(id)), "the child's environment");
    let pid = outlive.info(id)["pid"].as_i64().unwrap() as i32;
    for pid in [pid, outlive.holder_pid(), outlive.server_pid()] {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            assert!(!contains(&bytes), "/proc/{pid}/{file}");
        }
    }
    for path in ["/v1/processes", "/metrics", "/v1/health", "/v1/tokens", "/v1/config", &format!("/v1/processes/{id}")]
    {
        let answer = outlive.get(path);
        assert_eq!(answer.status, 200);
        assert!(!contains(&answer.body), "{path}");
    }
}

#[test]
fn a_token_is_not_in_logs_records_or_children() {
    for by_environment in [false, true] {
        let trace = vec!["--log-level".to_owned(), "trace".to_owned()];
        let setup = Setup { arguments: trace, ..Setup::default() };
        let mut outlive = Outlive::with(if by_environment {
            let environment = vec![("OUTLIVE_TOKEN".to_owned(), SECRET.to_owned())];
            Setup { environment, access: Some(Vec::new()), ..setup }
        } else {
            Setup { token: Some(SECRET.to_owned()), ..setup }
        });
        outlive.use_token(SECRET);
        let id = use_it(&outlive);
        look_everywhere(&outlive, &id);
        outlive.kill_server();
        look_everywhere(&outlive, &id);
        assert!(!contains(outlive.stderr().as_bytes()), "the log at trace level");
        assert!(outlive.stderr().contains("audit"), "there was something to look at");
    }
}

/// The memory that outlives the server: what it kept at the holder.
#[test]
fn a_token_is_not_in_what_the_holder_keeps() {
    let outlive = Outlive::with(Setup { token: Some(SECRET.to_owned()), ..Setup::default() });
    use_it(&outlive);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut looked = 0;
    for entry in std::fs::read_dir(format!("/proc/{}/fd", outlive.holder_pid())).unwrap().flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if target.to_string_lossy().contains("memfd:") {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            assert!(!contains(&bytes), "{}", target.display());
            looked += 1;
        }
    }
    assert!(looked >= 2, "settings and journal at least: {looked}");
}

#[test]
fn calls_that_change_something_are_written_down() {
    let outlive = Outlive::with(Setup { token: Some(SECRET.to_owned()), ..Setup::default() });
    let id = outlive.shell("cat");
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

/// A viewer's flood of nonsense pushed other clients' lines out of the queue of the log.
#[test]
fn a_flood_of_nonsense_does_not_push_the_audit_log_out() {
    let outlive = Outlive::with(Setup { token: Some(SECRET.to_owned()), ..Setup::default() });
    let id = outlive.shell("cat");
    let mut socket = Socket::connect(outlive.http(), &id, &format!("role=viewer&access_token={SECRET}"), true);
    for _ in 0..5_000 {
        socket.control(json!("nonsense"));
    }
    for number in 0..20 {
        outlive.post(&format!("/v1/processes/nobody{number}/stop"), &json!({}));
    }
    crate::harness::eventually("every line", || {
        let log = outlive.stderr();
        (0..20).all(|number| log.contains(&format!("nobody{number}/stop"))).then_some(())
    });
    assert!(outlive.stderr().contains("malformed control frame"));
    assert!(!outlive.stderr().contains("were dropped"));
}

#[test]
fn a_refusal_for_the_scope_and_a_writers_ticket_were_not_written_down() {
    let outlive = Outlive::with(Setup { token: Some(SECRET.to_owned()), ..Setup::default() });
    let id = outlive.shell("cat");
    outlive.post("/v1/tickets", &json!({ "processId": id, "role": "writer" }));
    let given = outlive.post("/v1/tokens", &json!({ "name": "a b\" status=200", "scope": "read" })).json;
    let bearer = format!("Bearer {}", given["token"].as_str().unwrap());
    let path = format!("/v1/processes/{id}/kill");
    assert_eq!(outlive.http().send("POST", &path, &[("authorization", &bearer)], None).status, 403);
    let line = |what: &str| outlive.stderr().lines().find(|line| line.contains(what)).map(str::to_owned);
    crate::harness::eventually("the ticket", || line("path=\"/v1/tickets\""));
    let refused = crate::harness::eventually("the refusal", || line("/kill"));
    assert!(refused.contains(r#"who="a b\" status=200""#) && refused.contains("status=403"), "{refused}");
}
