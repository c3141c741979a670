//! The Unix socket: who comes is known by the kernel.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::harness::{Outlive, Setup};

fn with_socket(dir: &Path, more: &[&str]) -> Outlive {
    let mut arguments = vec!["--socket".to_owned(), dir.join("o.sock").display().to_string()];
    arguments.extend(more.iter().map(|word| (*word).to_owned()));
    Outlive::with(Setup { token: Some("the-admin".into()), arguments, ..Setup::default() })
}

fn ask(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    // Who is turned away may be so before asking.
    let _ = stream.write_all(b"GET /v1/processes HTTP/1.1\r\nhost: whatever\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Asks as another user: the kernel's idea of a user belongs to a thread.
fn ask_as(uid: u32, path: &Path) -> String {
    let path = path.to_owned();
    let asked = std::thread::spawn(move || {
        let uid = rustix::process::Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        ask(&path)
    });
    asked.join().unwrap()
}

#[test]
fn the_owner_needs_no_token_and_others_are_not_let_in() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("o.sock");
    let outlive = with_socket(dir.path(), &["--socket-mode", "666", "--allow-uid", "4242"]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    assert!(ask(&path).starts_with("HTTP/1.1 200"), "{}", ask(&path));
    outlive.kill_server();
    assert!(ask(&path).starts_with("HTTP/1.1 200"), "the socket outlives the server");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(ask_as(4242, &path).starts_with("HTTP/1.1 200"), "{}", ask_as(4242, &path));
    let answer = ask_as(4243, &path);
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("user_not_allowed"), "{answer}");
}

#[test]
fn a_socket_left_behind_is_taken_over_and_a_living_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("o.sock");
    let first = with_socket(dir.path(), &[]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(["serve", "--listen", "127.0.0.1:0", "--socket"])
        .arg(&path)
        .arg("--state-dir")
        .arg(dir.path().join("s"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&second.stderr).contains("another outlive listens there"));
    assert_eq!(first.stop(), 0);
    let third = with_socket(dir.path(), &[]);
    assert!(ask(&path).starts_with("HTTP/1.1 200"));
    drop(third);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let (code, _) = run_serve(&path, dir.path());
    assert_eq!((code, std::fs::read_to_string(&path).unwrap().as_str()), (1, "precious"));
}

fn run_serve(socket: &Path, dir: &Path) -> (i32, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(["serve", "--listen", "127.0.0.1:0", "--socket"])
        .arg(socket)
        .arg("--state-dir")
        .arg(dir.join("s"))
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}
