//! Tickets: each opens one process with one role once.

use serde_json::json;

use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, Setup};

fn start_with_token() -> Outlive {
    Outlive::start_with(Setup { token: Some("the-admin".into()), ..Setup::default() })
}

#[test]
fn a_ticket_is_for_one_process_and_one_use() {
    let outlive = start_with_token();
    let (mine, other) = (outlive.start_shell("cat"), outlive.start_shell("cat"));
    let issue = || {
        let response = outlive.post("/v1/tickets", &json!({ "processId": mine, "role": "viewer" }));
        assert_eq!(
            (response.json["role"].as_str(), response.json["expiresInMs"].as_u64()),
            (Some("viewer"), Some(60_000))
        );
        response.json["ticket"].as_str().unwrap().to_owned()
    };
    let attach = |id: &str, ticket: &str| Socket::try_connect(outlive.http(), id, &format!("ticket={ticket}"), true);
    let ticket = issue();
    assert_eq!(attach(&mine, &ticket).unwrap().ready["role"], "viewer");
    assert!(attach(&mine, &ticket).is_err(), "used");
    let ticket = issue();
    assert!(attach(&other, &ticket).is_err(), "the ticket is for another process");
    assert!(attach(&mine, &ticket).is_err(), "the failed attempt used the ticket");
}

#[test]
fn a_viewers_ticket_cannot_type() {
    let outlive = start_with_token();
    let id = outlive.start_shell("cat");
    let response = outlive.post("/v1/tickets", &json!({ "processId": id, "role": "viewer" }));
    let ticket = response.json["ticket"].as_str().unwrap();
    let mut socket = Socket::connect(outlive.http(), &id, &format!("ticket={ticket}"), true);
    socket.type_text("hello");
    let Frame::Control(error) = socket.next() else { panic!("expected an error frame") };
    assert_eq!(error["type"], "error", "{error}");
    assert_eq!(outlive.info(&id)["outputEnd"], 0);
}

#[test]
fn a_read_token_issues_only_viewers_tickets() {
    let mut outlive = start_with_token();
    let id = outlive.start_shell("cat");
    let read = outlive.post("/v1/tokens", &json!({ "name": "eye", "scope": "read" }));
    outlive.use_token(read.json["token"].as_str().unwrap());
    let issue = |role: &str| outlive.post("/v1/tickets", &json!({ "processId": id, "role": role }));
    assert_eq!(issue("viewer").status, 200);
    assert_eq!((issue("writer").status, issue("writer").code().to_owned()), (403, "scope_insufficient".to_owned()));
    assert_eq!(outlive.post("/v1/tickets", &json!({ "processId": "unknown" })).status, 404);
}

// Regression: a ticket was still valid after its token had been revoked.
#[test]
fn a_ticket_ends_with_its_token() {
    let outlive = start_with_token();
    let id = outlive.start_shell("cat");
    let issued = outlive.post("/v1/tokens", &json!({ "name": "guest", "scope": "write" })).json;
    let bearer = format!("Bearer {}", issued["token"].as_str().unwrap());
    let body = json!({ "processId": id, "role": "writer" }).to_string();
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let response = outlive.http().send("POST", "/v1/tickets", &headers, Some(body.as_bytes()));
    assert_eq!(response.status, 200, "{}", response.text());
    let ticket = response.json["ticket"].as_str().unwrap().to_owned();
    assert_eq!(outlive.delete("/v1/tokens/guest").status, 204);
    assert!(Socket::try_connect(outlive.http(), &id, &format!("ticket={ticket}"), true).is_err());
}

// Regression: with a read token, lossless viewers could slow a program down.
#[test]
fn a_read_token_cannot_open_lossless_readers() {
    let outlive = start_with_token();
    let id = outlive.start_shell("cat");
    let issued = outlive.post("/v1/tokens", &json!({ "name": "eye", "scope": "read" })).json;
    let token = issued["token"].as_str().unwrap().to_owned();
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
