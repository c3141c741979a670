//! Server-sent events taken apart again, for those who get them over a socket.

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: Option<String>,
    /// Empty for a comment: a sign of life, which clients that count silence need as well.
    pub(super) data: String,
}

/// What has come of an event so far.
#[derive(Default)]
pub(super) struct Frames {
    rest: Vec<u8>,
}

impl Frames {
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.rest.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut from = 0;
        while let Some(length) = self.rest[from..].windows(2).position(|two| two == b"\n\n") {
            events.push(event(&String::from_utf8_lossy(&self.rest[from..from + length])));
            from += length + 2;
        }
        self.rest.drain(..from);
        events
    }
}

fn event(text: &str) -> Event {
    let field = |name: &str| text.lines().filter_map(|line| line.strip_prefix(name)).map(str::trim_start).collect();
    let (names, data): (Vec<&str>, Vec<&str>) = (field("event:"), field("data:"));
    Event { name: names.last().map(|&name| name.to_owned()), data: data.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_wherever_they_were_cut() {
        let text = "data: {\"a\":\"é\"}\n\n:\n\nevent: x\nid: 3\ndata: 1\ndata: 2\n\n".as_bytes();
        let expected = Frames::default().take(text);
        let data: Vec<&str> = expected.iter().map(|event| event.data.as_str()).collect();
        assert_eq!(data, ["{\"a\":\"é\"}", "", "1\n2"]);
        assert_eq!(expected[2].name.as_deref(), Some("x"));
        for cut in 0..=text.len() {
            let mut frames = Frames::default();
            let mut all = frames.take(&text[..cut]);
            all.extend(frames.take(&text[cut..]));
            assert_eq!(all, expected, "{cut}");
        }
    }
}
