//! Sessions leak no descriptors, files, pipes or processes.

use std::io::Write;
use std::path::PathBuf;

use serde_json::json;

use crate::harness::{Outlive, Setup, eventually, proc};
use crate::shells::{Session, Shell, short_grace};

/// Starts an outlive with a temporary directory of its own.
fn start_with_tmpdir(directory: &tempfile::TempDir) -> Outlive {
    let environment = vec![("TMPDIR".into(), directory.path().to_str().unwrap().into())];
    Outlive::start_with(Setup { environment, ..short_grace() })
}

fn list_files(directory: &tempfile::TempDir) -> Vec<PathBuf> {
    fn collect(path: &std::path::Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            found.push(entry.path());
            collect(&entry.path(), found);
        }
    }
    let mut found = Vec::new();
    collect(directory.path(), &mut found);
    found
}

#[test]
fn a_deleted_session_leaks_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let outlive = start_with_tmpdir(&directory);
    let warm_up = Session::new(&outlive, Shell::Bash);
    warm_up.exec("true");
    assert_eq!(warm_up.delete().status, 204);
    let server = outlive.server_pid();
    let open = || (proc::count_open_files(outlive.holder_pid()), proc::count_open_files(server));
    let before = open();
    let session = Session::with_spec(&outlive, json!({ "shell": "bash", "onExit": "restore" }));
    session.exec_with(json!({ "stdin": "x", "env": { "A": "1" }, "cwd": "/" }), "cat");
    session.exec("sleep 1000 & (setsid sleep 1002 &) ; echo");
    session.exec_detached("sleep 1001");
    session.exec_detached("echo queued");
    let shell = session.info()["pid"].as_i64().unwrap() as i32;
    let private = std::fs::metadata(list_files(&directory)[0].as_path()).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&private.permissions()) & 0o777, 0o700);
    assert_eq!(session.delete().status, 204);
    // The root directory stays until outlive stops, so that no other user can take its name.
    assert_eq!(list_files(&directory).len(), 1, "{:?}", list_files(&directory));
    assert!(!proc::is_alive(shell));
    eventually("descriptors are closed", || {
        let now = open();
        (now.0 <= before.0 && now.1 <= before.1 + 2).then_some(())
    });
}

#[test]
fn an_idle_session_has_no_files_and_a_stop_removes_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let outlive = start_with_tmpdir(&directory);
    let session = Session::new(&outlive, Shell::Bash);
    for _ in 0..20 {
        session.exec_with(json!({ "stdin": "x", "env": { "A": "1" } }), "cat");
    }
    assert_eq!(
        list_files(&directory).len(),
        2,
        "the root directory and the directory of this session: {:?}",
        list_files(&directory)
    );
    assert_eq!(outlive.stop(), 0);
    assert_eq!(list_files(&directory), Vec::<PathBuf>::new());
}

// Regression: they stayed when the client left during the start.
#[test]
fn the_files_of_a_start_are_removed_when_the_client_disconnects() {
    let directory = tempfile::tempdir().unwrap();
    let outlive = start_with_tmpdir(&directory);
    let session = Session::new(&outlive, Shell::Bash);
    let blocking = session.exec_detached("sleep 1000");
    let is_start_file = |path: &PathBuf| path.to_string_lossy().contains("/.start_");
    let body = json!({ "command": "true" }).to_string();
    let mut client = outlive.http().connect().unwrap();
    let head = format!("POST {} HTTP/1.1\r\nhost: localhost", session.path("/processes"));
    write!(client, "{head}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    eventually("the start has files", || list_files(&directory).iter().any(is_start_file).then_some(()));
    drop(client);
    // The response on a new connection comes after the server has seen the end of the other one.
    assert_eq!(outlive.get("/v1/health").status, 200);
    assert_eq!(session.cancel(&blocking).status, 200);
    eventually("the files are removed", || (!list_files(&directory).iter().any(is_start_file)).then_some(()));
}

#[test]
fn sixty_four_sessions_work_concurrently() {
    let outlive = crate::shells::start_outlive();
    let sessions: Vec<_> = std::thread::scope(|scope| {
        let created: Vec<_> = (0..64).map(|_| scope.spawn(|| Session::new(&outlive, Shell::Bash))).collect();
        created.into_iter().map(|one| one.join().unwrap()).collect()
    });
    std::thread::scope(|scope| {
        for (number, session) in sessions.iter().enumerate() {
            scope.spawn(move || {
                session.exec(&format!("N={number}"));
                for _ in 0..5 {
                    session.exec("N=$((N+64))");
                }
                assert_eq!(session.exec_stdout("echo $N"), format!("{}\n", number + 320));
            });
        }
    });
    assert_eq!(outlive.get("/v1/sessions").json["sessions"].as_array().unwrap().len(), 64);
}
