//! Parser for server-sent events that arrive in chunks.

/// Limit of one line, and of the data of one event. Longer ones are truncated, so that a server which never ends a
/// line cannot exhaust memory.
const MAX_BYTES: usize = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: String,
}

#[derive(Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    after_return: bool,
}

impl SseParser {
    pub(crate) fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(SseEvent)) {
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    if let Some(event) = self.parse_line(&String::from_utf8_lossy(&line)) {
                        on_event(event);
                    }
                }
                other if self.line.len() < MAX_BYTES => self.line.push(*other),
                _ => {}
            }
        }
    }

    fn parse_line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.name),
            "data" if self.event.data.len() + value.len() < MAX_BYTES => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = ":\n\nevent: a\nid: x-1\ndata: {\"ä\":1}\n\nid: x-2\r\ndata:one\r\ndata: two\r\n\r\n: note\nevent: none\n\ndata: cut".as_bytes();

    fn events(chunks: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            parser.feed(chunk, |event| events.push(event));
        }
        events
    }

    // Regression: a line or an event without an end filled the memory.
    #[test]
    fn unterminated_lines_and_events_are_truncated() {
        let mut parser = SseParser::default();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..20 {
            parser.feed(&chunk, |_| {});
        }
        assert_eq!(parser.line.len(), MAX_BYTES);
        let mut parser = SseParser::default();
        let line = [b"data: ", chunk.as_slice(), b"\n"].concat();
        for _ in 0..20 {
            parser.feed(&line, |_| {});
        }
        assert!(parser.event.data.len() <= MAX_BYTES);
    }

    #[test]
    fn events_are_the_same_at_every_split() {
        let event =
            |id: &str, name: &str, data: &str| SseEvent { id: Some(id.into()), name: name.into(), data: data.into() };
        let wanted = [event("x-1", "a", "{\"ä\":1}"), event("x-2", "", "one\ntwo")];
        for split in 0..=STREAM.len() {
            assert_eq!(events(&[&STREAM[..split], &STREAM[split..]]), wanted, "{split}");
        }
    }
}
