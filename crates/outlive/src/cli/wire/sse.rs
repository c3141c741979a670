//! Server-sent events out of a body that comes in pieces.

/// Most bytes of one line, and of the data of one event. What is longer is cut, and then makes no sense: a server
/// that never ends a line must not fill our memory.
const MOST_BYTES: usize = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: String,
}

#[derive(Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_return: bool,
}

impl Parser {
    pub(crate) fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(Event)) {
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    if let Some(event) = self.line(&String::from_utf8_lossy(&line)) {
                        found(event);
                    }
                }
                other if self.line.len() < MOST_BYTES => self.line.push(*other),
                _ => {}
            }
        }
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.name),
            "data" if self.event.data.len() + value.len() < MOST_BYTES => {
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

    fn events(chunks: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut all = Vec::new();
        for chunk in chunks {
            parser.feed(chunk, |event| all.push(event));
        }
        all
    }

    #[test]
    fn a_line_or_an_event_without_end_filled_the_memory() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..20 {
            parser.feed(&piece, |_| {});
        }
        assert_eq!(parser.line.len(), MOST_BYTES);
        let mut parser = Parser::default();
        let line = [b"data: ", piece.as_slice(), b"\n"].concat();
        for _ in 0..20 {
            parser.feed(&line, |_| {});
        }
        assert!(parser.event.data.len() <= MOST_BYTES);
    }

    #[test]
    fn events_at_every_split() {
        let event =
            |id: &str, name: &str, data: &str| Event { id: Some(id.into()), name: name.into(), data: data.into() };
        let wanted = [event("x-1", "a", "{\"ä\":1}"), event("x-2", "", "one\ntwo")];
        for split in 0..=STREAM.len() {
            assert_eq!(events(&[&STREAM[..split], &STREAM[split..]]), wanted, "{split}");
        }
    }
}
