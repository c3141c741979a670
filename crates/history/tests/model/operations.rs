//! What a random history consists of.

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub enum Op {
    /// Chunks of these lengths, after `skip` bytes that are not stored.
    Append {
        slot: usize,
        skip: u16,
        lens: Vec<u16>,
    },
    Put {
        slot: usize,
        ended: bool,
    },
    Sync,
    Seal,
    Enforce {
        advance_ms: u64,
    },
    Delete {
        slot: usize,
    },
    Purge,
    Reopen {
        same_boot: bool,
    },
    Crash,
}

/// What goes wrong, and after how many operations.
#[derive(Clone, Copy, Debug)]
pub enum DiskFault {
    Full(u64),
    Io(u64),
    ShortWrite(u64),
    Read(u64),
    Stop(u64),
}

#[derive(Clone, Copy, Debug)]
pub enum Crash {
    Kill,
    /// With the seed that decides what is lost.
    PowerLoss(u64),
}

#[derive(Clone, Debug)]
pub struct Step {
    pub op: Op,
    pub fault: Option<DiskFault>,
    /// What happens if the fault is a stop, or the operation is a crash.
    pub crash: Crash,
}

fn op() -> impl Strategy<Value = Op> {
    let slot = 0..4usize;
    let lens = prop_oneof![
        4 => prop::collection::vec(1..1500u16, 1..6),
        1 => prop::collection::vec(1..20u16, 1..40),
        1 => prop::collection::vec(9000..60_000u16, 1..8),
    ];
    let skip = prop_oneof![4 => Just(0u16), 1 => 1..3000u16];
    prop_oneof![
        12 => (slot.clone(), skip, lens).prop_map(|(slot, skip, lens)| Op::Append { slot, skip, lens }),
        3 => (slot.clone(), any::<bool>()).prop_map(|(slot, ended)| Op::Put { slot, ended }),
        2 => Just(Op::Sync),
        4 => Just(Op::Seal),
        2 => (0..200u64).prop_map(|advance_ms| Op::Enforce { advance_ms }),
        2 => slot.prop_map(|slot| Op::Delete { slot }),
        2 => Just(Op::Purge),
        1 => any::<bool>().prop_map(|same_boot| Op::Reopen { same_boot }),
        1 => Just(Op::Crash),
    ]
}

fn fault() -> impl Strategy<Value = DiskFault> {
    // Most operations of the store take few operations of the disk.
    let after = prop_oneof![0..6u64, 0..40u64];
    (after, 0..6u8).prop_map(|(after, kind)| match kind {
        0 => DiskFault::Full(after),
        1 => DiskFault::Io(after),
        2 => DiskFault::ShortWrite(after),
        3 => DiskFault::Read(after),
        _ => DiskFault::Stop(after),
    })
}

pub fn step() -> impl Strategy<Value = Step> {
    let fault = prop::option::weighted(0.25, fault());
    let crash = prop_oneof![1 => Just(Crash::Kill), 3 => any::<u64>().prop_map(Crash::PowerLoss)];
    (op(), fault, crash).prop_map(|(op, fault, crash)| Step { op, fault, crash })
}
