//! Tickets with several uses or a long lifetime: who may issue, list and revoke them, and what survives the server.

use serde_json::{Value, json};

use crate::harness::http::Response;
use crate::harness::socket::Socket;
use crate::harness::{Outlive, Setup, eventually};

const HOUR_MS: u64 = 3_600_000;

struct Fixture {
    outlive: Outlive,
    id: String,
}

impl Fixture {
    fn new() -> Self {
        let outlive = Outlive::start_with(Setup { token: Some("the-admin".into()), ..Setup::default() });
        let id = outlive.start_shell("cat");
        Self { outlive, id }
    }

    fn issue_token(&self, name: &str, scope: &str) -> String {
        let response = self.outlive.post("/v1/tokens", &json!({ "name": name, "scope": scope }));
        response.json["token"].as_str().unwrap().to_owned()
    }

    fn send(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Response {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        self.outlive.http().send(method, path, &headers, body.map(Value::to_string).as_deref().map(str::as_bytes))
    }

    fn issue(&self, token: &str, role: &str, extra: &Value) -> Response {
        let mut body = json!({ "processId": self.id, "role": role });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        self.send(token, "POST", "/v1/tickets", Some(&body))
    }

    fn list(&self, token: &str) -> Vec<Value> {
        self.send(token, "GET", "/v1/tickets", None).json["tickets"].as_array().unwrap().clone()
    }

    fn revoke(&self, token: &str, id: &str) -> u16 {
        self.send(token, "DELETE", &format!("/v1/tickets/{id}"), None).status
    }

    fn is_admitted(&self, ticket: &str) -> bool {
        Socket::try_connect(self.outlive.http(), &self.id, &format!("ticket={ticket}"), true).is_ok()
    }
}

fn secret(response: &Response) -> String {
    response.json["ticket"].as_str().unwrap_or_else(|| panic!("{}", response.text())).to_owned()
}

#[test]
fn a_ticket_can_be_used_several_times() {
    let fixture = Fixture::new();
    let issued = fixture.issue("the-admin", "viewer", &json!({ "uses": 2, "ttlMs": HOUR_MS }));
    assert_eq!((issued.json["uses"].as_u64(), issued.json["expiresInMs"].as_u64()), (Some(2), Some(HOUR_MS)));
    let ticket = secret(&issued);
    assert!(fixture.is_admitted(&ticket));
    assert_eq!(fixture.list("the-admin")[0]["usesLeft"], 1);
    assert!(fixture.is_admitted(&ticket) && !fixture.is_admitted(&ticket));
    assert!(fixture.list("the-admin").is_empty());
}

#[test]
fn a_ticket_expires_after_its_lifetime() {
    let fixture = Fixture::new();
    let ticket = secret(&fixture.issue("the-admin", "viewer", &json!({ "uses": 1000, "ttlMs": 1 })));
    eventually("the ticket expires", || fixture.list("the-admin").is_empty().then_some(()));
    assert!(!fixture.is_admitted(&ticket));
}

#[test]
fn a_long_lived_ticket_of_a_writer_needs_an_admin() {
    let fixture = Fixture::new();
    let (read, write) = (fixture.issue_token("eye", "read"), fixture.issue_token("hand", "write"));
    for extra in [json!({ "uses": 2 }), json!({ "ttlMs": 60_001 })] {
        let refused = fixture.issue(&write, "writer", &extra);
        assert_eq!((refused.status, refused.code()), (403, "scope_insufficient"), "{extra}");
        assert_eq!(refused.json["expected"], "admin");
        assert_eq!(fixture.issue("the-admin", "writer", &extra).status, 200, "{extra}");
        assert_eq!(fixture.issue(&read, "viewer", &extra).status, 200, "{extra}");
    }
    assert_eq!(fixture.issue(&write, "writer", &json!({ "uses": 1, "ttlMs": 60_000 })).status, 200);
}

#[test]
fn lifetime_and_uses_are_bounded() {
    let fixture = Fixture::new();
    for (field, value) in [("ttlMs", 0), ("ttlMs", 7 * 24 * HOUR_MS + 1), ("uses", 0), ("uses", 1_001)] {
        let refused = fixture.issue("the-admin", "viewer", &json!({ field: value }));
        assert_eq!((refused.status, refused.code()), (400, "invalid_value"), "{field} {value}");
        assert_eq!(refused.json["field"], field);
    }
    let largest = json!({ "ttlMs": 7 * 24 * HOUR_MS, "uses": 1_000 });
    assert_eq!(fixture.issue("the-admin", "viewer", &largest).status, 200);
}

#[test]
fn clients_list_and_revoke_their_own_tickets_and_an_admin_all() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.issue_token("one", "read"), fixture.issue_token("other", "read"));
    let issued = fixture.issue(&one, "viewer", &json!({ "uses": 5, "ttlMs": HOUR_MS }));
    let id = issued.json["id"].as_str().unwrap();
    let listed = fixture.send(&one, "GET", "/v1/tickets", None);
    assert!(!listed.text().contains(&secret(&issued)) && !listed.text().contains("igest"), "{}", listed.text());
    let mut ticket = listed.json["tickets"][0].clone();
    let expires_at_ms = ticket.as_object_mut().unwrap().remove("expiresAtMs").unwrap().as_u64().unwrap();
    assert_eq!(
        ticket,
        json!({ "id": id, "processId": fixture.id, "role": "viewer", "usesLeft": 5, "issuedBy": "one" })
    );
    let now_ms = fixture.outlive.get("/v1/health").json["nowMs"].as_u64().unwrap();
    assert!((now_ms..=now_ms + HOUR_MS).contains(&expires_at_ms));
    assert_eq!((fixture.list(&other).len(), fixture.list("the-admin").len()), (0, 1));
    assert_eq!(fixture.revoke(&other, id), 404, "a ticket of another client is not revealed");
    assert!(fixture.is_admitted(&secret(&issued)));
    assert_eq!((fixture.revoke(&one, id), fixture.revoke(&one, id)), (204, 404));
    assert!(!fixture.is_admitted(&secret(&issued)));
    let issued = fixture.issue(&one, "viewer", &json!({}));
    assert_eq!(fixture.revoke("the-admin", issued.json["id"].as_str().unwrap()), 204);
    assert!(!fixture.is_admitted(&secret(&issued)));
}

#[test]
fn revoking_a_ticket_keeps_open_sockets() {
    let fixture = Fixture::new();
    let issued = fixture.issue("the-admin", "viewer", &json!({ "uses": 5 }));
    let query = format!("ticket={}", secret(&issued));
    let mut socket = Socket::connect(fixture.outlive.http(), &fixture.id, &query, true);
    assert_eq!(fixture.revoke("the-admin", issued.json["id"].as_str().unwrap()), 204);
    let input = json!({ "data": "still here\n", "encoding": "utf8" });
    fixture.outlive.post(&format!("/v1/processes/{}/input", fixture.id), &input);
    socket.read_until("still here");
}

#[test]
fn long_lived_tickets_survive_the_server_with_their_uses() {
    let fixture = Fixture::new();
    let issue = |uses: u32| fixture.issue("the-admin", "viewer", &json!({ "uses": uses, "ttlMs": HOUR_MS }));
    let (kept, used_up, revoked) = (issue(3), issue(1), issue(3));
    let short = fixture.issue("the-admin", "viewer", &json!({}));
    assert!(fixture.is_admitted(&secret(&kept)) && fixture.is_admitted(&secret(&used_up)));
    assert_eq!(fixture.revoke("the-admin", revoked.json["id"].as_str().unwrap()), 204);
    fixture.outlive.kill_server();
    let listed = fixture.list("the-admin");
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0]["id"], &listed[0]["usesLeft"]), (&kept.json["id"], &json!(2)));
    for ended in [&used_up, &revoked, &short] {
        assert!(!fixture.is_admitted(&secret(ended)));
    }
    assert!(fixture.is_admitted(&secret(&kept)));
    fixture.outlive.kill_server();
    assert!(fixture.is_admitted(&secret(&kept)) && !fixture.is_admitted(&secret(&kept)));
    fixture.outlive.kill_server();
    assert!(!fixture.is_admitted(&secret(&kept)));
}

#[test]
fn a_long_lived_ticket_ends_with_its_token_and_with_its_process() {
    let fixture = Fixture::new();
    let guest = fixture.issue_token("guest", "read");
    let ticket = secret(&fixture.issue(&guest, "viewer", &json!({ "uses": 100, "ttlMs": HOUR_MS })));
    assert!(fixture.is_admitted(&ticket));
    assert_eq!(fixture.outlive.delete("/v1/tokens/guest").status, 204);
    assert!(!fixture.is_admitted(&ticket) && fixture.list("the-admin").is_empty());
    fixture.outlive.kill_server();
    assert!(!fixture.is_admitted(&ticket), "also for the next server");
    fixture.issue("the-admin", "viewer", &json!({ "ttlMs": HOUR_MS }));
    assert_eq!(fixture.outlive.delete(&format!("/v1/processes/{}?force=true", fixture.id)).status, 204);
    assert!(fixture.list("the-admin").is_empty());
}
