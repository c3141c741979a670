//! TLS, with a certificate that is replaced while the server runs.

use std::path::Path;
use std::process::Command;

use crate::harness::{Outlive, Setup, eventually};

/// Writes a self-signed certificate and its key; returns the certificate.
fn write_certificate(dir: &Path) -> String {
    let generated = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    std::fs::write(dir.join("key.pem"), generated.signing_key.serialize_pem()).unwrap();
    std::fs::write(dir.join("cert.pem"), generated.cert.pem()).unwrap();
    generated.cert.pem()
}

fn start_with_tls(dir: &Path) -> Outlive {
    let path = |name: &str| dir.join(name).display().to_string();
    let arguments = vec!["--tls-cert".into(), path("cert.pem"), "--tls-key".into(), path("key.pem")];
    Outlive::start_with(Setup { token: Some("the-admin".into()), arguments, ..Setup::default() })
}

fn run_cli(arguments: &[&str]) -> (bool, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_outlive")).args(arguments).env_remove("OUTLIVE_TOKEN").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_cli_verifies_the_servers_certificate() {
    let dir = tempfile::tempdir().unwrap();
    write_certificate(dir.path());
    let outlive = start_with_tls(dir.path());
    let state = outlive.state_dir().display().to_string();
    let (success, text) = run_cli(&["--state-dir", &state, "run", "--", "echo", "over", "tls"]);
    assert!(success && text == "over tls\n", "the local server's certificate is trusted: {text}");
    let url = format!("https://localhost:{}", outlive.port);
    let authority = dir.path().join("cert.pem").display().to_string();
    let (success, text) = run_cli(&["--url", &url, "--token", "the-admin", "--ca-cert", &authority, "status"]);
    assert!(success, "{text}");
    let (success, text) = run_cli(&["--url", &url, "--token", "the-admin", "status"]);
    assert!(!success && text.contains("certificate"), "an unknown certificate is refused: {text}");
    let plain = format!("http://localhost:{}", outlive.port);
    assert!(!run_cli(&["--url", &plain, "--token", "the-admin", "status"]).0, "a TLS listener refuses plain HTTP");
}

#[test]
fn a_replaced_certificate_is_used_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let old = write_certificate(dir.path());
    let outlive = start_with_tls(dir.path());
    let url = format!("https://localhost:{}", outlive.port);
    let is_used = |certificate: &str| {
        let file = dir.path().join("trusted.pem");
        std::fs::write(&file, certificate).unwrap();
        run_cli(&["--url", &url, "--token", "the-admin", "--ca-cert", file.to_str().unwrap(), "status"]).0
    };
    assert!(is_used(&old));
    let new = write_certificate(dir.path());
    eventually("the new certificate", || is_used(&new).then_some(()));
    assert!(!is_used(&old));
    std::fs::write(dir.path().join("cert.pem"), "nonsense").unwrap();
    eventually("the broken certificate is refused", || {
        outlive.stderr().contains("the previous one stays in use").then_some(())
    });
    assert!(is_used(&new));
}
