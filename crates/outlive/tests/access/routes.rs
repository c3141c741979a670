//! Every route with every credential. The routes come from the server itself; what each is meant to ask for stands here,
//! so a new route fails this test until somebody has said who may use it.

use serde_json::{Value, json};

use crate::harness::http::Answer;
use crate::harness::{Outlive, Setup};

const OPEN: &str = "open";
const ATTACH: &str = "attach";

#[rustfmt::skip]
const MEANT: &[(&str, &str, &str)] = &[
    ("get", "/", OPEN),
    ("get", "/docs", OPEN),
    ("get", "/ui", OPEN),
    ("get", "/ui/app.css", OPEN),
    ("get", "/ui/app.js", OPEN),
    ("get", "/healthz", OPEN),
    ("get", "/v1/openapi.json", OPEN),
    ("get", "/metrics", "read"),
    ("get", "/v1/health", "read"),
    ("get", "/v1/dialects", "read"),
    ("get", "/v1/machine", "read"),
    ("get", "/v1/events", "read"),
    ("get", "/v1/config", "read"),
    ("post", "/v1/config", "admin"),
    ("get", "/v1/processes/config", "read"),
    ("post", "/v1/processes/config", "admin"),
    ("post", "/v1/upgrade", "admin"),
    ("get", "/v1/tokens", "admin"),
    ("post", "/v1/tokens", "admin"),
    ("delete", "/v1/tokens/{name}", "admin"),
    // A viewer's. A writer's ticket needs more, which tickets.rs shows.
    ("post", "/v1/tickets", "read"),
    ("get", "/v1/processes", "read"),
    ("post", "/v1/processes", "write"),
    ("post", "/v1/processes/run", "write"),
    ("get", "/v1/processes/{id}", "read"),
    ("patch", "/v1/processes/{id}", "write"),
    ("delete", "/v1/processes/{id}", "write"),
    ("post", "/v1/processes/{id}/start", "write"),
    ("post", "/v1/processes/{id}/restart", "write"),
    ("post", "/v1/processes/{id}/stop", "write"),
    ("post", "/v1/processes/{id}/kill", "write"),
    ("post", "/v1/processes/{id}/signal", "write"),
    ("post", "/v1/processes/{id}/wait", "read"),
    ("post", "/v1/wait", "write"),
    ("post", "/v1/processes/{id}/input", "write"),
    ("post", "/v1/processes/{id}/stdin/close", "write"),
    ("post", "/v1/processes/{id}/resize", "write"),
    ("post", "/v1/processes/{id}/terminal/resize", "write"),
    ("get", "/v1/processes/{id}/logs", "read"),
    ("get", "/v1/processes/{id}/output", "read"),
    ("get", "/v1/processes/{id}/recording", "read"),
    ("get", "/v1/processes/{id}/screen", "read"),
    ("get", "/v1/processes/{id}/attachments", "read"),
    ("get", "/v1/processes/{id}/tree", "read"),
    ("get", "/v1/context", "read"),
    ("get", "/v1/sessions", "read"),
    ("post", "/v1/sessions", "write"),
    ("get", "/v1/sessions/{id}", "read"),
    ("delete", "/v1/sessions/{id}", "write"),
    ("post", "/v1/sessions/{id}/exec", "write"),
    ("post", "/v1/sessions/{id}/processes", "write"),
    ("get", "/v1/sessions/{id}/execs", "read"),
    ("get", "/v1/sessions/{id}/execs/{execId}", "read"),
    ("get", "/v1/sessions/{id}/execs/{execId}/output", "read"),
    ("post", "/v1/sessions/{id}/execs/{execId}/cancel", "write"),
    ("get", "/v1/processes/{id}/connect", ATTACH),
    ("get", "/v1/processes/{id}/terminal/ws", ATTACH),
];

/// A dialect's routes, and by which header its clients show a token.
struct Spoken {
    name: &'static str,
    header: &'static str,
    routes: &'static [(&'static str, &'static str, &'static str)],
}

#[rustfmt::skip]
const DIALECTS: &[Spoken] = &[
    Spoken { name: "e2b", header: "x-access-token", routes: &[
        ("get", "/health", OPEN),
        ("get", "/metrics", "read"),
        ("get", "/envs", "read"),
        ("post", "/init", "admin"),
        ("post", "/process.Process/List", "read"),
        ("post", "/process.Process/Connect", "read"),
        ("post", "/process.Process/Start", "write"),
        ("post", "/process.Process/Update", "write"),
        ("post", "/process.Process/SendInput", "write"),
        ("post", "/process.Process/StreamInput", "write"),
        ("post", "/process.Process/CloseStdin", "write"),
        ("post", "/process.Process/SendSignal", "write"),
    ] },
    Spoken { name: "opencode", header: "authorization", routes: &[
        ("get", "/pty/shells", "read"),
        ("get", "/pty", "read"),
        ("post", "/pty", "write"),
        ("get", "/pty/{id}", "read"),
        ("put", "/pty/{id}", "write"),
        ("delete", "/pty/{id}", "write"),
        ("post", "/pty/{id}/connect-token", "write"),
        ("get", "/pty/{id}/connect", ATTACH),
        ("get", "/api/pty", "read"),
        ("post", "/api/pty", "write"),
        ("get", "/api/pty/{id}", "read"),
        ("put", "/api/pty/{id}", "write"),
        ("delete", "/api/pty/{id}", "write"),
        ("post", "/api/pty/{id}/connect-token", "write"),
        ("get", "/api/pty/{id}/connect", ATTACH),
        ("get", "/event", "read"),
        ("get", "/global/event", "read"),
        ("get", "/api/event", "read"),
        ("get", "/session", "read"),
        ("post", "/session", "write"),
        ("get", "/session/status", "read"),
        ("get", "/session/{id}", "read"),
        ("patch", "/session/{id}", "write"),
        ("delete", "/session/{id}", "write"),
        ("get", "/session/{id}/children", "read"),
        ("get", "/session/{id}/todo", "read"),
        ("get", "/session/{id}/diff", "read"),
        ("get", "/session/{id}/message", "read"),
        ("get", "/session/{id}/message/{messageID}", "read"),
        ("post", "/session/{id}/shell", "write"),
        ("post", "/session/{id}/command", "write"),
        ("post", "/session/{id}/abort", "write"),
        ("get", "/global/health", "read"),
        ("get", "/api/health", "read"),
        ("get", "/api/location", "read"),
        ("get", "/doc", "read"),
        ("get", "/path", "read"),
        ("get", "/project", "read"),
        ("get", "/project/current", "read"),
        ("get", "/config", "read"),
        ("get", "/global/config", "read"),
        ("get", "/config/providers", "read"),
        ("get", "/provider", "read"),
        ("get", "/provider/auth", "read"),
        ("get", "/agent", "read"),
        ("get", "/command", "read"),
        ("get", "/mcp", "read"),
        ("get", "/vcs", "read"),
        ("get", "/lsp", "read"),
        ("get", "/formatter", "read"),
        ("get", "/skill", "read"),
        ("get", "/permission", "read"),
        ("get", "/question", "read"),
    ] },
    Spoken { name: "opensandbox", header: "x-execd-access-token", routes: &[
        ("get", "/ping", "read"),
        ("get", "/metrics", "read"),
        ("get", "/metrics/watch", "read"),
        ("post", "/command", "write"),
        ("get", "/command", ATTACH),
        ("delete", "/command", "write"),
        ("get", "/command/status/{id}", "read"),
        ("get", "/command/{id}/logs", "read"),
        ("get", "/command/{id}/resume", "read"),
        ("post", "/session", "write"),
        ("delete", "/session/{id}", "write"),
        ("post", "/session/{id}/run", "write"),
        ("post", "/pty", "write"),
        ("get", "/pty/{id}", "read"),
        ("delete", "/pty/{id}", "write"),
        ("get", "/pty/{id}/ws", ATTACH),
        ("get", "/terminal", ATTACH),
        ("get", "/v1/sandboxes/{sandbox}/proxy/{port}/terminal", ATTACH),
        ("get", "/v1/sandboxes/{sandbox}/endpoints/{port}", "read"),
        ("get", "/v1/isolated/capabilities", "read"),
        ("post", "/v1/isolated/session", "write"),
        ("get", "/v1/isolated/sessions", "read"),
        ("post", "/code", "write"),
        ("delete", "/code", "write"),
        ("post", "/code/context", "write"),
        ("get", "/code/contexts", "read"),
    ] },
    Spoken { name: "cloudflare", header: "x-outlive-token", routes: &[
        ("get", "/", OPEN),
        ("get", "/api/ping", "read"),
        ("get", "/api/version", "read"),
        ("post", "/api/session/create", "write"),
        ("get", "/api/session/list", "read"),
        ("post", "/api/session/delete", "write"),
        ("post", "/api/execute", "write"),
        ("post", "/api/execute/stream", "write"),
        ("post", "/api/process/start", "write"),
        ("get", "/api/process/list", "read"),
        ("delete", "/api/process/kill-all", "write"),
        ("get", "/api/process/{id}", "read"),
        ("delete", "/api/process/{id}", "write"),
        ("get", "/api/process/{id}/logs", "read"),
        ("get", "/api/process/{id}/stream", "read"),
        ("post", "/api/port-watch", "write"),
        ("get", "/ws", ATTACH),
        ("get", "/api/ws", ATTACH),
        ("get", "/ws/pty", ATTACH),
        ("get", "/health", OPEN),
        ("get", "/v1/openapi.json", OPEN),
        ("get", "/v1/openapi", OPEN),
        ("get", "/v1/openapi.html", OPEN),
        ("post", "/v1/sandbox", "write"),
        ("delete", "/v1/sandbox/{id}", "write"),
        ("get", "/v1/sandbox/{id}/running", "read"),
        ("post", "/v1/sandbox/{id}/exec", "write"),
        ("post", "/v1/sandbox/{id}/session", "write"),
        ("delete", "/v1/sandbox/{id}/session/{sid}", "write"),
        ("get", "/v1/sandbox/{id}/pty", ATTACH),
        ("get", "/v1/sandbox/{id}/file/{*path}", "write"),
        ("put", "/v1/sandbox/{id}/file/{*path}", "write"),
        ("post", "/v1/sandbox/{id}/persist", "write"),
        ("post", "/v1/sandbox/{id}/hydrate", "write"),
        ("post", "/v1/sandbox/{id}/mount", "write"),
        ("post", "/v1/sandbox/{id}/unmount", "write"),
        ("post", "/v1/sandbox/{id}/tunnel/{port}", "write"),
        ("delete", "/v1/sandbox/{id}/tunnel/{port}", "write"),
        ("get", "/v1/pool/{*rest}", "read"),
        ("post", "/v1/pool/{*rest}", "write"),
    ] },
];

const UPGRADE: &[(&str, &str)] = &[
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
];

struct World {
    outlive: Outlive,
    /// A terminal that runs.
    id: String,
}

impl World {
    fn new() -> Self {
        let outlive = Outlive::with(Setup { token: Some("the-admin".into()), ..Setup::default() });
        let id = outlive.start_process(json!({ "command": "cat", "tty": true }));
        Self { outlive, id }
    }

    fn token(&self, scope: &str) -> String {
        let answer = self.outlive.post("/v1/tokens", &json!({ "name": scope, "scope": scope }));
        answer.json["token"].as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
    }

    fn ticket(&self, role: &str) -> String {
        let answer = self.outlive.post("/v1/tickets", &json!({ "processId": self.id, "role": role }));
        answer.json["ticket"].as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
    }

    /// Only the head of the answer counts: some go on for ever.
    fn call(&self, method: &str, path: &str, credential: &Credential, upgrade: bool, role: Option<&str>) -> Answer {
        // An id that nobody has: whoever is let in changes nothing. Sockets are opened for real.
        let id = if upgrade { self.id.as_str() } else { "proc_of_nobody" };
        let mut path = path.replace("{id}", id).replace("{name}", "nobody");
        let mut query: Vec<String> = role.map(|role| format!("role={role}")).into_iter().collect();
        let bearer;
        // OpenCode gives tickets only to those who can send a header of their own, whoever they are.
        let mut headers = vec![("x-opencode-ticket", "1")];
        if upgrade {
            headers.extend_from_slice(UPGRADE);
        }
        match credential {
            Credential::None => {}
            Credential::Bearer(token) => {
                bearer = format!("Bearer {token}");
                headers.push(("authorization", bearer.as_str()));
            }
            Credential::Header(name, token) => headers.push((name, token.as_str())),
            Credential::InQuery(name, secret) => query.push(format!("{name}={secret}")),
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let body = matches!(method, "post" | "patch").then(|| {
            headers.push(("content-type", "application/json"));
            &b"{\"no such field\": true}"[..]
        });
        let open = self.outlive.http().open(&method.to_uppercase(), &path, &headers, body);
        let mut open = open.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let is_problem = open.header("content-type") == Some("application/problem+json");
        let mut body = Vec::new();
        if is_problem {
            std::io::Read::read_to_end(&mut open, &mut body).unwrap();
        }
        let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Answer { status: open.status, headers: open.headers, body, json }
    }
}

enum Credential {
    None,
    Bearer(String),
    Header(&'static str, String),
    InQuery(&'static str, String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Met {
    LetIn,
    Unknown,
    Forbidden,
}

fn met(answer: &Answer) -> Met {
    match (answer.status, answer.code()) {
        (401, "token_invalid" | "ticket_invalid") => {
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            Met::Unknown
        }
        (403, "scope_insufficient" | "ticket_for_another") => Met::Forbidden,
        (401 | 403 | 429, code) => panic!("an odd refusal: {} {code}", answer.status),
        _ => Met::LetIn,
    }
}

fn routes(outlive: &Outlive) -> Vec<(String, String)> {
    let document = outlive.get("/v1/openapi.json").json;
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            all.push((method.clone(), path.clone()));
        }
    }
    all
}

#[test]
fn every_route_asks_for_what_it_is_meant_to() {
    let world = World::new();
    let routes = routes(&world.outlive);
    for (method, path, _) in MEANT {
        assert!(routes.contains(&((*method).to_owned(), (*path).to_owned())), "{method} {path} is gone");
    }
    let (read, write, admin) = (world.token("read"), world.token("write"), world.token("admin"));
    let tokens = [("read", &read), ("write", &write), ("admin", &admin)];
    for (method, path) in &routes {
        let meant = MEANT.iter().find(|(known, at, _)| known == method && at == path);
        let (_, _, meant) = meant.unwrap_or_else(|| panic!("who may {method} {path}? say it in this test"));
        let see = |credential: Credential| met(&world.call(method, path, &credential, false, None));
        let what = format!("{method} {path}");
        let stranger = if *meant == OPEN { Met::LetIn } else { Met::Unknown };
        assert_eq!(see(Credential::None), stranger, "{what} with nothing");
        assert_eq!(see(Credential::Bearer("wrong".into())), stranger, "{what} with a wrong token");
        assert_eq!(see(Credential::Bearer(String::new())), stranger, "{what} with an empty token");
        assert_eq!(
            see(Credential::InQuery("access_token", admin.clone())),
            stranger,
            "{what} with a token in the query"
        );
        assert_eq!(see(Credential::InQuery("ticket", world.ticket("writer"))), stranger, "{what} with a ticket");
        let order = ["read", "write", "admin"];
        for (scope, token) in tokens {
            let needed = order.iter().position(|known| known == meant).unwrap_or(0);
            let has = order.iter().position(|known| *known == scope).unwrap();
            let expected = if has >= needed { Met::LetIn } else { Met::Forbidden };
            assert_eq!(see(Credential::Bearer(token.clone())), expected, "{what} with {scope}");
        }
    }
}

#[test]
fn sockets_take_tokens_and_tickets_in_the_query_by_role() {
    let world = World::new();
    let (read, write) = (world.token("read"), world.token("write"));
    for path in ["/v1/processes/{id}/connect", "/v1/processes/{id}/terminal/ws"] {
        let is_native = path.ends_with("connect");
        let see = |credential: Credential, role: Option<&str>| {
            let answer = world.call("get", path, &credential, true, role);
            match met(&answer) {
                Met::LetIn => assert_eq!(answer.status, 101, "{path}: {}", answer.text()),
                _ => assert_ne!(answer.status, 101),
            }
            met(&answer)
        };
        let by_query = |token: &str| Credential::InQuery("access_token", token.to_owned());
        assert_eq!(see(Credential::None, None), Met::Unknown);
        assert_eq!(see(by_query("wrong"), None), Met::Unknown);
        for token in [&read, &write] {
            let expected = if token == &write { Met::LetIn } else { Met::Forbidden };
            assert_eq!(see(by_query(token), None), expected, "{path} as a writer");
            assert_eq!(see(Credential::Bearer(token.clone()), None), expected, "{path} as a writer");
        }
        let ticket = |role: &str| Credential::InQuery("ticket", world.ticket(role));
        assert_eq!(see(ticket("writer"), None), Met::LetIn);
        if is_native {
            assert_eq!(see(by_query(&read), Some("viewer")), Met::LetIn);
            assert_eq!(see(ticket("viewer"), None), Met::LetIn, "the ticket's role unless another is asked for");
            assert_eq!(see(ticket("viewer"), Some("viewer")), Met::LetIn);
            assert_eq!(see(ticket("viewer"), Some("writer")), Met::Forbidden);
        } else {
            assert_eq!(see(ticket("viewer"), None), Met::Forbidden, "this socket always types");
        }
    }
}

/// A dialect refuses in words of its own, so only the status tells.
fn met_in_dialect(answer: &Answer) -> Met {
    match answer.status {
        401 => Met::Unknown,
        403 => Met::Forbidden,
        429 => panic!("an odd refusal"),
        _ => Met::LetIn,
    }
}

#[test]
fn every_route_of_a_dialect_asks_for_what_it_is_meant_to() {
    let world = World::new();
    let (read, write, admin) = (world.token("read"), world.token("write"), world.token("admin"));
    let order = ["read", "write", "admin"];
    let listed = world.outlive.get("/v1/dialects").json["dialects"].clone();
    let listed = listed.as_array().unwrap();
    let names: Vec<_> = listed.iter().map(|dialect| dialect["name"].as_str().unwrap()).collect();
    assert_eq!(names, DIALECTS.iter().map(|spoken| spoken.name).collect::<Vec<_>>(), "say it in this test");
    for (dialect, spoken) in listed.iter().zip(DIALECTS) {
        for (method, path, _) in spoken.routes {
            let is_it = |route: &Value| {
                route["path"] == *path && route["method"].as_str().unwrap().eq_ignore_ascii_case(method)
            };
            assert!(dialect["routes"].as_array().unwrap().iter().any(is_it), "{method} {path} is gone");
        }
        for route in dialect["routes"].as_array().unwrap() {
            let (method, path) = (route["method"].as_str().unwrap(), route["path"].as_str().unwrap());
            let method = method.to_lowercase();
            let meant = spoken.routes.iter().find(|(known, at, _)| *known == method && *at == path);
            let (_, _, meant) = meant.unwrap_or_else(|| panic!("who may {method} {path}? say it in this test"));
            assert_eq!(route["scope"], *meant, "{method} {path}");
            let what = format!("{} {method} {path}", spoken.name);
            let at = format!("/{}{path}", spoken.name);
            let see = |credential: Credential| met_in_dialect(&world.call(&method, &at, &credential, false, None));
            let show = |token: &str| match spoken.header {
                "authorization" => Credential::Bearer(token.to_owned()),
                header => Credential::Header(header, token.to_owned()),
            };
            let stranger = if *meant == OPEN { Met::LetIn } else { Met::Unknown };
            assert_eq!(see(Credential::None), stranger, "{what} with nothing");
            assert_eq!(see(show("wrong")), stranger, "{what} with a wrong token");
            assert_eq!(see(show("")), stranger, "{what} with an empty token");
            let in_query = Credential::InQuery("access_token", admin.clone());
            assert_eq!(see(in_query), stranger, "{what} with a token in the query");
            let ticket = Credential::InQuery("ticket", world.ticket("writer"));
            assert_eq!(see(ticket), stranger, "{what} with a ticket");
            for (has, token) in [&read, &write, &admin].into_iter().enumerate() {
                let needed = order.iter().position(|known| known == meant).unwrap_or(0);
                let expected = if has >= needed { Met::LetIn } else { Met::Forbidden };
                assert_eq!(see(show(token)), expected, "{what} with {}", order[has]);
            }
            let evil =
                world.outlive.http().send(&method.to_uppercase(), &at, &[("origin", "https://evil.example")], None);
            assert_eq!(evil.status, 403, "{what} from a page of another origin");
        }
    }
}
