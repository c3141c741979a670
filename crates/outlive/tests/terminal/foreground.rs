//! Signals to the job in the foreground.

use serde_json::json;

use crate::harness::{Outlive, eventually};

#[test]
fn a_signal_to_the_foreground_spares_the_shell_and_its_jobs() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({ "command": "bash", "args": ["--norc", "--noprofile", "-i"], "tty": true }));
    let type_in = |text: &str| {
        let body = json!({ "data": text, "encoding": "utf8" });
        assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &body).status, 200);
    };
    let signal =
        |id: &str| outlive.post(&format!("/v1/processes/{id}/signal"), &json!({ "signal": "INT", "foreground": true }));
    type_in("sleep 1000 & sh -c 'echo wai''ts; exec sleep 1000'\n");
    outlive.wait_output(&id, "waits");
    eventually("the job ends", || {
        assert_eq!(signal(&id).status, 200);
        type_in("echo c''ode=$? jobs=$(jobs -p | wc -l)\n");
        let output = String::from_utf8_lossy(&outlive.output(&id)).into_owned();
        output.contains("code=130 jobs=1").then_some(())
    });
    let pipes = outlive.start_process(json!({ "command": "cat" }));
    assert_eq!(signal(&pipes).code(), "not_a_terminal");
}
