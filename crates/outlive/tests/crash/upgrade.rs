//! Upgrades: requests during an upgrade, and an upgrade to a broken binary.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use serde_json::json;

use crate::harness::{Outlive, Setup, eventually, write_executable};

/// Each run appends a byte to a file, which shows whether it happened: runs with a result have, refused ones have not.
#[test]
fn runs_complete_or_are_refused_during_upgrades() {
    let outlive = Outlive::start();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let runners = [("a", "true"), ("b", "echo x; echo y >&2"), ("c", "sleep 0.03; echo z")].map(|(name, line)| {
            let (outlive, stop) = (&outlive, &stop);
            scope.spawn(move || {
                let file = outlive.dir.path().join(name);
                let spec =
                    json!({ "command": format!("printf . >>{}; {line}", file.display()), "shell": true }).to_string();
                let (mut completed, mut broken) = (0, 0);
                while !stop.load(SeqCst) {
                    let headers = [("content-type", "application/json")];
                    let Ok(response) =
                        outlive.http().try_send("POST", "/v1/processes/run", &headers, Some(spec.as_bytes()))
                    else {
                        // The run may have started or not.
                        broken += 1;
                        continue;
                    };
                    // A server that has handed over starts nothing for its remaining connections.
                    if response.status == 503 && response.code() == "being_replaced" {
                        continue;
                    }
                    assert_eq!((response.status, &response.json["exitCode"]), (200, &json!(0)), "{}", response.text());
                    completed += 1;
                }
                let executed = std::fs::read(file).unwrap().len();
                assert!(completed > 0);
                assert!((completed..=completed + broken).contains(&executed), "{executed} of {completed} and {broken}");
            })
        });
        for round in 0..8 {
            let response = outlive.post("/v1/upgrade", &json!({}));
            assert_eq!(response.status, 200, "round {round}: {}", response.text());
        }
        stop.store(true, SeqCst);
        for runner in runners {
            runner.join().unwrap();
        }
    });
    assert_eq!(outlive.get("/v1/health").json["serverRestarts"], 0);
    let listed = || outlive.get("/v1/processes?all=true").json["processes"].as_array().unwrap().len();
    eventually("no record is left", || (listed() == 0).then_some(()));
}

#[test]
fn an_upgrade_to_a_broken_binary_keeps_the_old_server() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("outlive");
    let working = std::fs::read(env!("CARGO_BIN_EXE_outlive")).unwrap();
    write_executable(&program, &working);
    let outlive = Outlive::start_with(Setup { program: Some(program.clone()), ..Setup::default() });
    let id = outlive.start_process(json!({ "command": "cat" }));
    let server = outlive.server_pid();
    let replace = |contents: &[u8]| {
        // Package managers replace a file by renaming a new one over it.
        let fresh = directory.path().join("fresh");
        write_executable(&fresh, contents);
        std::fs::rename(&fresh, &program).unwrap();
    };
    for broken in [&b"#!/bin/false\n"[..], b"not a program", b"#!/bin/sh\nsleep 100\n"] {
        replace(broken);
        let response = outlive.post("/v1/upgrade", &json!({}));
        assert_eq!((response.status, response.code()), (409, "upgrade_failed"), "{}", response.text());
        assert_eq!(outlive.server_pid(), server, "the old server was replaced");
    }
    assert_eq!(outlive.info(&id)["status"], "running");
    replace(&working);
    let response = outlive.post("/v1/upgrade", &json!({}));
    assert_eq!(response.status, 200, "{}", response.text());
    assert_ne!(outlive.server_pid(), server);
    assert_eq!(outlive.info(&id)["status"], "running");
}
