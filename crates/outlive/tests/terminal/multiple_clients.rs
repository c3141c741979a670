//! Several clients of one terminal: writers, viewers, and the list of attachments.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::socket::Socket;
use crate::harness::{Outlive, eventually};
use crate::{list_attachments, read_control, read_to_close, start_raw_terminal, synchronize};

#[test]
fn all_writers_see_the_same_output_and_can_type() {
    let outlive = Outlive::start();
    let id = start_raw_terminal(&outlive);
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
    // The others continue when one disconnects.
    all.pop().unwrap().disconnect();
    all[0].type_text("on");
    all[1].read_until("on");
}

#[test]
fn a_viewer_cannot_type_resize_or_signal() {
    let outlive = Outlive::start();
    let id = start_raw_terminal(&outlive);
    let mut viewer = Socket::connect(outlive.http(), &id, "role=viewer&from=0&cols=11&rows=12", false);
    assert_eq!((&viewer.ready["role"], &viewer.ready["flow"]), (&json!("viewer"), &json!("live")));
    for frame in [json!({ "type": "input", "data": "x" }), json!({ "type": "signal", "signal": "KILL" })] {
        viewer.send_control(frame);
        assert_eq!(read_control(&mut viewer, "error")["code"], "read_only");
    }
    viewer.inner.send(Message::Binary(b"x".to_vec().into())).unwrap();
    assert_eq!(read_control(&mut viewer, "error")["code"], "read_only");
    viewer.resize(13, 14);
    synchronize(&mut viewer);
    let info = outlive.info(&id);
    assert_eq!((&info["cols"], &info["rows"], &info["status"]), (&json!(80), &json!(24), &json!("running")));
    let mut writer = Socket::connect(outlive.http(), &id, "", false);
    writer.type_text("seen");
    viewer.read_until("seen");
    assert_eq!(outlive.output(&id), b"up\nseen");
    // A viewer that keeps typing is disconnected.
    for _ in 0..200 {
        if viewer.inner.send(Message::Binary(b"x".to_vec().into())).is_err() {
            break;
        }
    }
    assert_eq!(read_to_close(&mut viewer), Some(1008));
    writer.type_text("!");
    writer.read_until("!");
}

#[test]
fn attachments_are_listed_with_role_size_and_activity() {
    let outlive = Outlive::start();
    let id = start_raw_terminal(&outlive);
    let mut first = Socket::connect(outlive.http(), &id, "cols=100&rows=30", false);
    let second = Socket::connect(outlive.http(), &id, "role=viewer", false);
    let list = list_attachments(&outlive, &id);
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
    synchronize(&mut first);
    assert!(list_attachments(&outlive, &id)[0]["lastInputAtMs"].is_u64());
    second.disconnect();
    eventually("the second is detached", || (list_attachments(&outlive, &id).len() == 1).then_some(()));
    first.send_control(json!({ "type": "close" }));
    assert_eq!(read_to_close(&mut first), Some(1000));
    eventually("all are detached", || (list_attachments(&outlive, &id).is_empty()).then_some(()));
    let info = outlive.info(&id);
    assert_eq!(info["status"], "running", "the process keeps running");
    assert!(info["lastAttachAtMs"].is_u64());
    // The number of attachments is bounded.
    let mut config = outlive.get("/v1/config").json;
    config["maxAttachmentsPerProcess"] = json!(1);
    assert_eq!(outlive.post("/v1/config", &config).status, 200);
    let _one = Socket::connect(outlive.http(), &id, "", false);
    let refused = Socket::try_connect(outlive.http(), &id, "", false).err().unwrap_or_default();
    assert!(refused.contains("409"), "{refused}");
}
