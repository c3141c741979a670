//! Tickets: one process, one role, once.

use serde_json::json;

use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, Setup};

fn outlive() -> Outlive {
    Outlive::with(Setup { token: Some("the-admin".into()), ..Setup::default() })
}

#[test]
fn a_ticket_is_for_one_process_and_one_use() {
    let outlive = outlive();
    let (mine, other) = (outlive.shell("cat"), outlive.shell("cat"));
    let issue = || {
        let answer = outlive.post("/v1/tickets", &json!({ "processId": mine, "role": "viewer" }));
        assert_eq!((answer.json["role"].as_str(), answer.json["expiresInMs"].as_u64()), (Some("viewer"), Some(60_000)));
        answer.json["ticket"].as_str().unwrap().to_owned()
    };
    let attach = |id: &str, ticket: &str| Socket::try_connect(outlive.http(), id, &format!("ticket={ticket}"), true);
    let ticket = issue();
    assert_eq!(attach(&mine, &ticket).unwrap().ready["role"], "viewer");
    assert!(attach(&mine, &ticket).is_err(), "used");
    let ticket = issue();
    assert!(attach(&other, &ticket).is_err(), "for another process");
    assert!(attach(&mine, &ticket).is_err(), "used by the wrong try too");
}

#[test]
fn a_viewers_ticket_types_nothing() {
    let outlive = outlive();
    let id = outlive.shell("cat");
    let answer = outlive.post("/v1/tickets", &json!({ "processId": id, "role": "viewer" }));
    let ticket = answer.json["ticket"].as_str().unwrap();
    let mut socket = Socket::connect(outlive.http(), &id, &format!("ticket={ticket}"), true);
    socket.type_text("hello");
    let Frame::Control(error) = socket.next() else { panic!("expected an error frame") };
    assert_eq!(error["type"], "error", "{error}");
    assert_eq!(outlive.info(&id)["outputEnd"], 0);
}

#[test]
fn who_may_only_look_gives_only_viewers_tickets() {
    let mut outlive = outlive();
    let id = outlive.shell("cat");
    let read = outlive.post("/v1/tokens", &json!({ "name": "eye", "scope": "read" }));
    outlive.use_token(read.json["token"].as_str().unwrap());
    let ask = |role: &str| outlive.post("/v1/tickets", &json!({ "processId": id, "role": role }));
    assert_eq!(ask("viewer").status, 200);
    assert_eq!((ask("writer").status, ask("writer").code().to_owned()), (403, "scope_insufficient".to_owned()));
    assert_eq!(outlive.post("/v1/tickets", &json!({ "processId": "nobody" })).status, 404);
}

#[test]
fn a_ticket_outlived_its_token() {
    let outlive = outlive();
    let id = outlive.shell("cat");
    let given = outlive.post("/v1/tokens", &json!({ "name": "guest", "scope": "write" })).json;
    let bearer = format!("Bearer {}", given["token"].as_str().unwrap());
    let body = json!({ "processId": id, "role": "writer" }).to_string();
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let answer = outlive.http().send("POST", "/v1/tickets", &headers, Some(body.as_bytes()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let ticket = answer.json["ticket"].as_str().unwrap().to_owned();
    assert_eq!(outlive.delete("/v1/tokens/guest").status, 204);
    assert!(Socket::try_connect(outlive.http(), &id, &format!("ticket={ticket}"), true).is_err());
}

/// By a row of lossless viewers.
#[test]
fn who_may_only_look_held_a_program_up() {
    let outlive = outlive();
    let id = outlive.shell("cat");
    let given = outlive.post("/v1/tokens", &json!({ "name": "eye", "scope": "read" })).json;
    let token = given["token"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {token}");
    let output = |flow: &str| {
        let path = format!("/v1/processes/{id}/output{flow}");
        outlive.http().send("GET", &path, &[("authorization", &bearer)], None)
    };
    assert_eq!((output("").status, output("?flow=live").status), (200, 200));
    assert_eq!((output("?flow=lossless").status, output("?flow=lossless").code()), (403, "scope_insufficient"));
    let query = |flow: &str| format!("role=viewer{flow}&access_token={token}");
    assert!(Socket::try_connect(outlive.http(), &id, &query("&flow=lossless"), true).is_err());
    assert!(Socket::try_connect(outlive.http(), &id, &query(""), true).is_ok());
}
