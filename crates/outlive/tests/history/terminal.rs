//! A recording of a terminal begins with its birth, however much it has printed.

use serde_json::{Value, json};

use crate::{run_cli, scratch_directory, serve};

/// Prints 40,000 numbered screens' worth of lines, changes its size in between, and exits.
const BUSY_TERMINAL: &str = "stty -echo -onlcr; i=0; while [ $i -lt 40000 ]; do \
    echo \"$i \u{1b}[1mbold\u{1b}[0m text that makes the line long enough\"; i=$((i+1)); done; read end";

#[test]
fn a_recording_plays_from_the_birth_of_the_terminal() {
    let scratch = scratch_directory();
    let outlive = serve(&scratch.path().join("history"));
    let id = outlive.start_process(json!({
        "command": BUSY_TERMINAL, "shell": true, "tty": true, "cols": 90, "rows": 25, "maxLogBytes": 128 << 10
    }));
    outlive.wait_output(&id, "39999 ");
    let resized = outlive.post(&format!("/v1/processes/{id}/resize"), &json!({ "cols": 70, "rows": 20 }));
    assert_eq!(resized.status, 200, "{}", resized.text());
    let input = json!({ "data": "end\n", "encoding": "utf8" });
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/input"), &input).status, 200);
    outlive.wait_exit(&id);
    let response = outlive.get(&format!("/v1/processes/{id}/recording"));
    assert_eq!(response.status, 200, "{}", response.text());
    let text = String::from_utf8(response.body).unwrap();
    let mut lines = text.lines();
    let header: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!((header["width"].as_u64(), header["height"].as_u64()), (Some(90), Some(25)), "the size at its birth");
    let mut output = String::new();
    for line in lines {
        let (_, code, data): (f64, String, String) = serde_json::from_str(line).unwrap();
        assert_ne!(code, "m", "a gap");
        if code == "o" {
            output.push_str(&data);
        }
    }
    let expected: Vec<String> =
        (0..40_000).map(|i| format!("{i} \u{1b}[1mbold\u{1b}[0m text that makes the line long enough\n")).collect();
    assert!(output.starts_with(&expected.concat()), "{:?}", &output[..200]);
    let played = run_cli(&outlive, &["play", &id, "--speed", "100000", "--idle", "0.001"]);
    assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
    let played = String::from_utf8_lossy(&played.stdout);
    assert!(played.contains("0 \u{1b}[1mbold") && played.contains("39999 "), "{} bytes", played.len());
}
