//! Log lines of holder and server on stderr, as text and as JSON.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use harness::{Outlive, Setup, eventually, proc};
use serde_json::{Value, json};

fn start(format: &str) -> Outlive {
    let arguments = ["--log-format", format, "--log-level", "debug"].map(str::to_owned).to_vec();
    Outlive::start_with(Setup { arguments, ..Setup::default() })
}

/// The descriptor of the state that the holder's image was started with; each image has its own command line.
fn holder_command_line(outlive: &Outlive) -> Vec<u8> {
    std::fs::read(format!("/proc/{}/cmdline", outlive.holder_pid())).unwrap()
}

/// Parses a JSON line and checks the keys that the lines of holder and server share.
fn parse_line(line: &str) -> Value {
    let parsed: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{line}")).to_owned();
    let timestamp = text(&parsed["timestamp"]);
    assert!(timestamp.len() == "2026-02-03T04:05:06.789012Z".len() && timestamp.ends_with('Z'), "{line}");
    assert!(["ERROR", "WARN", "INFO", "DEBUG"].contains(&text(&parsed["level"]).as_str()), "{line}");
    text(&parsed["target"]);
    parsed
}

#[test]
fn every_line_is_a_json_object_also_after_an_upgrade() {
    let mut outlive = start("json");
    outlive.wait_exit(&outlive.start_shell("true"));
    let first = outlive.server_pid();
    outlive.kill_server();
    let image = holder_command_line(&outlive);
    assert_eq!(outlive.post("/v1/upgrade", &json!({})).status, 200);
    eventually("another image of the holder", || (holder_command_line(&outlive) != image).then_some(()));
    let second = outlive.server_pid();
    outlive.kill_server();
    proc::send_signal(outlive.holder_pid(), rustix::process::Signal::TERM);
    eventually("the end", || outlive.exit_code());
    let lines: Vec<Value> = outlive.stderr().lines().map(parse_line).collect();
    let of_holder = |text: &str| {
        let is_match = |line: &&Value| line["fields"]["message"].as_str().is_some_and(|message| message.contains(text));
        let line = lines.iter().filter(|line| line["target"] == "outlive_holder").find(is_match);
        line.unwrap_or_else(|| panic!("{text}: {lines:?}"))["level"].clone()
    };
    assert_eq!(of_holder("upgrading to "), "INFO");
    // Written by the first image of the holder, and by the one that the upgrade started.
    assert_eq!(of_holder(&format!("server {first} exited")), "WARN");
    assert_eq!(of_holder(&format!("server {second} exited")), "WARN");
    assert_eq!(of_holder("shutting down"), "INFO");
    assert!(lines.iter().any(|line| line["target"] == "audit"), "{lines:?}");
}

#[test]
fn text_lines_of_the_holder_name_it() {
    let outlive = start("text");
    let server = outlive.server_pid();
    outlive.kill_server();
    let line = format!("outlive holder: server {server} exited");
    eventually("the holder's line", || outlive.stderr().lines().any(|known| known.starts_with(&line)).then_some(()));
}
