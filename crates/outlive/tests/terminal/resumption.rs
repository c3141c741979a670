//! Where reading begins: offsets, tails and replays.

use serde_json::json;

use crate::attached::end;
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually};

#[test]
fn a_client_resumes_at_its_offset_and_misses_nothing() {
    let outlive = Outlive::start();
    let id = outlive.shell("i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; read x");
    let mut got = Vec::new();
    let mut offset = 0;
    let expected: Vec<u8> = (0..30_000).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
    let mut turn = 0;
    while got.len() < expected.len() {
        turn += 1;
        let mut socket = Socket::connect(outlive.http(), &id, &format!("from={offset}"), true);
        assert_eq!(socket.offset, offset);
        let before = got.len();
        while got.len() < expected.len() && got.len() - before < expected.len() / 7 {
            match socket.next() {
                Frame::Bytes { offset, stream, bytes } => {
                    assert_eq!((offset, stream), (got.len() as u64, 1));
                    got.extend_from_slice(&bytes);
                }
                other => panic!("{other:?}"),
            }
        }
        offset = socket.cut();
    }
    assert!(turn > 1);
    assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
    // Tail, head and beyond.
    let head = expected.len() as u64;
    for (query, begins) in
        [("tail=100", head - 100), ("tail=999999999", 0), ("tail=0", head), ("", head), (&format!("from={head}"), head)]
    {
        let mut socket = Socket::connect(outlive.http(), &id, query, true);
        assert_eq!((socket.offset, socket.ready["offset"].as_u64()), (begins, Some(begins)), "{query}");
        if begins < head {
            let mut read = Vec::new();
            while read.len() as u64 + begins < head {
                if let Frame::Bytes { bytes, .. } = socket.next() {
                    read.extend_from_slice(&bytes);
                }
            }
            assert!(read == expected[begins as usize..], "{query}");
        }
    }
    let refused =
        Socket::try_connect(outlive.http(), &id, &format!("from={}", head + 1), true).err().unwrap_or_default();
    assert!(refused.contains("400"), "{refused}");
}

#[test]
fn an_offset_that_is_gone_is_refused_and_says_so() {
    let outlive = Outlive::start();
    let id = outlive.start_process(
        json!({ "command": "head -c 3000000 /dev/zero; read x", "shell": true, "maxLogBytes": 300_000 }),
    );
    eventually("all is printed", || (outlive.info(&id)["outputEnd"] == 3_000_000).then_some(()));
    let refused = Socket::try_connect(outlive.http(), &id, "from=0", true).err().unwrap_or_default();
    assert!(refused.contains("410"), "{refused}");
    let oldest = outlive.info(&id)["outputStart"].as_u64().unwrap();
    assert!(oldest > 0);
    let socket = Socket::connect(outlive.http(), &id, &format!("from={oldest}"), true);
    assert_eq!(socket.offset, oldest);
}

#[test]
fn a_replay_of_10_mib_reaches_a_client_with_small_messages() {
    const ALL: usize = 10 << 20;
    let outlive = Outlive::start();
    for tty in [false, true] {
        let line = format!("stty raw 2>/dev/null; head -c {ALL} /dev/zero | tr '\\0' x");
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
                    assert_eq!((&frame["type"], &frame["offset"]), (&json!("exit"), &json!(ALL)));
                    break;
                }
                Frame::Closed(code) => panic!("{code:?}"),
            }
        }
        assert_eq!((count, socket.offset, end(&mut socket)), (ALL, ALL as u64, Some(1000)));
    }
}
