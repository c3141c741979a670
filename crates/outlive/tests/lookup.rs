//! How a process is found besides by its id, and what it is started with: what dialects need, as the native API shows it.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::{Outlive, Setup};
use serde_json::json;

#[test]
fn a_process_is_found_by_its_pid_also_when_it_has_ended() {
    let outlive = Outlive::start();
    let id = outlive.shell("echo $$; read x");
    outlive.wait_output(&id, r"\d+\n");
    let pid = String::from_utf8(outlive.output(&id)).unwrap().trim().to_owned();
    assert_eq!(outlive.info(&format!("pid:{pid}"))["id"], json!(id));
    let kill = outlive.post(&format!("/v1/processes/pid:{pid}/kill"), &json!({}));
    assert_eq!(kill.status, 200, "{}", kill.text());
    assert_eq!(outlive.info(&format!("pid:{pid}"))["status"], "exited");
    outlive.kill_server();
    assert_eq!(outlive.info(&format!("pid:{pid}"))["id"], json!(id), "the next server knows it too");
    // With the next start it has another one, and the old one belongs to nobody.
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/start"), &json!({})).status, 200);
    let next = outlive.info(&id)["pid"].clone();
    assert_eq!(outlive.info(&format!("pid:{next}"))["id"], json!(id));
    assert_eq!(outlive.get(&format!("/v1/processes/pid:{pid}")).status, 404);
    assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
    for nobody in [next.to_string(), String::new(), "x".into(), "-1".into(), "99999999999".into()] {
        assert_eq!(outlive.get(&format!("/v1/processes/pid:{nobody}")).status, 404, "{nobody}");
    }
}

#[test]
fn the_pid_of_a_program_that_ends_at_once_is_known() {
    let outlive = Outlive::start();
    for _ in 0..50 {
        let answer = outlive.post("/v1/processes", &json!({ "command": "sh", "args": ["-c", "echo $$"] }));
        let id = answer.json["id"].as_str().unwrap().to_owned();
        outlive.wait_exit(&id);
        let pid = String::from_utf8(outlive.output(&id)).unwrap().trim().to_owned();
        assert_eq!(outlive.info(&format!("pid:{pid}"))["id"], json!(id));
    }
}

#[test]
fn lists_can_be_narrowed_by_annotation() {
    let outlive = Outlive::start();
    let with = |annotations| outlive.start_process(json!({ "command": "cat", "annotations": annotations }));
    let (red, blue) = (with(json!({ "colour": "red" })), with(json!({ "colour": "blue", "a=b": "c" })));
    let found = |query: &str| -> Vec<String> {
        let list = outlive.get(&format!("/v1/processes?annotation={query}")).json;
        list["processes"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found("colour=red"), std::slice::from_ref(&red));
    assert_eq!(found("colour"), [red, blue]);
    assert_eq!(found("colour="), [""; 0]);
}

#[test]
fn a_fresh_environment_has_nothing_of_the_servers() {
    let environment = vec![("LEAKED".to_owned(), "secret".to_owned())];
    let outlive = Outlive::with(Setup { environment, ..Setup::default() });
    let spec = json!({ "command": "env; pwd", "shell": true, "envMode": "fresh", "env": { "A": "1" }, "cwd": "~" });
    let answer = outlive.post("/v1/processes/run", &spec).json;
    let stdout = answer["stdout"].as_str().unwrap();
    let names: std::collections::BTreeSet<&str> =
        stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).filter(|name| *name != "_").collect();
    let expected = ["A", "HOME", "LOGNAME", "OUTLIVE_PROCESS_ID", "PATH", "PWD", "SHELL", "USER"];
    assert!(names.iter().eq(expected.iter()), "{stdout}");
    let home = stdout.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert_eq!(stdout.lines().last(), Some(home));
}

#[test]
fn the_machine_tells_how_busy_it_is() {
    let outlive = Outlive::start();
    let machine = outlive.get("/v1/machine").json;
    let number = |name: &str| machine[name].as_f64().unwrap_or_else(|| panic!("{name} in {machine}"));
    assert!(number("cpus") >= 1.0 && (0.0..=100.0).contains(&number("cpuUsedPercent")));
    assert!(number("memoryTotalBytes") > number("memoryUsedBytes"));
    assert!(number("diskTotalBytes") >= number("diskUsedBytes"));
}

/// Far more than a log keeps, printed before anybody can have begun to read.
#[test]
fn a_run_was_cut_at_its_beginning_when_the_program_was_faster_than_its_reader() {
    let outlive = Outlive::start();
    let config = json!({ "maxOutputBytes": 40_000_000, "maxLogBytesPerProcess": 65_536 });
    let mut all = outlive.get("/v1/processes/config").json;
    all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    assert_eq!(outlive.post("/v1/processes/config", &all).status, 200);
    for _ in 0..5 {
        let run = json!({ "command": "seq 1 1000000", "shell": true });
        let answer = outlive.post("/v1/processes/run", &run).json;
        assert_eq!(answer["stdoutTruncated"], json!(false));
        let stdout = answer["stdout"].as_str().unwrap();
        assert!(stdout.starts_with("1\n2\n") && stdout.len() == 6_888_896, "{} bytes", stdout.len());
    }
}
