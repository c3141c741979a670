//! Everything that can happen to a log, in any order.

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Print {
        stream: usize,
        count: usize,
    },
    Record {
        stream: usize,
    },
    /// Prints and records `count` bytes, unless a lease blocks it.
    Flood {
        stream: usize,
        count: usize,
    },
    /// Prints and records many chunks of a few bytes, unless a lease blocks it.
    Trickle {
        chunks: usize,
        size: usize,
    },
    Drain {
        stream: usize,
        count: usize,
    },
    /// Records after the timeouts of all leases.
    RecordAfterTimeouts {
        stream: usize,
    },
    Attach {
        lossless: bool,
        part: u8,
    },
    Read {
        reader: usize,
        max_bytes: usize,
    },
    ReadAll {
        reader: usize,
    },
    Advance {
        reader: usize,
        lag: u64,
    },
    Abandon {
        reader: usize,
    },
    /// A lost reader returns, for bytes that it may have read already.
    Reclaim {
        abandoned: usize,
        back: u64,
    },
    Release {
        reader: usize,
    },
    ServerDies,
    ReopenReader,
    ReopenWriter,
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let stream = 0..2usize;
    let reader = 0..4usize;
    prop_oneof![
        2 => (stream.clone(), 1..100_000usize).prop_map(|(stream, count)| Op::Print { stream, count }),
        4 => stream.clone().prop_map(|stream| Op::Record { stream }),
        4 => (stream.clone(), 1..600_000usize).prop_map(|(stream, count)| Op::Flood { stream, count }),
        2 => (1..9_000usize, 1..5usize).prop_map(|(chunks, size)| Op::Trickle { chunks, size }),
        1 => (stream.clone(), 1..40_000usize).prop_map(|(stream, count)| Op::Drain { stream, count }),
        1 => stream.prop_map(|stream| Op::RecordAfterTimeouts { stream }),
        4 => (any::<bool>(), any::<u8>()).prop_map(|(lossless, part)| Op::Attach { lossless, part }),
        6 => (reader.clone(), 1..200_000usize).prop_map(|(reader, max_bytes)| Op::Read { reader, max_bytes }),
        3 => reader.clone().prop_map(|reader| Op::ReadAll { reader }),
        6 => (reader.clone(), 0..50_000u64).prop_map(|(reader, lag)| Op::Advance { reader, lag }),
        2 => reader.clone().prop_map(|reader| Op::Abandon { reader }),
        3 => (reader.clone(), 0..2000u64).prop_map(|(abandoned, back)| Op::Reclaim { abandoned, back }),
        1 => reader.prop_map(|reader| Op::Release { reader }),
        1 => Just(Op::ServerDies),
        1 => Just(Op::ReopenReader),
        1 => Just(Op::ReopenWriter),
    ]
}
