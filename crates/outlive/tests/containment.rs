//! When the machine has nothing left: a clear error, what runs is untouched, and it recovers by itself.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use harness::http::Answer;
use harness::{Outlive, Setup, eventually};
use rustix::process::{Resource, Rlimit};
use serde_json::{Value, json};

/// An outlive that is started by a shell line, which ends with `exec "$@"`.
struct Within {
    outlive: Outlive,
    /// Holds the script.
    _dir: tempfile::TempDir,
}

fn within(line: &str, arguments: &[&str]) -> Within {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("start");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = env!("CARGO_BIN_EXE_outlive");
    std::fs::write(&script, format!("#!/bin/sh\nset -e\nset -- {program} \"$@\"\n{line}\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
    Within { outlive: Outlive::with(Setup { program: Some(script), arguments, ..Setup::default() }), _dir: dir }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Starts until it is refused; the ids, and the refusal.
fn fill(outlive: &Outlive, spec: &Value) -> (Vec<String>, Answer) {
    let mut ids = Vec::new();
    loop {
        let answer = outlive.post("/v1/processes", spec);
        if answer.status != 200 {
            return (ids, answer);
        }
        ids.push(answer.json["id"].as_str().unwrap().to_owned());
        assert!(ids.len() < 3_000, "never refused");
    }
}

/// What was started before still works, and after some have gone there is room again.
fn recovers(outlive: &Outlive, ids: &[String], spec: &Value) {
    let listed = outlive.get("/v1/processes").json["processes"].as_array().unwrap().len();
    assert_eq!(listed, ids.len(), "the refused one left nothing behind");
    for id in ids {
        let input = json!({ "data": "still here\n", "encoding": "text" });
        assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &input).status, 200);
        outlive.wait_output(id, "still here");
    }
    for id in &ids[..ids.len().div_ceil(2)] {
        assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
    }
    eventually("there is room again", || (outlive.post("/v1/processes", spec).status == 200).then_some(()));
    assert_eq!(outlive.get("/v1/health").status, 200);
}

#[test]
fn without_descriptors_nothing_new_is_started_and_nothing_ends() {
    let Within { outlive, _dir } = within("ulimit -n 200; exec \"$@\"", &[]);
    let spec = json!({ "command": "cat" });
    let (ids, refused) = fill(&outlive, &spec);
    assert_eq!((refused.status, refused.code()), (503, "descriptors_exhausted"), "{}", refused.text());
    assert!(ids.len() > 10, "{}", ids.len());
    recovers(&outlive, &ids, &spec);
}

/// A large message travels to the holder in a file of its own. When there was no descriptor for it, nobody told the one who waited.
#[test]
fn a_start_whose_message_cannot_be_sent_is_refused() {
    let outlive = Outlive::start();
    let mut stream = outlive.http().connect().unwrap();
    let mut ask = |body: &str| {
        let head = "POST /v1/processes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = Vec::new();
        let mut room = [0; 4096];
        while !answer.ends_with(b"}") {
            let count = stream.read(&mut room).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&room[..count]);
        }
        String::from_utf8(answer).unwrap()
    };
    let large = json!({ "command": "true", "env": { "LARGE": "x".repeat(100_000) } }).to_string();
    assert!(ask(&large).starts_with("HTTP/1.1 200"));
    let server = rustix::process::Pid::from_raw(outlive.server_pid());
    let none = Rlimit { current: Some(3), maximum: rustix::process::getrlimit(Resource::Nofile).maximum };
    let usual = rustix::process::prlimit(server, Resource::Nofile, none).unwrap();
    let refused = ask(&large);
    rustix::process::prlimit(server, Resource::Nofile, usual).unwrap();
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("descriptors_exhausted"), "{refused}");
    assert!(ask(&large).starts_with("HTTP/1.1 200"));
}

/// It was written down, the holder took the server for mad, and every server after it died of the record.
#[test]
fn a_start_of_eighty_megabytes_ended_every_server() {
    let arguments = ["--limit", "maxBodyBytes=100000000"].map(str::to_owned).to_vec();
    let outlive = Outlive::with(Setup { arguments, ..Setup::default() });
    let pid = outlive.server_pid();
    let large = "x".repeat(80_000_000);
    for spec in [json!({ "command": "true", "cwd": large }), json!({ "command": "true", "env": { "A": large } })] {
        for path in ["/v1/processes", "/v1/processes/run"] {
            let refused = outlive.post(path, &spec);
            assert_eq!((refused.status, refused.code()), (400, "invalid_value"));
        }
    }
    assert_eq!(outlive.server_pid(), pid);
    outlive.kill_server();
    assert_eq!(outlive.post("/v1/processes/run", &json!({ "command": "true" })).json["exitCode"], 0);
}

#[test]
fn without_terminals_nothing_new_is_started_and_nothing_ends() {
    if !is_root() {
        return;
    }
    let line = "exec unshare -m sh -c 'mount -t devpts -o newinstance,ptmxmode=0666,max=5 none /dev/pts && \
                mount --bind /dev/pts/ptmx /dev/ptmx && exec \"$@\"' sh \"$@\"";
    let Within { outlive, _dir } = within(line, &[]);
    let spec = json!({ "command": "cat", "tty": true });
    let (ids, refused) = fill(&outlive, &spec);
    assert_eq!((refused.status, refused.code()), (503, "terminals_exhausted"), "{}", refused.text());
    assert_eq!(ids.len(), 5);
    let pipes = outlive.start_process(json!({ "command": "cat" }));
    outlive.delete(&format!("/v1/processes/{pipes}?force=true"));
    recovers(&outlive, &ids, &spec);
}

#[test]
fn without_processes_nothing_new_is_started_and_nothing_ends() {
    if !is_root() {
        return;
    }
    // A user that nobody else is; root knows no such limit. The program is copied, its folder may be closed to others.
    let line = "cp \"$1\" \"$(dirname \"$0\")/program\"; shift; chmod 777 \"$(dirname \"$5\")\"\n\
                exec prlimit --nproc=60:60 setpriv --reuid 45678 --regid 45678 --clear-groups \
                \"$(dirname \"$0\")/program\" \"$@\"";
    let Within { outlive, _dir } = within(line, &["--cgroups", "off"]);
    let spec = json!({ "command": "cat" });
    let (ids, refused) = fill(&outlive, &spec);
    assert_eq!((refused.status, refused.code()), (503, "processes_exhausted"), "{}", refused.text());
    assert!(ids.len() > 10, "{}", ids.len());
    recovers(&outlive, &ids, &spec);
}

#[test]
fn without_memory_nothing_new_is_started_and_nothing_ends() {
    let Within { outlive, _dir } = within("ulimit -v 2000000; exec \"$@\"", &[]);
    let spec = json!({ "command": "cat", "maxLogBytes": 100 << 20 });
    let (ids, refused) = fill(&outlive, &spec);
    assert_eq!((refused.status, refused.code()), (503, "memory_exhausted"), "{}", refused.text());
    assert!(ids.len() > 3, "{}", ids.len());
    recovers(&outlive, &ids, &spec);
}

#[test]
fn a_full_disk_keeps_nothing_from_running() {
    if !is_root() {
        return;
    }
    let line = "exec unshare -m sh -c 'mkdir -p \"$6\" && mount -t tmpfs -o size=4k none \"$6\" && \
                { cat /dev/zero >\"$6\"/full || true; } 2>/dev/null && exec \"$@\"' sh \"$@\"";
    let Within { outlive, _dir } = within(line, &[]);
    assert!(outlive.stderr().contains("cannot be written"), "{}", outlive.stderr());
    let id = outlive.shell("head -c 5000000 /dev/zero; echo end");
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    assert_eq!(outlive.output(&id).len(), 5_000_004);
    outlive.kill_server();
    assert_eq!(outlive.output(&id).len(), 5_000_004);
}

#[test]
fn a_tree_is_held_within_its_limits_or_refused() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "for i in 1 2 3 4 5 6 7 8 9; do sleep 300 & done; wait", "shell": true,
        "limits": { "treeProcesses": 5 } });
    let answer = outlive.post("/v1/processes", &spec);
    if answer.status == 200 {
        let id = answer.json["id"].as_str().unwrap();
        outlive.wait_output(id, "(?i)cannot fork|resource temporarily unavailable");
        let tree = outlive.get(&format!("/v1/processes/{id}/tree")).json;
        assert!(tree["processes"].as_array().unwrap().len() <= 5, "{tree}");
    } else {
        assert_eq!((answer.status, answer.code()), (400, "tree_limits_unavailable"), "{}", answer.text());
        assert_eq!(outlive.get("/v1/processes").json["processes"], json!([]), "nothing is half-created");
    }
    for limits in
        [json!({ "memoryBytes": 0 }), json!({ "treeProcesses": 0 }), json!({ "cpus": 0 }), json!({ "cpus": -1 })]
    {
        let answer = outlive.post("/v1/processes", &json!({ "command": "true", "limits": limits }));
        assert!(answer.status == 400 || answer.status == 422, "{limits}: {}", answer.text());
    }
}

#[test]
fn new_privileges_can_be_ruled_out() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "grep NoNewPrivs /proc/self/status", "shell": true, "noNewPrivileges": true });
    let id = outlive.start_process(spec);
    outlive.wait_exit(&id);
    assert_eq!(outlive.output(&id), b"NoNewPrivs:\t1\n");
}
