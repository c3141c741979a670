//! The largest numbers that a field can take.

use serde_json::{Value, json};

use crate::harness::socket::Socket;
use crate::harness::{self, Outlive};
use crate::problem::assert_problem;

#[test]
fn the_largest_numbers_do_no_harm() {
    const MOST: u64 = u64::MAX;
    let outlive = Outlive::start();
    let server = outlive.server_pid();
    let id = outlive.start_process(json!({
        "command": "cat", "timeoutMs": MOST, "retainMs": MOST, "killAfterDetachMs": MOST,
        "restart": { "mode": "on-failure", "maxRestarts": u32::MAX, "delayMs": MOST },
    }));
    drop(Socket::connect(outlive.http(), &id, &format!("tail={MOST}"), true));
    let over = outlive.shell("echo x");
    outlive.wait_exit(&over);
    let epoch = outlive.get("/v1/health").json["bootId"].as_str().unwrap().to_owned();
    let last = format!("{epoch}-{MOST}");
    let open = outlive.http().open("GET", "/v1/events", &[("last-event-id", &last)], None).unwrap();
    assert_eq!(harness::http::Events::new(open).next().map(|event| event.name), Some("reset".into()));
    let get = |path: String| outlive.get(&path);
    assert_eq!(get(format!("/v1/processes/{over}/logs?tail={MOST}")).json["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(get(format!("/v1/processes/{over}/logs?since={MOST}")).json["entries"], json!([]));
    assert_problem(&get(format!("/v1/processes/{over}/output?from={MOST}")), 400, "invalid_value", "from");
    assert_eq!(get(format!("/v1/processes/{over}/output?to={MOST}")).body, b"x\n");
    let wait = |body: Value| outlive.post(&format!("/v1/processes/{over}/wait"), &body);
    assert_eq!(wait(json!({ "timeoutMs": MOST })).json["outcome"], "exited");
    assert_eq!(wait(json!({ "for": "silence", "silenceMs": MOST, "timeoutMs": MOST })).json["outcome"], "exited");
    assert_eq!(
        wait(json!({ "for": "output", "pattern": "x", "from": MOST, "timeoutMs": MOST })).json["outcome"],
        "exited"
    );
    let run = outlive.post(
        "/v1/processes/run",
        &json!({
            "command": "true", "timeoutMs": MOST, "yieldMs": MOST, "maxOutputBytes": MOST, "onTimeout": "detach",
        }),
    );
    assert_eq!(run.json["exitCode"], 0, "{}", run.text());
    let stop = outlive.http().send("POST", &format!("/v1/processes/{id}/stop?graceMs={MOST}&waitMs={MOST}"), &[], None);
    assert_eq!((stop.status, stop.json["status"].as_str()), (200, Some("exited")), "{}", stop.text());
    assert_eq!(outlive.server_pid(), server);
}
