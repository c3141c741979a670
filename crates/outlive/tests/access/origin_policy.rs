//! The origin policy over the wire: Host, Origin, CORS and security headers. Unit tests in src cover the rules, and
//! browser/ covers a real browser.

use serde_json::json;

use crate::harness::http::Response;
use crate::harness::{Outlive, Setup};

fn start_with_arguments(arguments: &[&str]) -> Outlive {
    Outlive::start_with(Setup {
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        ..Setup::default()
    })
}

fn send_raw(outlive: &Outlive, head: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = outlive.http().connect().unwrap();
    stream.write_all(head.replace('\n', "\r\n").as_bytes()).unwrap();
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response);
    response
}

#[test]
fn a_foreign_host_or_origin_is_refused_on_every_route() {
    let outlive = start_with_arguments(&[]);
    let id = outlive.start_shell("cat");
    for path in [
        "/",
        "/docs",
        "/ui",
        "/ui/app.js",
        "/healthz",
        "/v1/processes",
        "/nowhere",
        &format!("/v1/processes/{id}/connect"),
    ] {
        for header in
            ["host: evil.example", "host: localhost\norigin: https://evil.example", "host: localhost\norigin: null"]
        {
            let response = send_raw(&outlive, &format!("GET {path} HTTP/1.1\n{header}\nconnection: close\n\n"));
            assert!(response.starts_with("HTTP/1.1 403"), "{path} {header}: {response}");
            assert!(!response.contains("access-control-allow-origin"), "{response}");
        }
    }
    let simple = format!(
        "POST /v1/processes/{id}/kill HTTP/1.1\nhost: localhost\norigin: https://evil.example\ncontent-length: 0\nconnection: close\n\n"
    );
    assert!(send_raw(&outlive, &simple).starts_with("HTTP/1.1 403"));
    assert_eq!(outlive.info(&id)["status"], "running");
    let response =
        send_raw(&outlive, "GET http://evil.example/v1/processes HTTP/1.1\nhost: localhost\nconnection: close\n\n");
    assert!(response.starts_with("HTTP/1.1 403"), "the host of an absolute target: {response}");
    let response = send_raw(&outlive, "GET /v1/processes HTTP/1.1\nconnection: close\n\n");
    assert!(response.starts_with("HTTP/1.1 400"), "no host: {response}");
}

#[test]
fn only_an_allowed_origin_may_read() {
    let outlive = start_with_arguments(&["--allow-origin", "https://app.example", "--allow-host", "box.example"]);
    let request = |method: &str, origin: &str| -> Response {
        let headers = [("origin", origin), ("access-control-request-method", "POST")];
        outlive.http().send(method, "/v1/processes", &headers, None)
    };
    for method in ["OPTIONS", "GET"] {
        let response = request(method, "https://app.example");
        assert!(response.status < 300, "{method}: {}", response.text());
        assert_eq!(response.header("access-control-allow-origin"), Some("https://app.example"));
        assert_eq!(response.header("vary"), Some("origin"));
        assert_eq!(response.header("access-control-allow-credentials"), None);
        let response = request(method, "https://other.example");
        assert_eq!((response.status, response.code()), (403, "origin_not_allowed"));
        assert_eq!(response.header("access-control-allow-origin"), None);
    }
    let response = send_raw(&outlive, "GET /healthz HTTP/1.1\nhost: box.example:1234\nconnection: close\n\n");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

#[test]
fn every_response_has_the_security_headers() {
    let outlive = start_with_arguments(&[]);
    for path in ["/", "/docs", "/ui", "/v1/processes", "/nowhere"] {
        let response = outlive.get(path);
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(response.header("x-frame-options"), Some("DENY"));
        assert_eq!(response.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(response.header("cross-origin-resource-policy"), Some("same-origin"));
        let policy = response.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    let page = outlive.http().send("GET", "/", &[("accept", "text/html,*/*")], None);
    assert_eq!((page.status, page.header("location")), (303, Some("/ui")));
    assert_eq!(outlive.get("/").json["name"], json!("outlive"));
}
