//! What pages get: Host, Origin, CORS and headers, over the wire. The rules themselves are tested in access/door.rs, a real
//! browser in browser/.

use serde_json::json;

use crate::harness::http::Answer;
use crate::harness::{Outlive, Setup};

fn with(arguments: &[&str]) -> Outlive {
    Outlive::with(Setup { arguments: arguments.iter().map(|word| (*word).to_owned()).collect(), ..Setup::default() })
}

fn send(outlive: &Outlive, head: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = outlive.http().connect().unwrap();
    stream.write_all(head.replace('\n', "\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn a_foreign_name_or_origin_gets_nothing_on_any_route() {
    let outlive = with(&[]);
    let id = outlive.shell("cat");
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
            let answer = send(&outlive, &format!("GET {path} HTTP/1.1\n{header}\nconnection: close\n\n"));
            assert!(answer.starts_with("HTTP/1.1 403"), "{path} {header}: {answer}");
            assert!(!answer.contains("access-control-allow-origin"), "{answer}");
        }
    }
    let simple = format!(
        "POST /v1/processes/{id}/kill HTTP/1.1\nhost: localhost\norigin: https://evil.example\ncontent-length: 0\nconnection: close\n\n"
    );
    assert!(send(&outlive, &simple).starts_with("HTTP/1.1 403"));
    assert_eq!(outlive.info(&id)["status"], "running");
    let answer =
        send(&outlive, "GET http://evil.example/v1/processes HTTP/1.1\nhost: localhost\nconnection: close\n\n");
    assert!(answer.starts_with("HTTP/1.1 403"), "an absolute target: {answer}");
    let answer = send(&outlive, "GET /v1/processes HTTP/1.1\nconnection: close\n\n");
    assert!(answer.starts_with("HTTP/1.1 400"), "no host at all: {answer}");
}

#[test]
fn an_allowed_origin_may_read_and_only_that_one() {
    let outlive = with(&["--allow-origin", "https://app.example", "--allow-host", "box.example"]);
    let ask = |method: &str, origin: &str| -> Answer {
        let headers = [("origin", origin), ("access-control-request-method", "POST")];
        outlive.http().send(method, "/v1/processes", &headers, None)
    };
    for method in ["OPTIONS", "GET"] {
        let answer = ask(method, "https://app.example");
        assert!(answer.status < 300, "{method}: {}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
        assert_eq!(answer.header("vary"), Some("origin"));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        let answer = ask(method, "https://other.example");
        assert_eq!((answer.status, answer.code()), (403, "origin_not_allowed"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    let answer = send(&outlive, "GET /healthz HTTP/1.1\nhost: box.example:1234\nconnection: close\n\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn every_answer_carries_the_protecting_headers() {
    let outlive = with(&[]);
    for path in ["/", "/docs", "/ui", "/v1/processes", "/nowhere"] {
        let answer = outlive.get(path);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    let page = outlive.http().send("GET", "/", &[("accept", "text/html,*/*")], None);
    assert_eq!((page.status, page.header("location")), (303, Some("/ui")));
    assert_eq!(outlive.get("/").json["name"], json!("outlive"));
}
