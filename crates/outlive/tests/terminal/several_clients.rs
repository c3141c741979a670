//! Several clients of one terminal: writers, viewers, and the list of them.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::attached::{attachments, control, end, raw_terminal, settle};
use crate::harness::socket::Socket;
use crate::harness::{Outlive, eventually};

#[test]
fn several_clients_see_the_same_and_may_all_type() {
    let outlive = Outlive::start();
    let id = raw_terminal(&outlive);
    let mut all: Vec<Socket> = (0..3).map(|_| Socket::connect(outlive.http(), &id, "from=0", false)).collect();
    assert_eq!(all[0].ready["processId"], id.as_str());
    assert_eq!(
        (&all[0].ready["offset"], &all[0].ready["role"], &all[0].ready["flow"]),
        (&json!(0), &json!("writer"), &json!("lossless"))
    );
    for number in 0..3 {
        all[number].type_text(&format!("from {number};"));
        for socket in &mut all {
            socket.read_until(&format!("from {number};"));
        }
    }
    let offsets: Vec<u64> = all.iter().map(|socket| socket.offset).collect();
    assert_eq!(offsets, [24, 24, 24]);
    assert_eq!(outlive.output(&id), b"up\nfrom 0;from 1;from 2;");
    // One that leaves takes nothing with it.
    all.pop().unwrap().cut();
    all[0].type_text("on");
    all[1].read_until("on");
}

#[test]
fn a_viewer_sees_but_neither_types_nor_sizes_nor_signals() {
    let outlive = Outlive::start();
    let id = raw_terminal(&outlive);
    let mut viewer = Socket::connect(outlive.http(), &id, "role=viewer&from=0&cols=11&rows=12", false);
    assert_eq!((&viewer.ready["role"], &viewer.ready["flow"]), (&json!("viewer"), &json!("live")));
    for frame in [json!({ "type": "input", "data": "x" }), json!({ "type": "signal", "signal": "KILL" })] {
        viewer.control(frame);
        assert_eq!(control(&mut viewer, "error")["code"], "read_only");
    }
    viewer.inner.send(Message::Binary(b"x".to_vec().into())).unwrap();
    assert_eq!(control(&mut viewer, "error")["code"], "read_only");
    viewer.resize(13, 14);
    settle(&mut viewer);
    let info = outlive.info(&id);
    assert_eq!((&info["cols"], &info["rows"], &info["status"]), (&json!(80), &json!(24), &json!("running")));
    let mut writer = Socket::connect(outlive.http(), &id, "", false);
    writer.type_text("seen");
    viewer.read_until("seen");
    assert_eq!(outlive.output(&id), b"up\nseen");
    // One that goes on typing all the same is shown the door.
    for _ in 0..200 {
        if viewer.inner.send(Message::Binary(b"x".to_vec().into())).is_err() {
            break;
        }
    }
    assert_eq!(end(&mut viewer), Some(1008));
    writer.type_text("!");
    writer.read_until("!");
}

#[test]
fn attachments_are_listed_with_what_they_do() {
    let outlive = Outlive::start();
    let id = raw_terminal(&outlive);
    let mut first = Socket::connect(outlive.http(), &id, "cols=100&rows=30", false);
    let second = Socket::connect(outlive.http(), &id, "role=viewer", false);
    let list = attachments(&outlive, &id);
    assert_eq!(list.len(), 2);
    assert_eq!(
        (&list[0]["role"], &list[0]["size"], &list[0]["sizes"]),
        (&json!("writer"), &json!({ "cols": 100, "rows": 30 }), &json!(true))
    );
    assert_eq!((&list[1]["role"], list[1].get("size"), &list[1]["sizes"]), (&json!("viewer"), None, &json!(false)));
    assert!(list[0]["sinceMs"].is_u64() && list[0].get("lastInputAtMs").is_none());
    assert!(list[0]["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{list:?}");
    assert_eq!(outlive.info(&id)["attachments"], 2);
    first.type_text("x");
    settle(&mut first);
    assert!(attachments(&outlive, &id)[0]["lastInputAtMs"].is_u64());
    second.cut();
    eventually("one is gone", || (attachments(&outlive, &id).len() == 1).then_some(()));
    first.control(json!({ "type": "close" }));
    assert_eq!(end(&mut first), Some(1000));
    eventually("all are gone", || (attachments(&outlive, &id).is_empty()).then_some(()));
    let info = outlive.info(&id);
    assert_eq!(info["status"], "running", "the process does not mind");
    assert!(info["lastAttachAtMs"].is_u64());
    // Their number is bounded.
    let mut config = outlive.get("/v1/config").json;
    config["maxAttachmentsPerProcess"] = json!(1);
    assert_eq!(outlive.post("/v1/config", &config).status, 200);
    let _one = Socket::connect(outlive.http(), &id, "", false);
    let refused = Socket::try_connect(outlive.http(), &id, "", false).err().unwrap_or_default();
    assert!(refused.contains("409"), "{refused}");
}
