//! The Unix socket, whose clients are authenticated by the user id that the kernel reports.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::harness::{Outlive, Setup};

fn start_with_socket(dir: &Path, extra: &[&str]) -> Outlive {
    let mut arguments = vec!["--socket".to_owned(), dir.join("o.sock").display().to_string()];
    arguments.extend(extra.iter().map(|word| (*word).to_owned()));
    Outlive::start_with(Setup { token: Some("the-admin".into()), arguments, ..Setup::default() })
}

fn request(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    // The server may close a refused connection before the request is written.
    let _ = stream.write_all(b"GET /v1/processes HTTP/1.1\r\nhost: whatever\r\nconnection: close\r\n\r\n");
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    String::from_utf8_lossy(&response).into_owned()
}

/// Sends a request as another user, from a thread of its own: on Linux the user id belongs to a thread.
fn request_as(uid: u32, path: &Path) -> String {
    let path = path.to_owned();
    let requester = std::thread::spawn(move || {
        let uid = rustix::process::Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        request(&path)
    });
    requester.join().unwrap()
}

#[test]
fn the_owner_needs_no_token_and_other_users_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("o.sock");
    let outlive = start_with_socket(dir.path(), &["--socket-mode", "666", "--allow-uid", "4242"]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    assert!(request(&path).starts_with("HTTP/1.1 200"), "{}", request(&path));
    outlive.kill_server();
    assert!(request(&path).starts_with("HTTP/1.1 200"), "the socket survives the server");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(request_as(4242, &path).starts_with("HTTP/1.1 200"), "{}", request_as(4242, &path));
    let response = request_as(4243, &path);
    assert!(response.starts_with("HTTP/1.1 403") && response.contains("user_not_allowed"), "{response}");
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("o.sock");
    let first = start_with_socket(dir.path(), &[]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(["serve", "--history", "off", "--listen", "127.0.0.1:0", "--socket"])
        .arg(&path)
        .arg("--state-dir")
        .arg(dir.path().join("s"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&second.stderr).contains("another outlive listens there"));
    assert_eq!(first.stop(), 0);
    let third = start_with_socket(dir.path(), &[]);
    assert!(request(&path).starts_with("HTTP/1.1 200"));
    drop(third);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let (code, _) = run_serve(&path, dir.path());
    assert_eq!((code, std::fs::read_to_string(&path).unwrap().as_str()), (1, "precious"));
}

fn run_serve(socket: &Path, dir: &Path) -> (i32, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(["serve", "--history", "off", "--listen", "127.0.0.1:0", "--socket"])
        .arg(socket)
        .arg("--state-dir")
        .arg(dir.join("s"))
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}
