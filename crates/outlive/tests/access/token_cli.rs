//! `outlive token` from the command line.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Outlive, Setup};

struct Fixture(Outlive);

impl Fixture {
    fn new() -> Self {
        Self(Outlive::start_with(Setup { token: Some("the-admin".into()), ..Setup::default() }))
    }

    /// Returns exit code, stdout and stderr.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        self.run_with_token(None, arguments)
    }

    fn run_with_token(&self, token: Option<&str>, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlive"));
        command.args(["token", "--state-dir", self.0.state_dir().to_str().unwrap()]).args(arguments);
        command.env_remove("OUTLIVE_TOKEN");
        if let Some(token) = token {
            command.env("OUTLIVE_TOKEN", token);
        }
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn status(&self, token: &str) -> u16 {
        let bearer = format!("Bearer {token}");
        self.0.http().send("GET", "/v1/processes", &[("authorization", &bearer)], None).status
    }
}

#[test]
fn tokens_are_added_listed_and_revoked() {
    let fixture = Fixture::new();
    let (code, token, stderr) = fixture.run(&["add", "ci", "--scope", "write"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let token = token.strip_suffix('\n').unwrap();
    assert!(token.len() >= 43 && !token.contains(char::is_whitespace), "only the token is on stdout: {token:?}");
    assert_eq!(fixture.status(token), 200);
    assert_eq!(fixture.run(&["add", "guest", "--scope", "read", "--expires", "24h"]).0, 0);
    let (code, listed, _) = fixture.run(&["ls"]);
    assert_eq!(code, 0);
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "SCOPE", "SOURCE", "EXPIRES"]);
    assert_eq!(rows[1], ["startup", "admin", "start", "never"]);
    assert_eq!(rows[2], ["ci", "write", "issued", "never"]);
    assert_eq!(rows[3], ["guest", "read", "issued", "in", "23h"]);
    assert!(!listed.contains(token));
    assert_eq!(fixture.run(&["rm", "ci", "guest"]), (0, String::new(), String::new()));
    assert_eq!(fixture.status(token), 401);
}

#[test]
fn json_output_is_the_servers_response() {
    let fixture = Fixture::new();
    let (_, added, _) = fixture.run(&["add", "ci", "--scope", "read", "--expires", "1h", "--json"]);
    let added: Value = serde_json::from_str(&added).unwrap();
    assert_eq!(fixture.status(added["token"].as_str().unwrap()), 200);
    let (_, listed, _) = fixture.run(&["ls", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed, fixture.0.get("/v1/tokens").json);
    assert_eq!(listed["tokens"][1]["expiresAtMs"], added["expiresAtMs"]);
}

#[test]
fn errors_name_the_problem_and_leave_stdout_empty() {
    let fixture = Fixture::new();
    let (_, token, _) = fixture.run(&["add", "a b/c", "--scope", "read"]);
    for (arguments, expected_code, message) in [
        (&["add", "a b/c", "--scope", "read"][..], 1, "(token_name_taken)"),
        (&["add", "x", "--scope", "root"], 2, "[possible values: read, write, admin]"),
        (&["add", "x"], 2, "--scope"),
        (&["add", "x", "--scope", "read", "--expires", "soon"], 2, "is not a duration"),
        (&["rm", "unknown", "a b/c"], 1, "outlive token ls"),
        (&["rm", "startup"], 1, "(not_found)"),
    ] {
        let (code, stdout, stderr) = fixture.run(arguments);
        assert_eq!((code, stdout.as_str()), (expected_code, ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
    assert_eq!(fixture.status(token.trim()), 401, "the other names of `rm` are revoked after an error");
    let (_, reader, _) = fixture.run(&["add", "eye", "--scope", "read"]);
    let (code, _, stderr) = fixture.run_with_token(Some(reader.trim()), &["ls"]);
    assert!(code == 1 && stderr.contains("(scope_insufficient)"), "{stderr}");
}
