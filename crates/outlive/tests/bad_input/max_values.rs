//! The largest numbers that a field accepts.

use serde_json::{Value, json};

use crate::assert_problem;
use crate::harness::socket::Socket;
use crate::harness::{self, Outlive};

#[test]
fn the_largest_numbers_are_handled() {
    const MAX: u64 = u64::MAX;
    let outlive = Outlive::start();
    let server = outlive.server_pid();
    let id = outlive.start_process(json!({
        "command": "cat", "timeoutMs": MAX, "retainMs": MAX, "killAfterDetachMs": MAX,
        "restart": { "mode": "on-failure", "maxRestarts": u32::MAX, "delayMs": MAX },
    }));
    drop(Socket::connect(outlive.http(), &id, &format!("tail={MAX}"), true));
    let exited = outlive.start_shell("echo x");
    outlive.wait_exit(&exited);
    let epoch = outlive.get("/v1/health").json["bootId"].as_str().unwrap().to_owned();
    let last = format!("{epoch}-{MAX}");
    let open = outlive.http().open("GET", "/v1/events", &[("last-event-id", &last)], None).unwrap();
    assert_eq!(harness::http::EventStream::new(open).next().map(|event| event.name), Some("reset".into()));
    let get = |path: String| outlive.get(&path);
    assert_eq!(
        get(format!("/v1/processes/{exited}/logs?tail={MAX}")).json["entries"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(get(format!("/v1/processes/{exited}/logs?since={MAX}")).json["entries"], json!([]));
    assert_problem(&get(format!("/v1/processes/{exited}/output?from={MAX}")), 400, "invalid_value", "from");
    assert_eq!(get(format!("/v1/processes/{exited}/output?to={MAX}")).body, b"x\n");
    let wait = |body: Value| outlive.post(&format!("/v1/processes/{exited}/wait"), &body);
    assert_eq!(wait(json!({ "timeoutMs": MAX })).json["outcome"], "exited");
    assert_eq!(wait(json!({ "for": "silence", "silenceMs": MAX, "timeoutMs": MAX })).json["outcome"], "exited");
    assert_eq!(
        wait(json!({ "for": "output", "pattern": "x", "from": MAX, "timeoutMs": MAX })).json["outcome"],
        "exited"
    );
    let run = outlive.post(
        "/v1/processes/run",
        &json!({
            "command": "true", "timeoutMs": MAX, "yieldMs": MAX, "maxOutputBytes": MAX, "onTimeout": "detach",
        }),
    );
    assert_eq!(run.json["exitCode"], 0, "{}", run.text());
    let stop = outlive.http().send("POST", &format!("/v1/processes/{id}/stop?graceMs={MAX}&waitMs={MAX}"), &[], None);
    assert_eq!((stop.status, stop.json["status"].as_str()), (200, Some("exited")), "{}", stop.text());
    assert_eq!(outlive.server_pid(), server);
}
