//! The readers' side: readers attach, acquire leases, read, abandon and reclaim.

use outlive_holder::log::lease::LeaseId;

use super::{AbandonedLease, Reader, World};

impl World {
    pub(super) fn acquire_lease(&mut self, offset: u64, reclaim: bool) -> Option<(LeaseId, u64)> {
        self.serial += 1;
        let id = LeaseId::new(self.epoch, self.serial);
        self.reader.acquire_lease(id, offset, reclaim).map(|_| (id, offset))
    }

    pub(super) fn attach(&mut self, lossless: bool, part: u8) {
        if self.readers.len() >= 4 {
            return;
        }
        let (tail, head) = (self.reader.tail(), self.reader.head());
        let offset = tail + (head - tail) * u64::from(part) / 255;
        let lease = if lossless { self.acquire_lease(offset, false) } else { None };
        self.readers.push(Reader { offset, lease, epoch: self.epoch });
    }

    /// A returning reader may have replaced one abandoned lease at or before its offset.
    pub(super) fn check_reclaimed(&mut self, offset: u64) {
        let log = &self.reader;
        let replaced: Vec<_> = self.abandoned.iter().filter(|lease| !log.has_lease(lease.id)).copied().collect();
        assert!(replaced.len() <= 1, "a lease replaces one abandoned lease");
        assert!(replaced.iter().all(|lease| lease.lease_offset <= offset), "reclaimed a lease at a later offset");
        self.abandoned.retain(|lease| log.has_lease(lease.id));
    }

    pub(super) fn read(&mut self, index: usize, max_bytes: usize) -> usize {
        let Some(reader) = self.readers.get_mut(index) else { return 0 };
        let mut bytes = Vec::new();
        match self.reader.read_at(reader.offset, max_bytes, &mut bytes) {
            Ok(count) => {
                let at = reader.offset as usize;
                assert!(bytes == self.bytes[at..at + count], "wrong bytes at {at}");
                assert!(count > 0 || reader.offset == self.bytes.len() as u64, "nothing to read before the head");
                reader.offset += count as u64;
                count
            }
            Err(overwritten) => {
                assert!(overwritten.oldest > reader.offset, "a gap leads forward");
                assert_eq!(overwritten.oldest, self.reader.tail());
                assert!(
                    reader.lease.is_none_or(|(_, offset)| offset > reader.offset || offset < self.drained_to),
                    "leased bytes were overwritten: {reader:?} {overwritten:?}"
                );
                reader.offset = overwritten.oldest;
                1
            }
        }
    }

    pub(super) fn abandon(&mut self, index: usize) {
        if index < self.readers.len() {
            let reader = self.readers.remove(index);
            if let Some((id, lease_offset)) = reader.lease {
                self.reader.abandon_lease(id);
                self.abandoned.push(AbandonedLease { id, lease_offset, read_to: reader.offset });
            }
        }
    }
}
