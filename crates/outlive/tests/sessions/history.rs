//! The history of a session's commands, and commands for a session that cannot be created.

use serde_json::json;

use crate::harness::{Outlive, eventually, write_executable};
use crate::shells::{Session, Shell, short_grace, start_outlive};

fn start_with_short_history() -> Outlive {
    let mut setup = short_grace();
    setup.arguments.extend(["--limit".into(), "maxExecsPerSession=2".into()]);
    Outlive::start_with(setup)
}

// Regression: the job got SIGPIPE on its next write once its command had been dropped from the history.
#[test]
fn a_background_job_survives_the_record_of_its_command() {
    let outlive = start_with_short_history();
    let session = Session::new(&outlive, Shell::Bash);
    let count = outlive.dir.path().join("count");
    let file = count.display();
    session.exec(&format!(
        "i=0; while echo $i; do i=$((i+1)); echo $i >{file}.new; mv {file}.new {file}; sleep 0.01; done &"
    ));
    let counted = || std::fs::read_to_string(&count).ok().and_then(|text| text.trim().parse::<u64>().ok());
    eventually("the job counts", counted);
    for _ in 0..6 {
        session.exec("true");
    }
    let now = counted().unwrap();
    eventually("the job continues", || counted().filter(|count| *count > now + 3));
}

// Regression: cancelled commands stayed in the history for as long as the running command ran.
#[test]
fn commands_cancelled_in_the_queue_are_dropped_from_the_history() {
    let outlive = start_with_short_history();
    let session = Session::new(&outlive, Shell::Bash);
    session.exec_detached("sleep 1000");
    for _ in 0..10 {
        let waiting = session.exec_detached("echo never");
        session.cancel(&waiting);
    }
    let known = outlive.get(&session.path("/execs")).json["execs"].as_array().unwrap().len();
    assert!(known <= 3, "{known} commands are remembered");
}

// Regression: the request never got a response.
#[test]
fn a_command_for_a_session_that_cannot_be_created_fails() {
    let outlive = start_outlive();
    let directory = outlive.dir.path().join("bin");
    std::fs::create_dir(&directory).unwrap();
    let silent = directory.join("bash");
    write_executable(&silent, b"#!/bin/sh\nexec /bin/sleep 1000\n");
    let spec = json!({ "id": "silent", "shell": "bash", "env": { "PATH": directory } });
    std::thread::scope(|scope| {
        let creating = scope.spawn(|| outlive.post("/v1/sessions", &spec));
        eventually("the session is being created", || (outlive.get("/v1/sessions/silent").status == 200).then_some(()));
        let response = outlive.post("/v1/sessions/silent/exec", &json!({ "command": "true" }));
        assert_eq!(response.code(), "session_destroyed", "{}", response.text());
        assert!(creating.join().unwrap().status >= 400);
    });
    assert_eq!(outlive.get("/v1/sessions/silent").status, 404);
}
