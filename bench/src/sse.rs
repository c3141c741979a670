//! A counter of server-sent log events.
//!
//! The payload is measured without decoding it: four base64 characters are three bytes.

use memchr::{memchr, memmem};

#[derive(Default)]
pub struct LogEvents {
    /// The start of an incomplete event.
    pending: Vec<u8>,
    searched: usize,
    pub payload_bytes: u64,
    pub events: u64,
    /// How many sequence numbers are missing.
    pub skipped: u64,
    last_sequence: u64,
    pub has_ended: bool,
}

impl LogEvents {
    pub fn feed(&mut self, chunk: &[u8]) {
        self.pending.extend_from_slice(chunk);
        let mut done = 0;
        while let Some(at) = memmem::find(&self.pending[self.searched.max(done)..], b"\n\n") {
            let end = self.searched.max(done) + at;
            self.count_event(done..end);
            done = end + 2;
        }
        self.pending.drain(..done);
        self.searched = self.pending.len().saturating_sub(1);
    }

    fn count_event(&mut self, range: std::ops::Range<usize>) {
        let event = &self.pending[range];
        let Some(name) = field(event, b"event: ") else { return };
        if name == b"exit" {
            self.has_ended = true;
        }
        if name != b"log" {
            return;
        }
        self.events += 1;
        if let Some(sequence) = field(event, b"id: ").and_then(|id| str::from_utf8(id).ok()?.parse::<u64>().ok()) {
            self.skipped += sequence.saturating_sub(self.last_sequence + 1);
            self.last_sequence = sequence;
        }
        let prefix = b"\"data\":\"";
        if let Some(at) = memmem::find(event, prefix) {
            let data = &event[at + prefix.len()..];
            let data = &data[..memchr(b'"', data).unwrap_or(data.len())];
            let padding = data.iter().rev().take_while(|&&byte| byte == b'=').count();
            self.payload_bytes += (data.len() / 4 * 3 - padding) as u64;
        }
    }
}

fn field<'a>(event: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    // A field starts a line, and usually precedes the long data line.
    let start = if event.starts_with(name) {
        name.len()
    } else {
        let prefix = [b"\n", name].concat();
        memmem::find(event, &prefix)? + prefix.len()
    };
    let rest = &event[start..];
    Some(&rest[..memchr(b'\n', rest).unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_boundaries_do_not_change_the_counts() {
        let text = b"event: log\nid: 1\ndata: {\"sequence\":1,\"data\":\"aGVsbG8=\"}\n\n:\n\n\
            event: log\nid: 3\ndata: {\"data\":\"aGk=\"}\n\nevent: exit\ndata: {}\n\n";
        for size in 1..text.len() {
            let mut events = LogEvents::default();
            for chunk in text.chunks(size) {
                events.feed(chunk);
            }
            assert_eq!((events.payload_bytes, events.events, events.skipped), (7, 2, 1), "chunks of {size}");
            assert!(events.has_ended);
        }
    }
}
