//! Server-sent events of a followed log, counted while they arrive.
//!
//! The payload is not decoded, only measured: four characters of base64 are three bytes.

use memchr::{memchr, memmem};

#[derive(Default)]
pub struct LogEvents {
    /// An event whose end has not arrived yet.
    pending: Vec<u8>,
    searched: usize,
    pub payload_bytes: u64,
    pub events: u64,
    /// Entries whose number did not follow on the one before.
    pub skipped: u64,
    last_sequence: u64,
    pub has_ended: bool,
}

impl LogEvents {
    pub fn take(&mut self, piece: &[u8]) {
        self.pending.extend_from_slice(piece);
        let mut done = 0;
        while let Some(at) = memmem::find(&self.pending[self.searched.max(done)..], b"\n\n") {
            let end = self.searched.max(done) + at;
            let event = done..end;
            self.event(event);
            done = end + 2;
        }
        self.pending.drain(..done);
        self.searched = self.pending.len().saturating_sub(1);
    }

    fn event(&mut self, range: std::ops::Range<usize>) {
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
        let mark = b"\"data\":\"";
        if let Some(at) = memmem::find(event, mark) {
            let data = &event[at + mark.len()..];
            let data = &data[..memchr(b'"', data).unwrap_or(data.len())];
            let padding = data.iter().rev().take_while(|&&byte| byte == b'=').count();
            self.payload_bytes += (data.len() / 4 * 3 - padding) as u64;
        }
    }
}

fn field<'a>(event: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    // Fields stand before the long data line, or at least at the beginning of a line.
    let at = if event.starts_with(name) {
        name.len()
    } else {
        let mut mark = vec![b'\n'];
        mark.extend_from_slice(name);
        memmem::find(event, &mark)? + mark.len()
    };
    let rest = &event[at..];
    Some(&rest[..memchr(b'\n', rest).unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_payload_however_it_is_cut() {
        let text = b"event: log\nid: 1\ndata: {\"sequence\":1,\"data\":\"aGVsbG8=\"}\n\n:\n\n\
            event: log\nid: 3\ndata: {\"data\":\"aGk=\"}\n\nevent: exit\ndata: {}\n\n";
        for size in 1..text.len() {
            let mut events = LogEvents::default();
            for piece in text.chunks(size) {
                events.take(piece);
            }
            assert_eq!((events.payload_bytes, events.events, events.skipped), (7, 2, 1), "pieces of {size}");
            assert!(events.has_ended);
        }
    }
}
