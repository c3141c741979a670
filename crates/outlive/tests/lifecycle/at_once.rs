//! Many starts at the same moment.

use serde_json::json;

use crate::harness::Outlive;
use crate::{listed, post, set_config, start_keyed};

/// Runs `work` this often at the same time, on threads that begin together.
fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let gate = std::sync::Barrier::new(count);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let (gate, work) = (&gate, &work);
                scope.spawn(move || {
                    gate.wait();
                    work(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn a_hundred_starts_with_one_tag_give_one_process() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "sleep", "args": ["1000"], "tag": "one", "ifTagExists": "return" });
    let ids = at_once(100, |_| outlive.start_process(spec.clone()));
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(listed(&outlive, "?all=true").len(), 1);
    assert_eq!(outlive.info(&ids[0])["status"], "running");
    // Without `return` all but the owner are told.
    let mut strict = spec;
    strict.as_object_mut().unwrap().remove("ifTagExists");
    assert_eq!(outlive.post("/v1/processes", &strict).code(), "tag_exists");
}

#[test]
fn a_hundred_retries_with_one_key_give_one_process() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "sleep", "args": ["1000"] });
    let ids = at_once(100, |_| {
        let answer = start_keyed(&outlive, "key", &spec);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json["id"].clone()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(listed(&outlive, "?all=true").len(), 1);
    let other = start_keyed(&outlive, "key", &json!({ "command": "sleep", "args": ["999"] }));
    assert_eq!((other.status, other.code()), (409, "idempotency_key_reused"));
    // The key stands for the process after its end too, and across the death of a server.
    outlive.kill_server();
    assert_eq!(start_keyed(&outlive, "key", &spec).json["id"], ids[0]);
    post(&outlive, ids[0].as_str().unwrap(), "kill");
    let answer = start_keyed(&outlive, "key", &spec);
    assert_eq!((&answer.json["id"], &answer.json["status"]), (&ids[0], &json!("exited")));
}

#[test]
fn the_limit_of_processes_is_exact() {
    let outlive = Outlive::start();
    set_config(&outlive, "/v1/processes/config", json!({ "maxConcurrentProcesses": 8 }));
    let answers = at_once(50, |_| outlive.post("/v1/processes", &json!({ "command": "sleep", "args": ["1000"] })));
    let started: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(started.len(), 8);
    for refused in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!((refused.status, refused.code()), (409, "process_limit"), "{}", refused.text());
        assert!(refused.text().contains("max concurrent process limit reached (8)"), "{}", refused.text());
    }
    assert_eq!(listed(&outlive, "?all=true").len(), 8, "a refused one left something");
    // Every end gives its place back exactly once.
    for answer in started {
        let id = answer.json["id"].as_str().unwrap();
        assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
    }
    let again = at_once(20, |_| outlive.post("/v1/processes", &json!({ "command": "sleep", "args": ["1000"] })).status);
    assert_eq!(again.iter().filter(|status| **status == 200).count(), 8);
}
