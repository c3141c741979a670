//! Nothing stays behind: descriptors, files, pipes, processes.

use std::io::Write;
use std::path::PathBuf;

use serde_json::json;

use crate::harness::{Outlive, Setup, eventually, proc};
use crate::shells::{Session, Shell, quick};

/// One whose temporary folder nobody else uses.
fn with_own_folder(folder: &tempfile::TempDir) -> Outlive {
    let environment = vec![("TMPDIR".into(), folder.path().to_str().unwrap().into())];
    Outlive::with(Setup { environment, ..quick() })
}

fn files(folder: &tempfile::TempDir) -> Vec<PathBuf> {
    fn below(path: &std::path::Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            found.push(entry.path());
            below(&entry.path(), found);
        }
    }
    let mut found = Vec::new();
    below(folder.path(), &mut found);
    found
}

#[test]
fn a_deleted_session_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let outlive = with_own_folder(&folder);
    let warm = Session::new(&outlive, Shell::Bash);
    warm.exec("true");
    assert_eq!(warm.delete().status, 204);
    let server = outlive.server_pid();
    let open = || (proc::open_files(outlive.holder_pid()), proc::open_files(server));
    let before = open();
    let session = Session::with(&outlive, json!({ "shell": "bash", "onExit": "restore" }));
    session.exec_with(json!({ "stdin": "x", "env": { "A": "1" }, "cwd": "/" }), "cat");
    session.exec("sleep 1000 & (setsid sleep 1002 &) ; echo");
    session.begin("sleep 1001");
    session.begin("echo queued");
    let shell = session.info()["pid"].as_i64().unwrap() as i32;
    let private = std::fs::metadata(files(&folder)[0].as_path()).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&private.permissions()) & 0o777, 0o700);
    assert_eq!(session.delete().status, 204);
    // The root stays until outlive stops: nobody else can take its name.
    assert_eq!(files(&folder).len(), 1, "{:?}", files(&folder));
    assert!(!proc::is_alive(shell));
    eventually("descriptors are given back", || {
        let now = open();
        (now.0 <= before.0 && now.1 <= before.1 + 2).then_some(())
    });
}

#[test]
fn idle_sessions_have_no_files_and_a_stop_takes_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let outlive = with_own_folder(&folder);
    let session = Session::new(&outlive, Shell::Bash);
    for _ in 0..20 {
        session.exec_with(json!({ "stdin": "x", "env": { "A": "1" } }), "cat");
    }
    assert_eq!(files(&folder).len(), 2, "the folder of all and the folder of this one: {:?}", files(&folder));
    assert_eq!(outlive.stop(), 0);
    assert_eq!(files(&folder), Vec::<PathBuf>::new());
}

#[test]
fn a_client_that_left_during_a_start_left_its_files_behind() {
    let folder = tempfile::tempdir().unwrap();
    let outlive = with_own_folder(&folder);
    let session = Session::new(&outlive, Shell::Bash);
    let blocking = session.begin("sleep 1000");
    let is_of_a_start = |path: &PathBuf| path.to_string_lossy().contains("/.start_");
    let body = json!({ "command": "true" }).to_string();
    let mut client = outlive.http().connect().unwrap();
    let head = format!("POST {} HTTP/1.1\r\nhost: localhost", session.path("/processes"));
    write!(client, "{head}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    eventually("it has begun", || files(&folder).iter().any(is_of_a_start).then_some(()));
    drop(client);
    // On a connection of its own: answered after the other one's end was seen.
    assert_eq!(outlive.get("/v1/health").status, 200);
    assert_eq!(session.cancel(&blocking).status, 200);
    eventually("nothing is left of it", || (!files(&folder).iter().any(is_of_a_start)).then_some(()));
}

#[test]
fn sixty_four_sessions_work_side_by_side() {
    let outlive = crate::shells::outlive();
    let sessions: Vec<_> = std::thread::scope(|scope| {
        let made: Vec<_> = (0..64).map(|_| scope.spawn(|| Session::new(&outlive, Shell::Bash))).collect();
        made.into_iter().map(|one| one.join().unwrap()).collect()
    });
    std::thread::scope(|scope| {
        for (number, session) in sessions.iter().enumerate() {
            scope.spawn(move || {
                session.exec(&format!("N={number}"));
                for _ in 0..5 {
                    session.exec("N=$((N+64))");
                }
                assert_eq!(session.out("echo $N"), format!("{}\n", number + 320));
            });
        }
    });
    assert_eq!(outlive.get("/v1/sessions").json["sessions"].as_array().unwrap().len(), 64);
}
