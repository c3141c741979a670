//! Sources of tokens (flags, files, the API) and how tokens expire or are revoked.

use serde_json::{Value, json};

use crate::harness::{Outlive, Setup, eventually};

fn get_with_token(outlive: &Outlive, token: &str) -> u16 {
    let header = format!("Bearer {token}");
    outlive.http().send("GET", "/v1/processes", &[("authorization", &header)], None).status
}

fn start_with_token_file(text: &str) -> (Outlive, std::path::PathBuf, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    std::fs::write(&file, text).unwrap();
    let access = vec!["--token-file".to_owned(), file.display().to_string()];
    (Outlive::start_with(Setup { access: Some(access), ..Setup::default() }), file, dir)
}

#[test]
fn a_generated_token_survives_the_server() {
    let mut outlive = Outlive::start_with(Setup { access: Some(Vec::new()), ..Setup::default() });
    let line = outlive.next_line();
    let url = format!("open http://127.0.0.1:{}/#token=", outlive.port);
    let token = line.strip_prefix(&url).unwrap_or_else(|| panic!("{line}")).to_owned();
    assert!(token.len() >= 43, "{token}");
    assert_eq!((get_with_token(&outlive, &token), outlive.get("/v1/processes").status), (200, 401));
    outlive.use_token(&token);
    outlive.kill_server();
    assert_eq!(get_with_token(&outlive, &token), 200);
}

#[test]
fn the_local_cli_finds_the_token_in_a_private_file() {
    use std::os::unix::fs::PermissionsExt;
    let outlive = Outlive::start_with(Setup { access: Some(Vec::new()), ..Setup::default() });
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
fn a_token_file_is_reloaded_when_it_changes() {
    let (outlive, file, dir) = start_with_token_file("one admin boss\ntwo read eye\n");
    assert_eq!((get_with_token(&outlive, "one"), get_with_token(&outlive, "two")), (200, 200));
    std::fs::write(&file, "one admin boss\n").unwrap();
    eventually("the second token is revoked", || (get_with_token(&outlive, "two") == 401).then_some(()));
    assert_eq!(get_with_token(&outlive, "one"), 200);
    // Mounted secrets are updated by replacing a symbolic link.
    std::fs::create_dir(dir.path().join("v2")).unwrap();
    std::fs::write(dir.path().join("v2/tokens"), "three\n").unwrap();
    std::os::unix::fs::symlink("v2/tokens", dir.path().join("fresh")).unwrap();
    std::fs::rename(dir.path().join("fresh"), &file).unwrap();
    eventually("the third token is known", || (get_with_token(&outlive, "three") == 200).then_some(()));
    assert_eq!(get_with_token(&outlive, "one"), 401);
    // An invalid file keeps the previous tokens.
    std::fs::write(&file, "three nonsense\n").unwrap();
    eventually("the file is refused", || outlive.stderr().contains("cannot load the token file").then_some(()));
    assert_eq!(get_with_token(&outlive, "three"), 200);
    assert!(!outlive.stderr().contains("three"), "the log quotes no token");
}

#[test]
fn an_issued_token_survives_the_server_until_it_is_revoked() {
    let outlive = Outlive::start_with(Setup { token: Some("the-admin".into()), ..Setup::default() });
    let issue = |body: Value| outlive.post("/v1/tokens", &body);
    let token = issue(json!({ "name": "ci", "scope": "write" })).json["token"].as_str().unwrap().to_owned();
    assert_eq!(issue(json!({ "name": "ci", "scope": "read" })).code(), "token_name_taken");
    assert_eq!(issue(json!({ "name": "", "scope": "read" })).status, 400);
    assert_eq!(issue(json!({ "name": "x", "scope": "root" })).status, 422);
    outlive.kill_server();
    assert_eq!(get_with_token(&outlive, &token), 200);
    let list = outlive.get("/v1/tokens");
    assert!(!list.text().contains(&token) && !list.text().contains("digest"), "{}", list.text());
    assert_eq!(list.json["tokens"][1], json!({ "name": "ci", "scope": "write", "source": "issued" }));
    assert_eq!(outlive.delete("/v1/tokens/ci").status, 204);
    assert_eq!(get_with_token(&outlive, &token), 401);
    assert_eq!(outlive.delete("/v1/tokens/ci").status, 404);
    assert_eq!(outlive.delete("/v1/tokens/startup").status, 404, "only issued tokens can be revoked");
    outlive.kill_server();
    assert_eq!(get_with_token(&outlive, &token), 401);
}

#[test]
fn a_token_expires() {
    let outlive = Outlive::start_with(Setup { token: Some("the-admin".into()), ..Setup::default() });
    let response = outlive.post("/v1/tokens", &json!({ "name": "short", "scope": "read", "expiresInMs": 1 }));
    let token = response.json["token"].as_str().unwrap();
    eventually("the token expires", || (get_with_token(&outlive, token) == 401).then_some(()));
}

fn run_serve(arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
    let dir = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(["serve", "--history", "off"])
        .args(arguments)
        .arg("--state-dir")
        .arg(dir.path())
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn flags_that_would_open_the_server_by_mistake_are_refused() {
    let (code, stderr) = run_serve(&["--listen", "0.0.0.0:0", "--no-token"], &[]);
    assert!(code == 2 && stderr.contains("--insecure"), "{stderr}");
    let (code, stderr) = run_serve(&["--no-token", "--token", "x", "--listen", "127.0.0.1:0"], &[]);
    assert!(code == 2 && stderr.contains("cannot be used with --token"), "{stderr}");
    let (code, _) = run_serve(&["--no-token", "--listen", "127.0.0.1:0"], &[("OUTLIVE_TOKEN", "x")]);
    assert_eq!(code, 2);
    let empty = tempfile::NamedTempFile::new().unwrap();
    let (code, stderr) = run_serve(&["--token-file", empty.path().to_str().unwrap(), "--listen", "127.0.0.1:0"], &[]);
    assert!(code == 1 && stderr.contains("no token"), "{stderr}");
    let (code, _) = run_serve(&["--allow-origin", "*", "--listen", "127.0.0.1:0"], &[]);
    assert_eq!(code, 2);
    let (code, stderr) = run_serve(&["--limit", "maxConections=1", "--listen", "127.0.0.1:0"], &[]);
    assert!(code == 2 && stderr.contains("maxConnections"), "{stderr}");
}

// Regression: the change was missed when a directory further up was replaced instead of the file's own.
#[test]
fn a_token_file_is_reloaded_when_a_parent_directory_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    for (version, token) in [("1", "one\n"), ("2", "two\n")] {
        std::fs::create_dir_all(dir.path().join(version).join("secrets")).unwrap();
        std::fs::write(dir.path().join(version).join("secrets/tokens"), token).unwrap();
    }
    std::fs::rename(dir.path().join("1"), dir.path().join("now")).unwrap();
    let file = dir.path().join("now/secrets/tokens");
    let access = vec!["--token-file".to_owned(), file.display().to_string()];
    let outlive = Outlive::start_with(Setup { access: Some(access), ..Setup::default() });
    assert_eq!((get_with_token(&outlive, "one"), get_with_token(&outlive, "two")), (200, 401));
    std::fs::rename(dir.path().join("now"), dir.path().join("old")).unwrap();
    std::fs::rename(dir.path().join("2"), dir.path().join("now")).unwrap();
    eventually("the file of the new directory is loaded", || (get_with_token(&outlive, "two") == 200).then_some(()));
    assert_eq!(get_with_token(&outlive, "one"), 401);
}

// Regression: with a broken file, the next server had no tokens and locked everyone out.
#[test]
fn a_broken_token_file_keeps_the_previous_tokens_across_a_server_crash() {
    let (mut outlive, file, _dir) = start_with_token_file("one admin boss\n");
    outlive.use_token("one");
    assert_eq!(get_with_token(&outlive, "one"), 200);
    std::fs::write(&file, "one nonsense\n").unwrap();
    eventually("the broken file is refused", || outlive.stderr().contains("cannot load the token file").then_some(()));
    outlive.kill_server();
    eventually("the next server", || (get_with_token(&outlive, "one") == 200).then_some(()));
}
