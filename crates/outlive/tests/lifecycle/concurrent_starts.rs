//! Many starts at the same time.

use serde_json::json;

use crate::harness::Outlive;
use crate::{list_processes, post, set_config, start_keyed};

/// Runs `work` on `count` threads that start together.
fn run_concurrently<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
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
fn concurrent_starts_with_one_tag_start_one_process() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "sleep", "args": ["1000"], "tag": "one", "ifTagExists": "return" });
    let ids = run_concurrently(100, |_| outlive.start_process(spec.clone()));
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(list_processes(&outlive, "?all=true").len(), 1);
    assert_eq!(outlive.info(&ids[0])["status"], "running");
    // Without `return` a taken tag is an error.
    let mut strict = spec;
    strict.as_object_mut().unwrap().remove("ifTagExists");
    assert_eq!(outlive.post("/v1/processes", &strict).code(), "tag_exists");
}

#[test]
fn concurrent_retries_with_one_idempotency_key_start_one_process() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "sleep", "args": ["1000"] });
    let ids = run_concurrently(100, |_| {
        let response = start_keyed(&outlive, "key", &spec);
        assert_eq!(response.status, 200, "{}", response.text());
        response.json["id"].clone()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(list_processes(&outlive, "?all=true").len(), 1);
    let other = start_keyed(&outlive, "key", &json!({ "command": "sleep", "args": ["999"] }));
    assert_eq!((other.status, other.code()), (409, "idempotency_key_reused"));
    // The key refers to the process also after a server crash and after the exit.
    outlive.kill_server();
    assert_eq!(start_keyed(&outlive, "key", &spec).json["id"], ids[0]);
    post(&outlive, ids[0].as_str().unwrap(), "kill");
    let response = start_keyed(&outlive, "key", &spec);
    assert_eq!((&response.json["id"], &response.json["status"]), (&ids[0], &json!("exited")));
}

#[test]
fn the_process_limit_is_exact() {
    let outlive = Outlive::start();
    set_config(&outlive, "/v1/processes/config", json!({ "maxConcurrentProcesses": 8 }));
    let responses =
        run_concurrently(50, |_| outlive.post("/v1/processes", &json!({ "command": "sleep", "args": ["1000"] })));
    let started: Vec<_> = responses.iter().filter(|response| response.status == 200).collect();
    assert_eq!(started.len(), 8);
    for refused in responses.iter().filter(|response| response.status != 200) {
        assert_eq!((refused.status, refused.code()), (409, "process_limit"), "{}", refused.text());
        assert!(refused.text().contains("max concurrent process limit reached (8)"), "{}", refused.text());
    }
    assert_eq!(list_processes(&outlive, "?all=true").len(), 8, "a refused start left a record");
    // Every exit frees its slot exactly once.
    for response in started {
        let id = response.json["id"].as_str().unwrap();
        assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
    }
    let again = run_concurrently(20, |_| {
        outlive.post("/v1/processes", &json!({ "command": "sleep", "args": ["1000"] })).status
    });
    assert_eq!(again.iter().filter(|status| **status == 200).count(), 8);
}
