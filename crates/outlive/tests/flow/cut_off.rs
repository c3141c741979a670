//! Readers that are cut off and come back for the rest.

use std::time::Duration;

use serde_json::json;

use crate::counting::{MB, check, follow, go, read_all, read_open, read_until, start_counting, until_stopped};
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually};

/// Cut off with as much as possible unread, and back some seconds later.
fn cut_and_back(ring: Option<u64>, acknowledge: bool) {
    const BYTES: u64 = 150 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_counting(&outlive, BYTES, ring);
    let mut socket = Socket::connect(http, &id, "from=0", true);
    go(&outlive, &id);
    for round in 1..=2u64 {
        while socket.offset < round * 30 * MB {
            match socket.next() {
                Frame::Bytes { offset, bytes, .. } => check(offset, &bytes),
                other => panic!("unexpected {other:?}"),
            }
            if acknowledge {
                socket.control(json!({ "type": "ack", "offset": socket.offset }));
            }
        }
        // Does not read any more: every buffer on the way fills up, and is lost with the connection.
        let stopped = until_stopped(http, &id);
        let offset = socket.cut();
        std::thread::park_timeout(Duration::from_secs(2));
        println!("cut off at {offset}, {} behind the head", stopped - offset);
        socket = Socket::connect(http, &id, &format!("from={offset}"), true);
        assert_eq!(socket.offset, offset);
        assert_eq!(socket.ready["flow"], "lossless");
    }
    read_all(&mut socket);
    assert_eq!(socket.offset, BYTES, "what was left behind holds nobody up");
}

#[test]
fn a_client_that_was_cut_off_misses_nothing() {
    cut_and_back(None, false);
}

#[test]
fn a_client_that_was_cut_off_misses_nothing_of_a_small_ring() {
    cut_and_back(Some(256 * 1024), false);
}

#[test]
fn an_acknowledging_client_that_was_cut_off_misses_nothing() {
    cut_and_back(Some(64 * 1024), true);
}

#[test]
fn a_followed_output_that_was_cut_off_misses_nothing() {
    const BYTES: u64 = 150 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_counting(&outlive, BYTES, None);
    let mut open = follow(http, &id, 0);
    // A plain body has no answers that tell what has arrived: what can be in flight must be less than half a ring.
    rustix::net::sockopt::set_socket_recv_buffer_size(open.stream(), 256 * 1024).unwrap();
    go(&outlive, &id);
    let offset = read_open(&mut open, 0, 40 * MB);
    println!("cut off {} behind the head", until_stopped(http, &id) - offset);
    open.stream().shutdown(std::net::Shutdown::Both).unwrap();
    drop(open);
    std::thread::park_timeout(Duration::from_secs(2));
    let mut open = follow(http, &id, offset);
    assert_eq!(read_open(&mut open, offset, u64::MAX), BYTES);
}

#[test]
fn a_newcomer_does_not_take_what_was_left_for_another() {
    const BYTES: u64 = 60 * MB;
    let outlive = Outlive::start();
    let http = outlive.http();
    let id = start_counting(&outlive, BYTES, Some(256 * 1024));
    let mut socket = Socket::connect(http, &id, "from=0", true);
    go(&outlive, &id);
    read_until(&mut socket, 5 * MB);
    until_stopped(http, &id);
    let offset = socket.cut();
    eventually("the cut is noticed", || {
        outlive.get(&format!("/v1/processes/{id}/attachments")).json["attachments"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    });
    // Reads all there is and as fast as it can; the program must wait for the other nevertheless.
    let mut newcomer = Socket::connect(http, &id, "", true);
    let at = newcomer.offset;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            read_all(&mut newcomer);
            assert_eq!(newcomer.offset, BYTES);
        });
        std::thread::park_timeout(Duration::from_millis(500));
        let mut socket = Socket::connect(http, &id, &format!("from={offset}"), true);
        println!("the newcomer began {} after the other's end", at - offset);
        read_all(&mut socket);
        assert_eq!(socket.offset, BYTES);
    });
}
