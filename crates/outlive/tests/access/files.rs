//! TLS, with a certificate that is exchanged while it runs.

use std::path::Path;
use std::process::Command;

use crate::harness::{Outlive, Setup, eventually};

/// A certificate that vouches for itself.
fn write_certificate(dir: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    std::fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(dir.join("cert.pem"), made.cert.pem()).unwrap();
    made.cert.pem()
}

fn start(dir: &Path) -> Outlive {
    let path = |name: &str| dir.join(name).display().to_string();
    let arguments = vec!["--tls-cert".into(), path("cert.pem"), "--tls-key".into(), path("key.pem")];
    Outlive::with(Setup { token: Some("the-admin".into()), arguments, ..Setup::default() })
}

fn cli(arguments: &[&str]) -> (bool, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_outlive")).args(arguments).env_remove("OUTLIVE_TOKEN").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_cli_speaks_tls_and_trusts_who_it_should() {
    let dir = tempfile::tempdir().unwrap();
    write_certificate(dir.path());
    let outlive = start(dir.path());
    let state = outlive.state_dir().display().to_string();
    let (well, text) = cli(&["--state-dir", &state, "run", "--", "echo", "over", "tls"]);
    assert!(well && text == "over tls\n", "the local one is known by its certificate: {text}");
    let url = format!("https://localhost:{}", outlive.port);
    let authority = dir.path().join("cert.pem").display().to_string();
    let (well, text) = cli(&["--url", &url, "--token", "the-admin", "--ca-cert", &authority, "status"]);
    assert!(well, "{text}");
    let (well, text) = cli(&["--url", &url, "--token", "the-admin", "status"]);
    assert!(!well && text.contains("certificate"), "nobody vouches for it: {text}");
    let plain = format!("http://localhost:{}", outlive.port);
    assert!(!cli(&["--url", &plain, "--token", "the-admin", "status"]).0, "plain HTTP is not spoken there");
}

#[test]
fn a_new_certificate_is_shown_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let old = write_certificate(dir.path());
    let outlive = start(dir.path());
    let url = format!("https://localhost:{}", outlive.port);
    let shown = |authority: &str| {
        let file = dir.path().join("trusted.pem");
        std::fs::write(&file, authority).unwrap();
        cli(&["--url", &url, "--token", "the-admin", "--ca-cert", file.to_str().unwrap(), "status"]).0
    };
    assert!(shown(&old));
    let new = write_certificate(dir.path());
    eventually("the new certificate", || shown(&new).then_some(()));
    assert!(!shown(&old));
    std::fs::write(dir.path().join("cert.pem"), "nonsense").unwrap();
    eventually("it is refused", || outlive.stderr().contains("the old one stays").then_some(()));
    assert!(shown(&new));
}
