//! Every route with every credential. The routes come from the server itself; the scopes that they require are listed
//! here by hand, so a new route fails this test until its scope is added.

use serde_json::{Value, json};

use crate::harness::http::Response;
use crate::harness::{Outlive, Setup};

const OPEN: &str = "open";
const ATTACH: &str = "attach";

#[rustfmt::skip]
const NATIVE: &[(&str, &str, &str)] = &[
    ("get", "/", OPEN),
    ("get", "/docs", OPEN),
    ("get", "/ui", OPEN),
    ("get", "/ui/", OPEN),
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
    // For a viewer's ticket. tickets.rs tests that a writer's ticket needs `write`.
    ("post", "/v1/tickets", "read"),
    ("get", "/v1/tickets", "read"),
    ("delete", "/v1/tickets/{id}", "read"),
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
    // For what only the history knows, these and `boot` of the list need `admin`: history.rs.
    ("get", "/v1/history", "admin"),
    ("get", "/v1/history/sessions", "admin"),
    ("get", "/v1/history/sessions/{id}/execs", "admin"),
    ("delete", "/v1/history/{id}", "admin"),
    ("post", "/v1/history/gc", "admin"),
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
    // A socket, too, but only for writers.
    ("get", "/v1/sandboxes/{id}/proxy/{port}/terminal", "write"),
    ("get", "/v1/processes/{id}/connect", ATTACH),
    ("get", "/v1/processes/{id}/terminal/ws", ATTACH),
];

/// A dialect's routes, and the header in which its clients send a token.
struct DialectRoutes {
    name: &'static str,
    header: &'static str,
    routes: &'static [(&'static str, &'static str, &'static str)],
}

#[rustfmt::skip]
const DIALECTS: &[DialectRoutes] = &[
    DialectRoutes { name: "e2b", header: "x-access-token", routes: &[
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
    DialectRoutes { name: "opencode", header: "authorization", routes: &[
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
    DialectRoutes { name: "opensandbox", header: "x-execd-access-token", routes: &[
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
    DialectRoutes { name: "cloudflare", header: "x-outlive-token", routes: &[
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

struct RouteFixture {
    outlive: Outlive,
    /// A running terminal.
    id: String,
}

impl RouteFixture {
    fn new() -> Self {
        let outlive = Outlive::start_with(Setup { token: Some("the-admin".into()), ..Setup::default() });
        let id = outlive.start_process(json!({ "command": "cat", "tty": true }));
        Self { outlive, id }
    }

    fn issue_token(&self, scope: &str) -> String {
        let response = self.outlive.post("/v1/tokens", &json!({ "name": scope, "scope": scope }));
        response.json["token"].as_str().unwrap_or_else(|| panic!("{}", response.text())).to_owned()
    }

    fn issue_ticket(&self, role: &str) -> String {
        let response = self.outlive.post("/v1/tickets", &json!({ "processId": self.id, "role": role }));
        response.json["ticket"].as_str().unwrap_or_else(|| panic!("{}", response.text())).to_owned()
    }

    /// Sends a request and reads only the head of the response, because some bodies never end.
    fn send(&self, method: &str, path: &str, credential: &Credential, upgrade: bool, role: Option<&str>) -> Response {
        // An unknown id, so that an allowed request changes nothing. Sockets are really opened.
        let id = if upgrade { self.id.as_str() } else { "proc_unknown" };
        let mut path = path.replace("{id}", id).replace("{name}", "unknown");
        let mut query: Vec<String> = role.map(|role| format!("role={role}")).into_iter().collect();
        let bearer;
        // OpenCode issues tickets only to clients that send this header.
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
        Response { status: open.status, headers: open.headers, body, json }
    }
}

enum Credential {
    None,
    Bearer(String),
    Header(&'static str, String),
    InQuery(&'static str, String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Allowed,
    Unauthenticated,
    Forbidden,
}

fn verdict(response: &Response) -> Verdict {
    match (response.status, response.code()) {
        (401, "token_invalid" | "ticket_invalid") => {
            assert_eq!(response.header("www-authenticate"), Some("Bearer"));
            Verdict::Unauthenticated
        }
        (403, "scope_insufficient" | "ticket_for_another") => Verdict::Forbidden,
        (401 | 403 | 429, code) => panic!("unexpected refusal: {} {code}", response.status),
        _ => Verdict::Allowed,
    }
}

fn list_routes(outlive: &Outlive) -> Vec<(String, String)> {
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
fn every_native_route_requires_its_scope() {
    let fixture = RouteFixture::new();
    let routes = list_routes(&fixture.outlive);
    for (method, path, _) in NATIVE {
        assert!(routes.contains(&((*method).to_owned(), (*path).to_owned())), "{method} {path} is gone");
    }
    let (read, write, admin) =
        (fixture.issue_token("read"), fixture.issue_token("write"), fixture.issue_token("admin"));
    let tokens = [("read", &read), ("write", &write), ("admin", &admin)];
    for (method, path) in &routes {
        let expected = NATIVE.iter().find(|(known, at, _)| known == method && at == path);
        let (_, _, required) = expected.unwrap_or_else(|| panic!("add {method} {path} to this test"));
        let try_with = |credential: Credential| verdict(&fixture.send(method, path, &credential, false, None));
        let what = format!("{method} {path}");
        let without_access = if *required == OPEN { Verdict::Allowed } else { Verdict::Unauthenticated };
        assert_eq!(try_with(Credential::None), without_access, "{what} without a credential");
        assert_eq!(try_with(Credential::Bearer("wrong".into())), without_access, "{what} with a wrong token");
        assert_eq!(try_with(Credential::Bearer(String::new())), without_access, "{what} with an empty token");
        assert_eq!(
            try_with(Credential::InQuery("access_token", admin.clone())),
            without_access,
            "{what} with a token in the query"
        );
        assert_eq!(
            try_with(Credential::InQuery("ticket", fixture.issue_ticket("writer"))),
            without_access,
            "{what} with a ticket"
        );
        let order = ["read", "write", "admin"];
        for (scope, token) in tokens {
            let needed = order.iter().position(|known| known == required).unwrap_or(0);
            let has = order.iter().position(|known| *known == scope).unwrap();
            let expected = if has >= needed { Verdict::Allowed } else { Verdict::Forbidden };
            assert_eq!(try_with(Credential::Bearer(token.clone())), expected, "{what} with {scope}");
        }
    }
}

#[test]
fn sockets_accept_tokens_and_tickets_in_the_query_by_role() {
    let fixture = RouteFixture::new();
    let (read, write) = (fixture.issue_token("read"), fixture.issue_token("write"));
    for path in ["/v1/processes/{id}/connect", "/v1/processes/{id}/terminal/ws"] {
        let is_native = path.ends_with("connect");
        let try_with = |credential: Credential, role: Option<&str>| {
            let response = fixture.send("get", path, &credential, true, role);
            match verdict(&response) {
                Verdict::Allowed => assert_eq!(response.status, 101, "{path}: {}", response.text()),
                _ => assert_ne!(response.status, 101),
            }
            verdict(&response)
        };
        let by_query = |token: &str| Credential::InQuery("access_token", token.to_owned());
        assert_eq!(try_with(Credential::None, None), Verdict::Unauthenticated);
        assert_eq!(try_with(by_query("wrong"), None), Verdict::Unauthenticated);
        for token in [&read, &write] {
            let expected = if token == &write { Verdict::Allowed } else { Verdict::Forbidden };
            assert_eq!(try_with(by_query(token), None), expected, "{path} as a writer");
            assert_eq!(try_with(Credential::Bearer(token.clone()), None), expected, "{path} as a writer");
        }
        let ticket = |role: &str| Credential::InQuery("ticket", fixture.issue_ticket(role));
        assert_eq!(try_with(ticket("writer"), None), Verdict::Allowed);
        if is_native {
            assert_eq!(try_with(by_query(&read), Some("viewer")), Verdict::Allowed);
            assert_eq!(try_with(ticket("viewer"), None), Verdict::Allowed, "the ticket's role is the default");
            assert_eq!(try_with(ticket("viewer"), Some("viewer")), Verdict::Allowed);
            assert_eq!(try_with(ticket("viewer"), Some("writer")), Verdict::Forbidden);
        } else {
            assert_eq!(try_with(ticket("viewer"), None), Verdict::Forbidden, "this socket has no viewer role");
        }
    }
}

/// A dialect refuses in its own error format, so only the status counts.
fn dialect_verdict(response: &Response) -> Verdict {
    match response.status {
        401 => Verdict::Unauthenticated,
        403 => Verdict::Forbidden,
        429 => panic!("unexpected refusal"),
        _ => Verdict::Allowed,
    }
}

#[test]
fn every_dialect_route_requires_its_scope() {
    let fixture = RouteFixture::new();
    let (read, write, admin) =
        (fixture.issue_token("read"), fixture.issue_token("write"), fixture.issue_token("admin"));
    let order = ["read", "write", "admin"];
    let listed = fixture.outlive.get("/v1/dialects").json["dialects"].clone();
    let listed = listed.as_array().unwrap();
    let names: Vec<_> = listed.iter().map(|dialect| dialect["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        DIALECTS.iter().map(|expected| expected.name).collect::<Vec<_>>(),
        "add the dialect to this test"
    );
    for (dialect, expected_dialect) in listed.iter().zip(DIALECTS) {
        for (method, path, _) in expected_dialect.routes {
            let is_same = |route: &Value| {
                route["path"] == *path && route["method"].as_str().unwrap().eq_ignore_ascii_case(method)
            };
            assert!(dialect["routes"].as_array().unwrap().iter().any(is_same), "{method} {path} is gone");
        }
        for route in dialect["routes"].as_array().unwrap() {
            let (method, path) = (route["method"].as_str().unwrap(), route["path"].as_str().unwrap());
            let method = method.to_lowercase();
            let expected = expected_dialect.routes.iter().find(|(known, at, _)| *known == method && *at == path);
            let (_, _, required) = expected.unwrap_or_else(|| panic!("add {method} {path} to this test"));
            assert_eq!(route["scope"], *required, "{method} {path}");
            let what = format!("{} {method} {path}", expected_dialect.name);
            let at = format!("/{}{path}", expected_dialect.name);
            let try_with =
                |credential: Credential| dialect_verdict(&fixture.send(&method, &at, &credential, false, None));
            let credential = |token: &str| match expected_dialect.header {
                "authorization" => Credential::Bearer(token.to_owned()),
                header => Credential::Header(header, token.to_owned()),
            };
            let without_access = if *required == OPEN { Verdict::Allowed } else { Verdict::Unauthenticated };
            assert_eq!(try_with(Credential::None), without_access, "{what} without a credential");
            assert_eq!(try_with(credential("wrong")), without_access, "{what} with a wrong token");
            assert_eq!(try_with(credential("")), without_access, "{what} with an empty token");
            let in_query = Credential::InQuery("access_token", admin.clone());
            assert_eq!(try_with(in_query), without_access, "{what} with a token in the query");
            let ticket = Credential::InQuery("ticket", fixture.issue_ticket("writer"));
            assert_eq!(try_with(ticket), without_access, "{what} with a ticket");
            for (has, token) in [&read, &write, &admin].into_iter().enumerate() {
                let needed = order.iter().position(|known| known == required).unwrap_or(0);
                let expected = if has >= needed { Verdict::Allowed } else { Verdict::Forbidden };
                assert_eq!(try_with(credential(token)), expected, "{what} with {}", order[has]);
            }
            let foreign =
                fixture.outlive.http().send(&method.to_uppercase(), &at, &[("origin", "https://evil.example")], None);
            assert_eq!(foreign.status, 403, "{what} from another origin");
        }
    }
}
