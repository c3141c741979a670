//! Where tokens come from, and when they end.

use serde_json::{Value, json};

use crate::harness::{Outlive, Setup, eventually};

fn status_with(outlive: &Outlive, token: &str) -> u16 {
    let header = format!("Bearer {token}");
    outlive.http().send("GET", "/v1/processes", &[("authorization", &header)], None).status
}

fn with_file(text: &str) -> (Outlive, std::path::PathBuf, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    std::fs::write(&file, text).unwrap();
    let access = vec!["--token-file".to_owned(), file.display().to_string()];
    (Outlive::with(Setup { access: Some(access), ..Setup::default() }), file, dir)
}

#[test]
fn without_a_flag_a_token_is_made_and_outlives_the_server() {
    let mut outlive = Outlive::with(Setup { access: Some(Vec::new()), ..Setup::default() });
    let line = outlive.next_line();
    let url = format!("open http://127.0.0.1:{}/#token=", outlive.port);
    let token = line.strip_prefix(&url).unwrap_or_else(|| panic!("{line}")).to_owned();
    assert!(token.len() >= 43, "{token}");
    assert_eq!((status_with(&outlive, &token), outlive.get("/v1/processes").status), (200, 401));
    outlive.use_token(&token);
    outlive.kill_server();
    assert_eq!(status_with(&outlive, &token), 200);
}

#[test]
fn the_local_cli_finds_the_token_in_a_file_of_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let outlive = Outlive::with(Setup { access: Some(Vec::new()), ..Setup::default() });
    let file = outlive.state_dir().join(format!("{}.json", outlive.port));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(&outlive.state_dir())), (0o600, 0o700));
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(["run", "--state-dir"])
        .arg(outlive.state_dir())
        .args(["--", "echo", "let in"])
        .env_remove("OUTLIVE_TOKEN")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), "let in\n", "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn a_token_file_is_read_again_when_it_changes() {
    let (outlive, file, dir) = with_file("one admin boss\ntwo read eye\n");
    assert_eq!((status_with(&outlive, "one"), status_with(&outlive, "two")), (200, 200));
    std::fs::write(&file, "one admin boss\n").unwrap();
    eventually("the second token is revoked", || (status_with(&outlive, "two") == 401).then_some(()));
    assert_eq!(status_with(&outlive, "one"), 200);
    // As secrets are mounted: the file is a link through a link that is exchanged.
    std::fs::create_dir(dir.path().join("v2")).unwrap();
    std::fs::write(dir.path().join("v2/tokens"), "three\n").unwrap();
    std::os::unix::fs::symlink("v2/tokens", dir.path().join("fresh")).unwrap();
    std::fs::rename(dir.path().join("fresh"), &file).unwrap();
    eventually("the third token is known", || (status_with(&outlive, "three") == 200).then_some(()));
    assert_eq!(status_with(&outlive, "one"), 401);
    // What makes no sense changes nothing.
    std::fs::write(&file, "three nonsense\n").unwrap();
    eventually("the file is refused", || outlive.stderr().contains("the token file is not taken").then_some(()));
    assert_eq!(status_with(&outlive, "three"), 200);
    assert!(!outlive.stderr().contains("three"), "the log quotes no token");
}

#[test]
fn a_token_that_was_given_out_outlives_the_server_until_it_is_revoked() {
    let outlive = Outlive::with(Setup { token: Some("the-admin".into()), ..Setup::default() });
    let issue = |body: Value| outlive.post("/v1/tokens", &body);
    let token = issue(json!({ "name": "ci", "scope": "write" })).json["token"].as_str().unwrap().to_owned();
    assert_eq!(issue(json!({ "name": "ci", "scope": "read" })).code(), "token_name_taken");
    assert_eq!(issue(json!({ "name": "", "scope": "read" })).status, 400);
    assert_eq!(issue(json!({ "name": "x", "scope": "root" })).status, 422);
    outlive.kill_server();
    assert_eq!(status_with(&outlive, &token), 200);
    let list = outlive.get("/v1/tokens");
    assert!(!list.text().contains(&token) && !list.text().contains("digest"), "{}", list.text());
    assert_eq!(list.json["tokens"][1], json!({ "name": "ci", "scope": "write", "source": "issued" }));
    assert_eq!(outlive.delete("/v1/tokens/ci").status, 204);
    assert_eq!(status_with(&outlive, &token), 401);
    assert_eq!(outlive.delete("/v1/tokens/ci").status, 404);
    assert_eq!(outlive.delete("/v1/tokens/startup").status, 404, "only what was given out");
    outlive.kill_server();
    assert_eq!(status_with(&outlive, &token), 401);
}

#[test]
fn a_token_can_have_an_end() {
    let outlive = Outlive::with(Setup { token: Some("the-admin".into()), ..Setup::default() });
    let answer = outlive.post("/v1/tokens", &json!({ "name": "short", "scope": "read", "expiresInMs": 1 }));
    let token = answer.json["token"].as_str().unwrap();
    eventually("it has ended", || (status_with(&outlive, token) == 401).then_some(()));
}

fn refused(arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
    let dir = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_outlive"))
        .arg("serve")
        .args(arguments)
        .arg("--state-dir")
        .arg(dir.path())
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn what_would_be_open_by_mistake_is_refused() {
    let (code, why) = refused(&["--listen", "0.0.0.0:0", "--no-token"], &[]);
    assert!(code == 2 && why.contains("--insecure"), "{why}");
    let (code, why) = refused(&["--no-token", "--token", "x", "--listen", "127.0.0.1:0"], &[]);
    assert!(code == 2 && why.contains("contradict"), "{why}");
    let (code, _) = refused(&["--no-token", "--listen", "127.0.0.1:0"], &[("OUTLIVE_TOKEN", "x")]);
    assert_eq!(code, 2);
    let empty = tempfile::NamedTempFile::new().unwrap();
    let (code, why) = refused(&["--token-file", empty.path().to_str().unwrap(), "--listen", "127.0.0.1:0"], &[]);
    assert!(code == 1 && why.contains("no token"), "{why}");
    let (code, _) = refused(&["--allow-origin", "*", "--listen", "127.0.0.1:0"], &[]);
    assert_eq!(code, 2);
    let (code, why) = refused(&["--limit", "maxConections=1", "--listen", "127.0.0.1:0"], &[]);
    assert!(code == 2 && why.contains("maxConnections"), "{why}");
}

/// Not the file's own folder changes, but one further up.
#[test]
fn a_folder_on_the_way_to_the_token_file_was_exchanged_unseen() {
    let dir = tempfile::tempdir().unwrap();
    for (version, token) in [("1", "one\n"), ("2", "two\n")] {
        std::fs::create_dir_all(dir.path().join(version).join("secrets")).unwrap();
        std::fs::write(dir.path().join(version).join("secrets/tokens"), token).unwrap();
    }
    std::fs::rename(dir.path().join("1"), dir.path().join("now")).unwrap();
    let file = dir.path().join("now/secrets/tokens");
    let access = vec!["--token-file".to_owned(), file.display().to_string()];
    let outlive = Outlive::with(Setup { access: Some(access), ..Setup::default() });
    assert_eq!((status_with(&outlive, "one"), status_with(&outlive, "two")), (200, 401));
    std::fs::rename(dir.path().join("now"), dir.path().join("old")).unwrap();
    std::fs::rename(dir.path().join("2"), dir.path().join("now")).unwrap();
    eventually("the new folder's file counts", || (status_with(&outlive, "two") == 200).then_some(()));
    assert_eq!(status_with(&outlive, "one"), 401);
}

/// The next server knew no token at all when the file was broken by then.
#[test]
fn a_broken_token_file_and_the_death_of_the_server_locked_everybody_out() {
    let (mut outlive, file, _dir) = with_file("one admin boss\n");
    outlive.use_token("one");
    assert_eq!(status_with(&outlive, "one"), 200);
    std::fs::write(&file, "one nonsense\n").unwrap();
    eventually("it is refused", || outlive.stderr().contains("is not taken").then_some(()));
    outlive.kill_server();
    eventually("the next server", || (status_with(&outlive, "one") == 200).then_some(()));
}
