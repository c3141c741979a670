//! Finding processes: by pid, tag and annotation, and in the list.

use serde_json::{Value, json};

use crate::harness::Outlive;
use crate::{list_processes, patch};

#[test]
fn a_patch_changes_tag_label_and_annotations_and_null_removes_them() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({
        "command": "cat", "tty": true, "tag": "a", "label": "one", "annotations": { "x": "1", "y": "2" },
    }));
    let response =
        patch(&outlive, &id, &json!({ "tag": "b", "annotations": { "x": null, "z": "3" }, "sizePolicy": "fixed" }));
    assert_eq!(response.status, 200, "{}", response.text());
    let info = outlive.info("tag:b");
    assert_eq!((&info["id"], &info["label"], &info["sizePolicy"]), (&json!(id), &json!("one"), &json!("fixed")));
    assert_eq!(info["annotations"], json!({ "y": "2", "z": "3" }));
    assert_eq!(outlive.get("/v1/processes/tag:a").status, 404);
    let response =
        patch(&outlive, &id, &json!({ "tag": null, "label": null, "annotations": { "y": null, "z": null } }));
    for gone in ["tag", "label", "annotations"] {
        assert_eq!(response.json.get(gone), None, "{}", response.text());
    }
    assert_eq!(outlive.get("/v1/processes/tag:b").status, 404);
    // Another process can take the tag.
    let other = outlive.start_process(json!({ "command": "cat", "tag": "b" }));
    assert_eq!(outlive.info("tag:b")["id"], other.as_str());
    assert_eq!(patch(&outlive, &id, &json!({ "tag": "b" })).code(), "tag_exists");
}

#[test]
fn a_tag_can_be_reused_after_the_exit() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "true", "tag": "t" });
    let first = outlive.start_process(spec.clone());
    outlive.wait_exit(&first);
    assert_eq!(outlive.info("tag:t")["id"], first.as_str(), "the tag still finds the exited process");
    let second = outlive.start_process(spec);
    outlive.wait_exit(&second);
    assert_ne!(first, second);
    assert_eq!(outlive.info("tag:t")["id"], second.as_str());
    assert_eq!(outlive.delete("/v1/processes/tag:t").status, 204);
    assert_eq!(outlive.get(&format!("/v1/processes/{first}")).status, 200);
}

#[test]
fn the_list_is_filtered_and_oldest_first() {
    let outlive = Outlive::start();
    let a = outlive.start_process(json!({ "command": "cat", "tag": "a", "source": "agent", "sessionId": "s" }));
    let b = outlive.start_process(json!({ "command": "cat", "tty": true, "owner": "system" }));
    let c = outlive.start_shell("true");
    outlive.wait_exit(&c);
    let d = outlive.start_process(json!({ "command": "cat", "start": false }));
    for (query, expected) in [
        ("", vec![&a, &b, &c, &d]),
        ("?status=running", vec![&a, &b]),
        ("?status=exited", vec![&c]),
        ("?status=created", vec![&d]),
        ("?tag=a", vec![&a]),
        ("?tty=true", vec![&b]),
        ("?pty=false", vec![&a, &c, &d]),
        ("?owner=system", vec![&b]),
        ("?owner=user", vec![&a, &c, &d]),
        ("?source=agent", vec![&a]),
        ("?sessionId=s", vec![&a]),
        ("?sessionId=s&tty=true", vec![]),
        ("?unknown=ignored", vec![&a, &b, &c, &d]),
    ] {
        let ids: Vec<Value> = list_processes(&outlive, query).into_iter().map(|info| info["id"].clone()).collect();
        let expected: Vec<Value> = expected.into_iter().map(|id| json!(id)).collect();
        assert_eq!(ids, expected, "{query}");
    }
}

#[test]
fn the_list_is_filtered_by_annotation() {
    let outlive = Outlive::start();
    let start = |annotations| outlive.start_process(json!({ "command": "cat", "annotations": annotations }));
    let (red, blue) = (start(json!({ "colour": "red" })), start(json!({ "colour": "blue", "a=b": "c" })));
    let find = |query: &str| -> Vec<String> {
        let list = outlive.get(&format!("/v1/processes?annotation={query}")).json;
        list["processes"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(find("colour=red"), std::slice::from_ref(&red));
    assert_eq!(find("colour"), [red, blue]);
    assert_eq!(find("colour="), [""; 0]);
}

#[test]
fn a_process_is_found_by_its_pid_even_after_its_exit() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("echo $$; read x");
    outlive.wait_output(&id, r"\d+\n");
    let pid = String::from_utf8(outlive.output(&id)).unwrap().trim().to_owned();
    assert_eq!(outlive.info(&format!("pid:{pid}"))["id"], json!(id));
    let kill = outlive.post(&format!("/v1/processes/pid:{pid}/kill"), &json!({}));
    assert_eq!(kill.status, 200, "{}", kill.text());
    assert_eq!(outlive.info(&format!("pid:{pid}"))["status"], "exited");
    outlive.kill_server();
    assert_eq!(outlive.info(&format!("pid:{pid}"))["id"], json!(id), "the next server knows it too");
    // The next start has another pid, and the old one finds nothing.
    assert_eq!(outlive.post(&format!("/v1/processes/{id}/start"), &json!({})).status, 200);
    let next = outlive.info(&id)["pid"].clone();
    assert_eq!(outlive.info(&format!("pid:{next}"))["id"], json!(id));
    assert_eq!(outlive.get(&format!("/v1/processes/pid:{pid}")).status, 404);
    assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
    for unknown in [next.to_string(), String::new(), "x".into(), "-1".into(), "99999999999".into()] {
        assert_eq!(outlive.get(&format!("/v1/processes/pid:{unknown}")).status, 404, "{unknown}");
    }
}

#[test]
fn a_short_lived_process_is_found_by_its_pid() {
    let outlive = Outlive::start();
    for _ in 0..50 {
        let response = outlive.post("/v1/processes", &json!({ "command": "sh", "args": ["-c", "echo $$"] }));
        let id = response.json["id"].as_str().unwrap().to_owned();
        outlive.wait_exit(&id);
        let pid = String::from_utf8(outlive.output(&id)).unwrap().trim().to_owned();
        assert_eq!(outlive.info(&format!("pid:{pid}"))["id"], json!(id));
    }
}
