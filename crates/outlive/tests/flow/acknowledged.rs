//! Clients that say how far they have come, and how much they can take.

use serde_json::json;

use crate::counting::{MB, check, go, read_all, read_until, start_counting, until_stopped};
use crate::harness::Outlive;
use crate::harness::socket::{Frame, Socket};

#[test]
fn the_hold_follows_what_is_acknowledged() {
    const BYTES: u64 = 20 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_counting(&outlive, BYTES, Some(1 << 20));
    let mut socket = Socket::connect(http, &id, "from=0", true);
    socket.control(json!({ "type": "ack", "offset": 0 }));
    go(&outlive, &id);
    let mut acknowledged = 0;
    while socket.offset < BYTES / 2 {
        // Reads all that comes; without a word from it the program gets no further than a ring.
        let stopped = until_stopped(http, &id);
        assert!(stopped > acknowledged && stopped < acknowledged + (3 << 20), "{acknowledged}..{stopped}");
        read_until(&mut socket, stopped);
        acknowledged = stopped;
        socket.control(json!({ "type": "ack", "offset": acknowledged }));
    }
    // What was read but not acknowledged is still there for whoever comes back.
    let stopped = until_stopped(http, &id);
    read_until(&mut socket, stopped);
    socket.cut();
    let mut socket = Socket::connect(http, &id, &format!("from={acknowledged}"), true);
    assert_eq!(socket.offset, acknowledged);
    read_all(&mut socket);
    assert_eq!(socket.offset, BYTES);
}

#[test]
fn no_more_is_under_way_than_a_client_says_it_can_take() {
    const WINDOW: u64 = 100_000;
    let outlive = Outlive::start();
    let id = start_counting(&outlive, MB, None);
    go(&outlive, &id);
    outlive.wait_exit(&id);
    let mut socket = Socket::connect(outlive.http(), &id, &format!("from=0&window={WINDOW}"), true);
    let mut end = 0;
    while end < MB {
        end = (end + WINDOW).min(MB);
        while socket.offset < end {
            match socket.next() {
                Frame::Bytes { offset, bytes, .. } => check(offset, &bytes),
                other => panic!("{other:?} at {}", socket.offset),
            }
        }
        assert_eq!(socket.offset, end);
        if end < MB {
            // Said in turn with the output: the answer would stand behind more of it.
            socket.control(json!({ "type": "nonsense" }));
            let answer = socket.next();
            assert!(matches!(&answer, Frame::Control(frame) if frame["code"] == "invalid_frame"), "{answer:?}");
        }
        socket.control(json!({ "type": "ack", "offset": end }));
    }
    assert!(matches!(socket.next(), Frame::Control(frame) if frame["type"] == "exit"));
}
