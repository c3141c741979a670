//! Resource limits. When a resource is exhausted, outlive refuses with a clear error, keeps what runs, and recovers.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use harness::http::Response;
use harness::{Outlive, Setup, eventually, write_executable};
use rustix::process::{Resource, Rlimit};
use serde_json::{Value, json};

/// An outlive that a shell script has started.
struct Limited {
    outlive: Outlive,
    /// The directory of the script.
    _dir: tempfile::TempDir,
}

/// Starts outlive by a shell line that sets limits and ends with `exec "$@"`.
fn start_limited(line: &str, arguments: &[&str]) -> Limited {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("start");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = env!("CARGO_BIN_EXE_outlive");
    write_executable(&script, format!("#!/bin/sh\nset -e\nset -- {program} \"$@\"\n{line}\n").as_bytes());
    let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
    Limited { outlive: Outlive::start_with(Setup { program: Some(script), arguments, ..Setup::default() }), _dir: dir }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Starts processes until one is refused; returns their ids and the refusal.
fn start_until_refused(outlive: &Outlive, spec: &Value) -> (Vec<String>, Response) {
    let mut ids = Vec::new();
    loop {
        let response = outlive.post("/v1/processes", spec);
        if response.status != 200 {
            return (ids, response);
        }
        ids.push(response.json["id"].as_str().unwrap().to_owned());
        assert!(ids.len() < 3_000, "never refused");
    }
}

/// Checks that the started processes still work, and that new ones start once half of them are deleted.
fn assert_recovers(outlive: &Outlive, ids: &[String], spec: &Value) {
    let listed = outlive.get("/v1/processes").json["processes"].as_array().unwrap().len();
    assert_eq!(listed, ids.len(), "the refused start left a record");
    for id in ids {
        let input = json!({ "data": "still here\n", "encoding": "text" });
        assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &input).status, 200);
        outlive.wait_output(id, "still here");
    }
    for id in &ids[..ids.len().div_ceil(2)] {
        assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
    }
    eventually("a start succeeds again", || (outlive.post("/v1/processes", spec).status == 200).then_some(()));
    assert_eq!(outlive.get("/v1/health").status, 200);
}

#[test]
fn starts_are_refused_and_running_processes_kept_without_descriptors() {
    let Limited { outlive, _dir } = start_limited("ulimit -n 200; exec \"$@\"", &[]);
    let spec = json!({ "command": "cat" });
    let (ids, refused) = start_until_refused(&outlive, &spec);
    assert_eq!((refused.status, refused.code()), (503, "descriptors_exhausted"), "{}", refused.text());
    assert!(ids.len() > 10, "{}", ids.len());
    assert_recovers(&outlive, &ids, &spec);
}

// Regression: without a descriptor for the memfd of a large message to the holder, the request never got a response.
#[test]
fn a_start_whose_message_cannot_be_sent_to_the_holder_is_refused() {
    let outlive = Outlive::start();
    let mut stream = outlive.http().connect().unwrap();
    let mut post = |body: &str| {
        let head = "POST /v1/processes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut response = Vec::new();
        let mut buffer = [0; 4096];
        while !response.ends_with(b"}") {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&response));
            response.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8(response).unwrap()
    };
    let large = json!({ "command": "true", "env": { "LARGE": "x".repeat(100_000) } }).to_string();
    assert!(post(&large).starts_with("HTTP/1.1 200"));
    let server = rustix::process::Pid::from_raw(outlive.server_pid());
    let no_more = Rlimit { current: Some(3), maximum: rustix::process::getrlimit(Resource::Nofile).maximum };
    let usual = rustix::process::prlimit(server, Resource::Nofile, no_more).unwrap();
    let refused = post(&large);
    rustix::process::prlimit(server, Resource::Nofile, usual).unwrap();
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("descriptors_exhausted"), "{refused}");
    assert!(post(&large).starts_with("HTTP/1.1 200"));
}

// Regression: the record of such a start made the holder drop the server, and every server after it.
#[test]
fn a_start_of_eighty_megabytes_is_refused() {
    let arguments = ["--limit", "maxBodyBytes=100000000"].map(str::to_owned).to_vec();
    let outlive = Outlive::start_with(Setup { arguments, ..Setup::default() });
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
fn starts_are_refused_and_running_processes_kept_without_terminals() {
    if !is_root() {
        return;
    }
    let line = "exec unshare -m sh -c 'mount -t devpts -o newinstance,ptmxmode=0666,max=5 none /dev/pts && \
                mount --bind /dev/pts/ptmx /dev/ptmx && exec \"$@\"' sh \"$@\"";
    let Limited { outlive, _dir } = start_limited(line, &[]);
    let spec = json!({ "command": "cat", "tty": true });
    let (ids, refused) = start_until_refused(&outlive, &spec);
    assert_eq!((refused.status, refused.code()), (503, "terminals_exhausted"), "{}", refused.text());
    assert_eq!(ids.len(), 5);
    let pipes = outlive.start_process(json!({ "command": "cat" }));
    outlive.delete(&format!("/v1/processes/{pipes}?force=true"));
    assert_recovers(&outlive, &ids, &spec);
}

#[test]
fn starts_are_refused_and_running_processes_kept_at_the_process_limit() {
    if !is_root() {
        return;
    }
    // The limit does not bind root: outlive runs as an unused user, from a copy of the binary that this user may read.
    let line = "cp \"$1\" \"$(dirname \"$0\")/program\"; shift; chmod 777 \"$(dirname \"$5\")\"\n\
                exec prlimit --nproc=60:60 setpriv --reuid 45678 --regid 45678 --clear-groups \
                \"$(dirname \"$0\")/program\" \"$@\"";
    let Limited { outlive, _dir } = start_limited(line, &["--cgroups", "off"]);
    let spec = json!({ "command": "cat" });
    let (ids, refused) = start_until_refused(&outlive, &spec);
    assert_eq!((refused.status, refused.code()), (503, "processes_exhausted"), "{}", refused.text());
    assert!(ids.len() > 10, "{}", ids.len());
    assert_recovers(&outlive, &ids, &spec);
}

#[test]
fn starts_are_refused_and_running_processes_kept_without_memory() {
    let Limited { outlive, _dir } = start_limited("ulimit -v 2000000; exec \"$@\"", &[]);
    let spec = json!({ "command": "cat", "maxLogBytes": 100 << 20 });
    let (ids, refused) = start_until_refused(&outlive, &spec);
    assert_eq!((refused.status, refused.code()), (503, "memory_exhausted"), "{}", refused.text());
    assert!(ids.len() > 3, "{}", ids.len());
    assert_recovers(&outlive, &ids, &spec);
}

#[test]
fn processes_run_while_the_disk_is_full() {
    if !is_root() {
        return;
    }
    let line = "exec unshare -m sh -c 'mkdir -p \"$6\" && mount -t tmpfs -o size=4k none \"$6\" && \
                { cat /dev/zero >\"$6\"/full || true; } 2>/dev/null && exec \"$@\"' sh \"$@\"";
    let Limited { outlive, _dir } = start_limited(line, &[]);
    assert!(outlive.stderr().contains("cannot write to"), "{}", outlive.stderr());
    let id = outlive.start_shell("head -c 5000000 /dev/zero; echo end");
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    assert_eq!(outlive.output(&id).len(), 5_000_004);
    outlive.kill_server();
    assert_eq!(outlive.output(&id).len(), 5_000_004);
}

#[test]
fn tree_limits_are_enforced_or_refused() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "for i in 1 2 3 4 5 6 7 8 9; do sleep 300 & done; wait", "shell": true,
        "limits": { "treeProcesses": 5 } });
    let response = outlive.post("/v1/processes", &spec);
    if response.status == 200 {
        let id = response.json["id"].as_str().unwrap();
        outlive.wait_output(id, "(?i)cannot fork|resource temporarily unavailable");
        let tree = outlive.get(&format!("/v1/processes/{id}/tree")).json;
        assert!(tree["processes"].as_array().unwrap().len() <= 5, "{tree}");
    } else {
        assert_eq!((response.status, response.code()), (400, "tree_limits_unavailable"), "{}", response.text());
        assert_eq!(outlive.get("/v1/processes").json["processes"], json!([]), "the refused start left a record");
    }
    for limits in
        [json!({ "memoryBytes": 0 }), json!({ "treeProcesses": 0 }), json!({ "cpus": 0 }), json!({ "cpus": -1 })]
    {
        let response = outlive.post("/v1/processes", &json!({ "command": "true", "limits": limits }));
        assert!(response.status == 400 || response.status == 422, "{limits}: {}", response.text());
    }
}

#[test]
fn no_new_privileges_is_applied() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "grep NoNewPrivs /proc/self/status", "shell": true, "noNewPrivileges": true });
    let id = outlive.start_process(spec);
    outlive.wait_exit(&id);
    assert_eq!(outlive.output(&id), b"NoNewPrivs:\t1\n");
}

#[test]
fn machine_usage_is_reported() {
    let outlive = Outlive::start();
    let machine = outlive.get("/v1/machine").json;
    let number = |name: &str| machine[name].as_f64().unwrap_or_else(|| panic!("{name} in {machine}"));
    assert!(number("cpus") >= 1.0 && (0.0..=100.0).contains(&number("cpuUsedPercent")));
    assert!(number("memoryTotalBytes") > number("memoryUsedBytes"));
    assert!(number("diskTotalBytes") >= number("diskUsedBytes"));
}
