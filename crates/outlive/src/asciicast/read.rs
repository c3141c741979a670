//! Reading a recording, ours or another's.

use std::time::Duration;

use serde::Deserialize;

use super::{Version, code};

/// What the first line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// Something that happens, and how long after the event before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Output(Duration, String),
    /// What a player has no need to know; but time passes.
    Other(Duration),
}

#[derive(Deserialize)]
struct First {
    version: u8,
    width: Option<u16>,
    height: Option<u16>,
    term: Option<Term>,
}

#[derive(Deserialize)]
struct Term {
    cols: u16,
    rows: u16,
}

pub(crate) struct Reader {
    pub(crate) header: Header,
    /// Version 2: of the latest event, since the beginning.
    latest: Duration,
}

impl Reader {
    /// `line` is the first of a recording.
    pub(crate) fn new(line: &str) -> Result<Self, String> {
        let first: First =
            serde_json::from_str(line).map_err(|_| "its first line is no header of an asciicast".to_owned())?;
        let wrong = || "its header does not say how large the terminal was".to_owned();
        let (version, cols, rows) = match first.version {
            2 => (Version::Two, first.width.ok_or_else(wrong)?, first.height.ok_or_else(wrong)?),
            3 => first.term.map(|term| (Version::Three, term.cols, term.rows)).ok_or_else(wrong)?,
            other => return Err(format!("version {other} is not one of those that can be played: 2 and 3")),
        };
        Ok(Self { header: Header { version, cols, rows }, latest: Duration::ZERO })
    }

    /// `None`: a comment, or nothing.
    pub(crate) fn event(&mut self, line: &str) -> Result<Option<Event>, String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (seconds, kind, text): (f64, String, String) =
            serde_json::from_str(line).map_err(|_| "is no event of an asciicast".to_owned())?;
        let time =
            Duration::try_from_secs_f64(seconds).map_err(|_| "has no time that could be waited for".to_owned())?;
        let after = match self.header.version {
            Version::Two => {
                let after = time.saturating_sub(self.latest);
                self.latest = self.latest.max(time);
                after
            }
            Version::Three => time,
        };
        Ok(Some(if kind == code::OUTPUT { Event::Output(after, text) } else { Event::Other(after) }))
    }
}

#[cfg(test)]
mod tests {
    use outlive_core::attach::Size;

    use super::super::{Beginning, Writer};
    use super::*;

    fn written(version: Version) -> String {
        let size = Size { cols: 90, rows: 25 };
        let mut out = String::new();
        let beginning = Beginning { size, at_ms: 1_700_000_000_500, command: "sh", title: Some("a \"title\"") };
        let mut writer = Writer::begin(version, &beginning, &mut out);
        writer.output(1_700_000_001_000, "h\u{e9}".as_bytes().split_at(2).0, &mut out);
        writer.output(1_700_000_002_250, &"\u{e9}".as_bytes()[1..], &mut out);
        writer.resize(1_700_000_002_250, Size { cols: 100, rows: 30 }, &mut out);
        // The clock was set back.
        writer.output(1_600_000_000_000, b"\x1b[1m\xff", &mut out);
        writer.output(1_700_000_003_000, b"\xe2\x82", &mut out);
        writer.end(Some((1_700_000_004_000, 3)), &mut out);
        out
    }

    #[test]
    fn both_versions_as_they_are_documented() {
        let two = "{\"command\":\"sh\",\"height\":25,\"timestamp\":1700000000,\"title\":\"a \\\"title\\\"\",\"version\":2,\"width\":90}\n\
                   [0.500,\"o\",\"h\"]\n[1.750,\"o\",\"\u{e9}\"]\n[1.750,\"r\",\"100x30\"]\n[1.750,\"o\",\"\\u001b[1m\u{fffd}\"]\n\
                   [1.750,\"o\",\"\u{fffd}\"]\n";
        assert_eq!(written(Version::Two), two);
        let three = "{\"command\":\"sh\",\"term\":{\"cols\":90,\"rows\":25},\"timestamp\":1700000000,\"title\":\"a \\\"title\\\"\",\"version\":3}\n\
                     [0.500,\"o\",\"h\"]\n[1.250,\"o\",\"\u{e9}\"]\n[0.000,\"r\",\"100x30\"]\n[0.000,\"o\",\"\\u001b[1m\u{fffd}\"]\n\
                     [0.000,\"o\",\"\u{fffd}\"]\n[1.750,\"x\",\"3\"]\n";
        assert_eq!(written(Version::Three), three);
    }

    #[test]
    fn what_was_written_is_read_in_both_versions() {
        for version in [Version::Two, Version::Three] {
            let text = written(version);
            let mut lines = text.lines();
            let mut reader = Reader::new(lines.next().unwrap()).unwrap();
            assert_eq!(reader.header, Header { version, cols: 90, rows: 25 });
            let events: Vec<_> = lines.filter_map(|line| reader.event(line).unwrap()).collect();
            assert_eq!(events[0], Event::Output(Duration::from_millis(500), "h".into()));
            assert_eq!(events[1], Event::Output(Duration::from_millis(1250), "\u{e9}".into()));
            assert_eq!(events[2], Event::Other(Duration::ZERO));
        }
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        for line in ["", "[]", "{}", r#"{"version":1}"#, r#"{"version":2}"#, r#"{"version":3,"term":{}}"#] {
            assert!(Reader::new(line).is_err(), "{line}");
        }
        let mut reader = Reader::new(r#"{"version":2,"width":1,"height":1}"#).unwrap();
        for line in ["[]", "[-1,\"o\",\"x\"]", "[1e300,\"o\",\"x\"]", "{}", "[1,2,3]"] {
            assert!(reader.event(line).is_err(), "{line}");
        }
        assert_eq!(reader.event("# a comment"), Ok(None));
    }
}
