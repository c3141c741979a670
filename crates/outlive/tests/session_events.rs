//! Events about sessions: their order and contents, filters, and replay across server crashes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use std::process::Command;

use harness::http::{Event, EventStream};
use harness::{Outlive, Setup, eventually, proc};
use serde_json::{Value, json};

/// Interactive shells ignore TERM; with a short grace period, outlive stops soon after each test.
fn quick_setup() -> Setup {
    Setup { arguments: ["--grace-ms", "50"].map(str::to_owned).to_vec(), ..Setup::default() }
}

fn follow(outlive: &Outlive, query: &str, last_event_id: Option<&str>) -> EventStream {
    let headers: Vec<(&str, &str)> = last_event_id.map(|id| ("last-event-id", id)).into_iter().collect();
    let open = outlive.http().open("GET", &format!("/v1/events{query}"), &headers, None).unwrap();
    assert_eq!(open.status, 200, "{query}");
    EventStream::new(open)
}

fn parse_data(event: &Event) -> Value {
    let data: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!(data["type"], event.name.as_str());
    assert!(data["atMs"].is_u64());
    data
}

/// Returns the type and the reason, as in `session.updated execStarted`, and the data.
fn next(events: &mut EventStream) -> (String, Value) {
    let data = parse_data(&events.next().unwrap());
    let words = [&data["type"], &data["reason"]].into_iter().filter_map(Value::as_str);
    (words.collect::<Vec<_>>().join(" "), data)
}

/// Checks the type and reason of the next event, and returns its data.
fn expect(events: &mut EventStream, expected: &str) -> Value {
    let (name, data) = next(events);
    assert_eq!(name, expected, "{data}");
    data
}

fn create_session(outlive: &Outlive, spec: Value) -> Value {
    let response = outlive.post("/v1/sessions", &spec);
    assert_eq!(response.status, 200, "{}", response.text());
    response.json
}

fn exec(outlive: &Outlive, session: &str, command: &str, detach: bool) -> String {
    let body = json!({ "command": command, "detach": detach });
    let response = outlive.post(&format!("/v1/sessions/{session}/exec"), &body);
    assert_eq!(response.status, 200, "{command}: {}", response.text());
    response.json["execId"].as_str().unwrap().to_owned()
}

#[test]
fn events_show_the_life_of_a_session() {
    let outlive = Outlive::start_with(quick_setup());
    let mut events = follow(&outlive, "", None);
    let created = create_session(&outlive, json!({ "id": "work", "label": "l", "onExit": "fresh" }));
    let data = expect(&mut events, "session.created");
    assert_eq!((&data["session"], data.get("process")), (&created, None));

    let first = exec(&outlive, "work", "cd /usr", false);
    let started = expect(&mut events, "session.updated execStarted");
    assert_eq!((&started["execId"], &started["session"]["running"]), (&json!(first), &json!(first)));
    assert_eq!(started["session"]["status"], "busy");
    let finished = expect(&mut events, "session.updated execFinished");
    assert_eq!((&finished["execId"], &finished["session"]["cwd"]), (&json!(first), &json!("/usr")));
    assert_eq!(finished["session"], outlive.get("/v1/sessions/work").json);

    // The shell exits by itself.
    exec(&outlive, "work", "(sleep 0.2; kill -9 $$) >/dev/null 2>&1 &", false);
    expect(&mut events, "session.updated execStarted");
    expect(&mut events, "session.updated execFinished");
    let exited = expect(&mut events, "session.exited");
    assert_eq!((&exited["session"]["status"], &exited["session"]["signal"]), (&json!("exited"), &json!("SIGKILL")));
    assert_eq!(exited["session"], outlive.get("/v1/sessions/work").json);

    // The next command starts another shell, and ends it.
    exec(&outlive, "work", "exit 7", false);
    let restarted = expect(&mut events, "session.updated shellRestarted");
    assert_eq!(restarted["session"]["generation"], 2);
    expect(&mut events, "session.updated execStarted");
    assert_eq!(expect(&mut events, "session.updated execFinished")["session"]["status"], "exited");
    let exited = expect(&mut events, "session.exited");
    assert_eq!((&exited["session"]["exitCode"], &exited["session"]["generation"]), (&json!(7), &json!(2)));

    assert_eq!(outlive.delete("/v1/sessions/work").status, 204);
    assert_eq!(expect(&mut events, "session.deleted")["session"]["id"], "work");
}

#[test]
fn waiting_and_refused_commands_have_events() {
    let outlive = Outlive::start_with(quick_setup());
    create_session(&outlive, json!({ "id": "work" }));
    let mut events = follow(&outlive, "", None);
    let running = exec(&outlive, "work", "sleep 60", true);
    expect(&mut events, "session.updated execStarted");
    let waiting = exec(&outlive, "work", "echo never", true);
    let queued = expect(&mut events, "session.updated execQueued");
    assert_eq!((&queued["execId"], &queued["session"]["queued"]), (&json!(waiting), &json!(1)));
    assert_eq!(outlive.post(&format!("/v1/sessions/work/execs/{waiting}/cancel"), &json!({})).status, 200);
    let refused = expect(&mut events, "session.updated execFinished");
    assert_eq!((&refused["execId"], &refused["session"]["queued"]), (&json!(waiting), &json!(0)));
    assert_eq!(refused["session"]["running"], json!(running));
    // The commands of a deleted session have no events of their own.
    exec(&outlive, "work", "echo never", true);
    expect(&mut events, "session.updated execQueued");
    assert_eq!(outlive.delete("/v1/sessions/work").status, 204);
    let deleted = expect(&mut events, "session.deleted");
    assert_eq!((&deleted["session"]["status"], deleted["session"].get("running")), (&json!("exited"), None));
}

#[test]
fn a_session_that_cannot_be_created_has_no_events() {
    let outlive = Outlive::start_with(quick_setup());
    let mut events = follow(&outlive, "", None);
    let refused = outlive.post("/v1/sessions", &json!({ "id": "work", "cwd": "/does/not/exist" }));
    assert!(refused.status >= 400, "{}", refused.text());
    let created = create_session(&outlive, json!({ "id": "work" }));
    assert_eq!(expect(&mut events, "session.created")["session"], created);
}

#[test]
fn the_session_filter_includes_the_processes_of_the_session() {
    let outlive = Outlive::start_with(quick_setup());
    let mut all = follow(&outlive, "?type=session.created", None);
    for id in ["a", "b"] {
        create_session(&outlive, json!({ "id": id }));
        exec(&outlive, id, "true", false);
    }
    let start = all.next().unwrap().id;
    let process = outlive.post("/v1/sessions/b/processes", &json!({ "command": "true" })).json["id"].clone();
    outlive.wait_exit(process.as_str().unwrap());
    exec(&outlive, "a", "true", false);
    let mut of_b = follow(&outlive, "?sessionId=b", Some(&start));
    expect(&mut of_b, "session.created");
    expect(&mut of_b, "session.updated execStarted");
    expect(&mut of_b, "session.updated execFinished");
    // The shell wrote its state for the process by a command that is not listed and has no events.
    assert_eq!(expect(&mut of_b, "process.created")["process"]["sessionId"], "b");
    let names: Vec<String> =
        std::iter::repeat_with(|| next(&mut of_b).0).take_while(|name| name != "process.exited").collect();
    assert!(names.iter().all(|name| name.starts_with("process.updated")), "{names:?}");
    // Each filter excludes the events of the other kind.
    let mut of_process = follow(&outlive, &format!("?processId={}", process.as_str().unwrap()), Some(&start));
    assert_eq!(expect(&mut of_process, "process.created")["process"]["id"], process);
    let mut types = follow(&outlive, "?type=session.updated,process.exited&sessionId=b", Some(&start));
    expect(&mut types, "session.updated execStarted");
    expect(&mut types, "session.updated execFinished");
    expect(&mut types, "process.exited");
    let unknown = outlive.get("/v1/events?type=session.born");
    assert_eq!((unknown.status, unknown.code()), (400, "invalid_query"));
    assert!(unknown.text().contains("session.deleted"), "{}", unknown.text());
}

#[test]
fn session_events_are_replayed_after_a_server_crash() {
    let outlive = Outlive::start_with(quick_setup());
    let mut events = follow(&outlive, "", None);
    create_session(&outlive, json!({ "id": "work" }));
    let process = outlive.start_shell("true");
    outlive.wait_exit(&process);
    exec(&outlive, "work", "true", false);
    let seen: Vec<Event> = std::iter::repeat_with(|| events.next().unwrap()).take(5).collect();
    assert_eq!(parse_data(&seen[4])["reason"], "execFinished");
    outlive.kill_server();
    let mut replayed = follow(&outlive, "", Some(&seen[0].id));
    for event in &seen[1..] {
        let again = replayed.next().unwrap();
        assert_eq!((&again.id, &again.name, &again.data), (&event.id, &event.name, &event.data));
    }
    // The next event has the next number, whichever server emits it.
    exec(&outlive, "work", "true", false);
    let number = |id: &str| id.rsplit('-').next().and_then(|number| number.parse::<u64>().ok()).unwrap();
    assert_eq!(number(&replayed.next().unwrap().id), number(&seen[4].id) + 1);
    let mut of_session = follow(&outlive, "?sessionId=work", Some(&seen[0].id));
    expect(&mut of_session, "session.updated execStarted");
}

#[test]
fn an_exit_without_a_server_is_announced_once() {
    let outlive = Outlive::start_with(quick_setup());
    let pid = create_session(&outlive, json!({ "id": "work" }))["pid"].as_i64().unwrap() as i32;
    let mut events = follow(&outlive, "", None);
    let server = outlive.server_pid();
    proc::send_signal(server, rustix::process::Signal::STOP);
    proc::send_signal(pid, rustix::process::Signal::KILL);
    eventually("the end of the shell", || std::fs::metadata(format!("/proc/{pid}")).is_err().then_some(()));
    proc::send_signal(server, rustix::process::Signal::KILL);
    assert!(events.next().is_none());
    eventually("another server", || {
        let response = outlive.http().try_send("GET", "/v1/sessions/work", &[], None).ok()?;
        (response.json["status"] == "exited").then_some(())
    });
    let epoch = outlive.get("/v1/health").json["bootId"].as_str().unwrap().to_owned();
    let beginning = format!("{epoch}-0");
    let mut events = follow(&outlive, "", Some(&beginning));
    expect(&mut events, "session.created");
    assert_eq!(expect(&mut events, "session.exited")["session"]["signal"], "SIGKILL");
    outlive.kill_server();
    assert_eq!(outlive.delete("/v1/sessions/work").status, 204);
    let mut events = follow(&outlive, "", Some(&beginning));
    for name in ["session.created", "session.exited", "session.deleted"] {
        expect(&mut events, name);
    }
}

#[test]
fn a_busy_session_does_not_evict_process_events() {
    let mut setup = quick_setup();
    setup.arguments.extend(["--limit", "maxEvents=40"].map(str::to_owned));
    let outlive = Outlive::start_with(setup);
    let mut events = follow(&outlive, "", None);
    let ids: Vec<String> = (0..10).map(|_| outlive.start_shell("true")).collect();
    for id in &ids {
        outlive.wait_exit(id);
    }
    let start = events.next().unwrap().id;
    create_session(&outlive, json!({ "id": "work" }));
    for _ in 0..50 {
        exec(&outlive, "work", "true", false);
    }
    let check = || {
        let mut events = follow(&outlive, "?type=process.exited,session.created", Some(&start));
        for _ in &ids {
            expect(&mut events, "process.exited");
        }
        expect(&mut events, "session.created");
        let mut updates = follow(&outlive, "?type=session.updated", Some(&start));
        assert_eq!(next(&mut updates).1["type"], "session.updated");
    };
    check();
    outlive.kill_server();
    check();
}

#[test]
fn a_repeated_start_after_a_crash_is_announced_once() {
    for point in ["exec_saved", "exec_pipes_recorded", "exec_sent", "sink_finished"] {
        let outlive = Outlive::start_with(quick_setup().crash_at(point, 1));
        let mut events = follow(&outlive, "", None);
        create_session(&outlive, json!({ "id": "work" }));
        let start = events.next().unwrap().id;
        let path = "/v1/sessions/work/exec";
        let body = json!({ "command": "echo once", "detach": true }).to_string();
        let _ = outlive.http().try_send("POST", path, &[("content-type", "application/json")], Some(body.as_bytes()));
        let execs = eventually("the end of the command", || {
            let response = outlive.http().try_send("GET", "/v1/sessions/work/execs", &[], None).ok()?;
            (response.json["execs"][0]["status"] == "finished").then_some(response.json)
        });
        let mut events = follow(&outlive, "", Some(&start));
        let started = expect(&mut events, "session.updated execStarted");
        assert_eq!(started["execId"], execs["execs"][0]["execId"], "{point}");
        expect(&mut events, "session.updated execFinished");
        exec(&outlive, "work", "true", false);
        expect(&mut events, "session.updated execStarted");
    }
}

#[test]
fn the_cli_prints_session_events() {
    let outlive = Outlive::start_with(quick_setup());
    create_session(&outlive, json!({ "id": "work", "label": "build" }));
    exec(&outlive, "work", "exit 3", false);
    let epoch = outlive.get("/v1/health").json["bootId"].as_str().unwrap().to_owned();
    let mut child = Command::new(env!("CARGO_BIN_EXE_outlive"))
        .args(["--state-dir", outlive.state_dir().to_str().unwrap()])
        .args(["events", "--session", "work", "--after", &format!("{epoch}-0")])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<String> = {
        use std::io::BufRead as _;
        let stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        stdout.lines().take(4).map(|line| line.unwrap()).collect()
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let expected = ["created ", "updated  execStarted", "updated  execFinished", "exited   exited 3"];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected) && line.contains("work  build  session bash"), "{line}");
    }
    assert_eq!(lines.len(), 4);
}
