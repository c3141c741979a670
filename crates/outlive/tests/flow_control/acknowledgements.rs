//! Clients that acknowledge offsets, and clients that limit the unacknowledged bytes with a window.

use serde_json::json;

use crate::harness::Outlive;
use crate::harness::socket::{Frame, Socket};
use crate::numbered_output::{MB, assert_bytes, read_all, read_to_offset, release, start_printer, wait_blocked};

#[test]
fn the_reader_lease_follows_the_acknowledged_offset() {
    const BYTES: u64 = 20 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_printer(&outlive, BYTES, Some(1 << 20));
    let mut socket = Socket::connect(http, &id, "from=0", true);
    socket.send_control(json!({ "type": "ack", "offset": 0 }));
    release(&outlive, &id);
    let mut acknowledged = 0;
    while socket.offset < BYTES / 2 {
        // The client reads everything; without acknowledgements the program gets no further than the ring.
        let stopped = wait_blocked(http, &id);
        assert!(stopped > acknowledged && stopped < acknowledged + (3 << 20), "{acknowledged}..{stopped}");
        read_to_offset(&mut socket, stopped);
        acknowledged = stopped;
        socket.send_control(json!({ "type": "ack", "offset": acknowledged }));
    }
    // Bytes that were read but not acknowledged are still there after a reconnect.
    let stopped = wait_blocked(http, &id);
    read_to_offset(&mut socket, stopped);
    socket.disconnect();
    let mut socket = Socket::connect(http, &id, &format!("from={acknowledged}"), true);
    assert_eq!(socket.offset, acknowledged);
    read_all(&mut socket);
    assert_eq!(socket.offset, BYTES);
}

#[test]
fn unacknowledged_bytes_do_not_exceed_the_window() {
    const WINDOW: u64 = 100_000;
    let outlive = Outlive::start();
    let id = start_printer(&outlive, MB, None);
    release(&outlive, &id);
    outlive.wait_exit(&id);
    let mut socket = Socket::connect(outlive.http(), &id, &format!("from=0&window={WINDOW}"), true);
    let mut end = 0;
    while end < MB {
        end = (end + WINDOW).min(MB);
        while socket.offset < end {
            match socket.next() {
                Frame::Bytes { offset, bytes, .. } => assert_bytes(offset, &bytes),
                other => panic!("{other:?} at {}", socket.offset),
            }
        }
        assert_eq!(socket.offset, end);
        if end < MB {
            // Errors are sent in order with the output, so no more output was sent if the error comes next.
            socket.send_control(json!({ "type": "nonsense" }));
            let frame = socket.next();
            assert!(matches!(&frame, Frame::Control(error) if error["code"] == "invalid_frame"), "{frame:?}");
        }
        socket.send_control(json!({ "type": "ack", "offset": end }));
    }
    assert!(matches!(socket.next(), Frame::Control(frame) if frame["type"] == "exit"));
}
