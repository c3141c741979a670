//! What a session keeps of its commands, and what becomes of those whose session never was.

use serde_json::json;

use crate::harness::{Outlive, eventually};
use crate::shells::{Session, Shell, outlive, quick};

fn with_few_execs() -> Outlive {
    let mut setup = quick();
    setup.arguments.extend(["--limit".into(), "maxExecsPerSession=2".into()]);
    Outlive::with(setup)
}

/// It was killed by its next word once its command was one too many.
#[test]
fn a_background_job_outlives_the_memory_of_its_command() {
    let outlive = with_few_execs();
    let session = Session::new(&outlive, Shell::Bash);
    let count = outlive.dir.path().join("count");
    let file = count.display();
    session.exec(&format!(
        "i=0; while echo $i; do i=$((i+1)); echo $i >{file}.new; mv {file}.new {file}; sleep 0.01; done &"
    ));
    let counted = || std::fs::read_to_string(&count).ok().and_then(|text| text.trim().parse::<u64>().ok());
    eventually("it counts", counted);
    for _ in 0..6 {
        session.exec("true");
    }
    let now = counted().unwrap();
    eventually("it goes on", || counted().filter(|count| *count > now + 3));
}

/// Each of them stayed for as long as the one before them ran.
#[test]
fn commands_that_were_cancelled_before_their_turn_are_forgotten_too() {
    let outlive = with_few_execs();
    let session = Session::new(&outlive, Shell::Bash);
    session.begin("sleep 1000");
    for _ in 0..10 {
        let waiting = session.begin("echo never");
        session.cancel(&waiting);
    }
    let known = outlive.get(&session.path("/execs")).json["execs"].as_array().unwrap().len();
    assert!(known <= 3, "{known} commands are remembered");
}

/// It waited for ever.
#[test]
fn a_command_for_a_session_that_could_not_be_made_is_answered() {
    use std::os::unix::fs::PermissionsExt as _;
    let outlive = outlive();
    let folder = outlive.dir.path().join("bin");
    std::fs::create_dir(&folder).unwrap();
    let silent = folder.join("bash");
    std::fs::write(&silent, "#!/bin/sh\nexec /bin/sleep 1000\n").unwrap();
    std::fs::set_permissions(&silent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let spec = json!({ "id": "silent", "shell": "bash", "env": { "PATH": folder } });
    std::thread::scope(|scope| {
        let making = scope.spawn(|| outlive.post("/v1/sessions", &spec));
        eventually("it is being made", || (outlive.get("/v1/sessions/silent").status == 200).then_some(()));
        let answer = outlive.post("/v1/sessions/silent/exec", &json!({ "command": "true" }));
        assert_eq!(answer.code(), "session_destroyed", "{}", answer.text());
        assert!(making.join().unwrap().status >= 400);
    });
    assert_eq!(outlive.get("/v1/sessions/silent").status, 404);
}
