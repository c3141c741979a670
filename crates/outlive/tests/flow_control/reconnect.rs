//! Lossless readers that lose their connection and reconnect.

use std::time::Duration;

use serde_json::json;

use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually};
use crate::numbered_output::{
    MB, assert_bytes, follow, read_all, read_followed, read_to_offset, release, start_printer, wait_blocked,
};

/// Disconnects twice with as much unread data as possible, and reconnects two seconds later.
fn check_reconnects(ring: Option<u64>, acknowledge: bool) {
    const BYTES: u64 = 150 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_printer(&outlive, BYTES, ring);
    let mut socket = Socket::connect(http, &id, "from=0", true);
    release(&outlive, &id);
    for round in 1..=2u64 {
        while socket.offset < round * 30 * MB {
            match socket.next() {
                Frame::Bytes { offset, bytes, .. } => assert_bytes(offset, &bytes),
                other => panic!("unexpected {other:?}"),
            }
            if acknowledge {
                socket.send_control(json!({ "type": "ack", "offset": socket.offset }));
            }
        }
        // The client stops reading, so that every buffer on the way fills up and is lost with the connection.
        let stopped = wait_blocked(http, &id);
        let offset = socket.disconnect();
        std::thread::park_timeout(Duration::from_secs(2));
        println!("disconnected at {offset}, {} behind the head", stopped - offset);
        socket = Socket::connect(http, &id, &format!("from={offset}"), true);
        assert_eq!(socket.offset, offset);
        assert_eq!(socket.ready["flow"], "lossless");
    }
    read_all(&mut socket);
    assert_eq!(socket.offset, BYTES, "the abandoned leases do not stop the program");
}

#[test]
fn a_reconnecting_client_loses_nothing() {
    check_reconnects(None, false);
}

#[test]
fn a_reconnecting_client_loses_nothing_with_a_small_ring() {
    check_reconnects(Some(256 * 1024), false);
}

#[test]
fn a_reconnecting_client_with_acknowledgements_loses_nothing() {
    check_reconnects(Some(64 * 1024), true);
}

#[test]
fn a_reconnecting_follower_of_the_output_loses_nothing() {
    const BYTES: u64 = 150 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_printer(&outlive, BYTES, None);
    let mut open = follow(http, &id, 0);
    // A plain HTTP body has no acknowledgements, so the bytes in flight must be less than half a window.
    rustix::net::sockopt::set_socket_recv_buffer_size(open.stream(), 256 * 1024).unwrap();
    release(&outlive, &id);
    let offset = read_followed(&mut open, 0, 40 * MB);
    println!("disconnected {} behind the head", wait_blocked(http, &id) - offset);
    open.stream().shutdown(std::net::Shutdown::Both).unwrap();
    drop(open);
    std::thread::park_timeout(Duration::from_secs(2));
    let mut open = follow(http, &id, offset);
    assert_eq!(read_followed(&mut open, offset, u64::MAX), BYTES);
}

#[test]
fn a_new_client_does_not_release_the_lease_of_a_disconnected_one() {
    const BYTES: u64 = 60 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_printer(&outlive, BYTES, Some(256 * 1024));
    let mut socket = Socket::connect(http, &id, "from=0", true);
    release(&outlive, &id);
    read_to_offset(&mut socket, 5 * MB);
    wait_blocked(http, &id);
    let offset = socket.disconnect();
    eventually("the server notices the disconnect", || {
        outlive.get(&format!("/v1/processes/{id}/attachments")).json["attachments"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    });
    // The new client reads as fast as it can, but the program must wait for the disconnected one.
    let mut newcomer = Socket::connect(http, &id, "", true);
    let at = newcomer.offset;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            read_all(&mut newcomer);
            assert_eq!(newcomer.offset, BYTES);
        });
        std::thread::park_timeout(Duration::from_millis(500));
        let mut socket = Socket::connect(http, &id, &format!("from={offset}"), true);
        println!("the new client starts {} bytes after the disconnected one", at - offset);
        read_all(&mut socket);
        assert_eq!(socket.offset, BYTES);
    });
}
