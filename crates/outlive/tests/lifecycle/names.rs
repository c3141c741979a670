//! Tags, labels, annotations and the list.

use serde_json::{Value, json};

use crate::harness::Outlive;
use crate::{listed, patch};

#[test]
fn a_patch_changes_names_and_null_removes_them() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({
        "command": "cat", "tty": true, "tag": "a", "label": "one", "annotations": { "x": "1", "y": "2" },
    }));
    let answer =
        patch(&outlive, &id, &json!({ "tag": "b", "annotations": { "x": null, "z": "3" }, "sizePolicy": "fixed" }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let info = outlive.info("tag:b");
    assert_eq!((&info["id"], &info["label"], &info["sizePolicy"]), (&json!(id), &json!("one"), &json!("fixed")));
    assert_eq!(info["annotations"], json!({ "y": "2", "z": "3" }));
    assert_eq!(outlive.get("/v1/processes/tag:a").status, 404);
    let answer = patch(&outlive, &id, &json!({ "tag": null, "label": null, "annotations": { "y": null, "z": null } }));
    for gone in ["tag", "label", "annotations"] {
        assert_eq!(answer.json.get(gone), None, "{}", answer.text());
    }
    assert_eq!(outlive.get("/v1/processes/tag:b").status, 404);
    // The name is free for another.
    let other = outlive.start_process(json!({ "command": "cat", "tag": "b" }));
    assert_eq!(outlive.info("tag:b")["id"], other.as_str());
    assert_eq!(patch(&outlive, &id, &json!({ "tag": "b" })).code(), "tag_exists");
}

#[test]
fn a_tag_is_free_again_after_the_exit() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "true", "tag": "t" });
    let first = outlive.start_process(spec.clone());
    outlive.wait_exit(&first);
    assert_eq!(outlive.info("tag:t")["id"], first.as_str(), "as long as no other has it, the tag still finds it");
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
    let c = outlive.shell("true");
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
        let ids: Vec<Value> = listed(&outlive, query).into_iter().map(|info| info["id"].clone()).collect();
        let expected: Vec<Value> = expected.into_iter().map(|id| json!(id)).collect();
        assert_eq!(ids, expected, "{query}");
    }
}
