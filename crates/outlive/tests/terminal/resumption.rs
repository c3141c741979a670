//! Where a client starts to read: offsets, tails and replays.

use serde_json::json;

use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, Setup, eventually};
use crate::read_to_close;

#[test]
fn a_client_resumes_at_its_offset_without_loss() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; read x");
    let mut received = Vec::new();
    let mut offset = 0;
    let expected: Vec<u8> = (0..30_000).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
    let mut connections = 0;
    while received.len() < expected.len() {
        connections += 1;
        let mut socket = Socket::connect(outlive.http(), &id, &format!("from={offset}"), true);
        assert_eq!(socket.offset, offset);
        let before = received.len();
        while received.len() < expected.len() && received.len() - before < expected.len() / 7 {
            match socket.next() {
                Frame::Bytes { offset, stream, bytes } => {
                    assert_eq!((offset, stream), (received.len() as u64, 1));
                    received.extend_from_slice(&bytes);
                }
                other => panic!("{other:?}"),
            }
        }
        offset = socket.disconnect();
    }
    assert!(connections > 1);
    assert!(received == expected, "{} of {} bytes", received.len(), expected.len());
    // Tails, the head, and an offset beyond the head.
    let head = expected.len() as u64;
    for (query, start) in
        [("tail=100", head - 100), ("tail=999999999", 0), ("tail=0", head), ("", head), (&format!("from={head}"), head)]
    {
        let mut socket = Socket::connect(outlive.http(), &id, query, true);
        assert_eq!((socket.offset, socket.ready["offset"].as_u64()), (start, Some(start)), "{query}");
        if start < head {
            let mut read = Vec::new();
            while read.len() as u64 + start < head {
                if let Frame::Bytes { bytes, .. } = socket.next() {
                    read.extend_from_slice(&bytes);
                }
            }
            assert!(read == expected[start as usize..], "{query}");
        }
    }
    let refused =
        Socket::try_connect(outlive.http(), &id, &format!("from={}", head + 1), true).err().unwrap_or_default();
    assert!(refused.contains("400"), "{refused}");
}

#[test]
fn an_overwritten_offset_is_refused_with_410() {
    let outlive = Outlive::start_with(Setup::without_history());
    let id = outlive.start_process(
        json!({ "command": "head -c 3000000 /dev/zero; read x", "shell": true, "maxLogBytes": 300_000 }),
    );
    eventually("everything is printed", || (outlive.info(&id)["outputEnd"] == 3_000_000).then_some(()));
    let refused = Socket::try_connect(outlive.http(), &id, "from=0", true).err().unwrap_or_default();
    assert!(refused.contains("410"), "{refused}");
    let oldest = outlive.info(&id)["outputStart"].as_u64().unwrap();
    assert!(oldest > 0);
    let socket = Socket::connect(outlive.http(), &id, &format!("from={oldest}"), true);
    assert_eq!(socket.offset, oldest);
}

#[test]
fn a_replay_of_10_mib_arrives_in_frames_of_at_most_64_kib() {
    const TOTAL: usize = 10 << 20;
    let outlive = Outlive::start();
    for tty in [false, true] {
        let line = format!("stty raw 2>/dev/null; head -c {TOTAL} /dev/zero | tr '\\0' x");
        let id = outlive.start_process(json!({ "command": line, "shell": true, "tty": tty }));
        outlive.wait_exit(&id);
        let path = format!("/v1/processes/{id}/connect?from=0");
        let mut socket = Socket::open(outlive.http(), &path, !tty, Some(1 << 20)).unwrap();
        let mut count = 0;
        loop {
            match socket.next() {
                Frame::Bytes { bytes, .. } => {
                    assert!(bytes.len() <= 64 << 10, "a frame of {}", bytes.len());
                    assert!(bytes.iter().all(|byte| *byte == b'x'));
                    count += bytes.len();
                }
                Frame::Control(frame) => {
                    assert_eq!((&frame["type"], &frame["offset"]), (&json!("exit"), &json!(TOTAL)));
                    break;
                }
                Frame::Closed(code) => panic!("{code:?}"),
            }
        }
        assert_eq!((count, socket.offset, read_to_close(&mut socket)), (TOTAL, TOTAL as u64, Some(1000)));
    }
}
