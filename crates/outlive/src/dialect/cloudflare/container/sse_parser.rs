//! Parses server-sent events that the container's own routes produce, to send them in socket frames.

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: Option<String>,
    /// Empty for a comment. Comments are passed on too, because clients on the socket need keepalives as well.
    pub(super) data: String,
}

#[derive(Default)]
pub(super) struct SseParser {
    /// The bytes of an incomplete event.
    buffer: Vec<u8>,
}

impl SseParser {
    /// Adds bytes and returns the events that are complete now.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut start = 0;
        while let Some(length) = self.buffer[start..].windows(2).position(|pair| pair == b"\n\n") {
            events.push(parse_event(&String::from_utf8_lossy(&self.buffer[start..start + length])));
            start += length + 2;
        }
        self.buffer.drain(..start);
        events
    }
}

fn parse_event(text: &str) -> Event {
    let field = |name: &str| text.lines().filter_map(|line| line.strip_prefix(name)).map(str::trim_start).collect();
    let (names, data): (Vec<&str>, Vec<&str>) = (field("event:"), field("data:"));
    Event { name: names.last().map(|&name| name.to_owned()), data: data.join("\n") }
}

/// Chunk boundaries do not change the events.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    let whole = SseParser::default().push(data);
    for chunk_bytes in [1, 5, data.len() / 2 + 1] {
        let mut parser = SseParser::default();
        let events: Vec<Event> = data.chunks(chunk_bytes).flat_map(|chunk| parser.push(chunk)).collect();
        assert_eq!(events, whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_split() {
        let text = "data: {\"a\":\"é\"}\n\n:\n\nevent: x\nid: 3\ndata: 1\ndata: 2\n\n".as_bytes();
        let expected = SseParser::default().push(text);
        let data: Vec<&str> = expected.iter().map(|event| event.data.as_str()).collect();
        assert_eq!(data, ["{\"a\":\"é\"}", "", "1\n2"]);
        assert_eq!(expected[2].name.as_deref(), Some("x"));
        for middle in 0..=text.len() {
            let mut parser = SseParser::default();
            let mut events = parser.push(&text[..middle]);
            events.extend(parser.push(&text[middle..]));
            assert_eq!(events, expected, "{middle}");
        }
    }
}
