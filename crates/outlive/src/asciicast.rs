//! Terminal recordings in the format of asciinema, versions 2 and 3: a header line, then one line per event.
//!
//! Event times count from the start in version 2, and from the previous event in version 3.

use std::fmt::Write as _;
use std::time::Duration;

use outlive_core::attach::Size;
use serde::Deserialize;
use serde_json::{Map, json};

use crate::utf8_decoder::Utf8Decoder;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    #[default]
    Two,
    Three,
}

/// Event codes; events with other codes are ignored.
mod code {
    pub(super) const OUTPUT: &str = "o";
    pub(super) const RESIZE: &str = "r";
    pub(super) const MARKER: &str = "m";
    /// Version 3 only.
    pub(super) const EXIT: &str = "x";
}

/// Header fields of a new recording.
pub(crate) struct RecordingInfo<'a> {
    pub(crate) size: Size,
    pub(crate) started_at_ms: u64,
    pub(crate) command: &'a str,
    pub(crate) title: Option<&'a str>,
}

/// Writes a recording line by line.
pub(crate) struct Writer {
    version: Version,
    decoder: Utf8Decoder,
    started_at_ms: u64,
    /// Time of the last event. Event times never decrease, even if the clock is set back.
    last_ms: u64,
}

impl Writer {
    /// Writes the header.
    pub(crate) fn start(version: Version, info: &RecordingInfo<'_>, out: &mut String) -> Self {
        let Size { cols, rows } = info.size;
        let mut header = Map::new();
        match version {
            Version::Two => {
                header.extend([
                    ("version".into(), json!(2)),
                    ("width".into(), json!(cols)),
                    ("height".into(), json!(rows)),
                ]);
            }
            Version::Three => {
                header.extend([("version".into(), json!(3)), ("term".into(), json!({ "cols": cols, "rows": rows }))]);
            }
        }
        header.insert("timestamp".into(), json!(info.started_at_ms / 1000));
        header.insert("command".into(), json!(info.command));
        if let Some(title) = info.title {
            header.insert("title".into(), json!(title));
        }
        let _ = writeln!(out, "{}", json!(header));
        let (started_at_ms, decoder) = (info.started_at_ms, Utf8Decoder::default());
        Self { version, decoder, started_at_ms, last_ms: started_at_ms }
    }

    pub(crate) fn output(&mut self, at_ms: u64, bytes: &[u8], out: &mut String) {
        let text = self.decoder.decode(bytes);
        if !text.is_empty() {
            self.event(at_ms, code::OUTPUT, &text, out);
        }
    }

    pub(crate) fn resize(&mut self, at_ms: u64, size: Size, out: &mut String) {
        self.event(at_ms, code::RESIZE, &format!("{}x{}", size.cols, size.rows), out);
    }

    pub(crate) fn marker(&mut self, at_ms: u64, text: &str, out: &mut String) {
        self.event(at_ms, code::MARKER, text, out);
    }

    /// Ends the recording; `exit` is the time and status of the program's exit.
    pub(crate) fn finish(&mut self, exit: Option<(u64, i32)>, out: &mut String) {
        if let Some(last) = self.decoder.finish() {
            self.event(self.last_ms, code::OUTPUT, last.encode_utf8(&mut [0; 4]), out);
        }
        if let Some((at_ms, status)) = exit.filter(|_| self.version == Version::Three) {
            self.event(at_ms, code::EXIT, &status.to_string(), out);
        }
    }

    fn event(&mut self, at_ms: u64, code: &str, text: &str, out: &mut String) {
        let at_ms = at_ms.max(self.last_ms);
        let since_ms = match self.version {
            Version::Two => self.started_at_ms,
            Version::Three => self.last_ms,
        };
        self.last_ms = at_ms;
        let ms = at_ms - since_ms;
        let _ = writeln!(out, "[{}.{:03},\"{code}\",{}]", ms / 1000, ms % 1000, json!(text));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// An event, with the time since the previous one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Output(Duration, String),
    /// Not needed to play the recording, except for its time.
    Other(Duration),
}

#[derive(Deserialize)]
struct HeaderLine {
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

/// Parses a recording line by line, also one that another program has written.
pub(crate) struct Reader {
    pub(crate) header: Header,
    /// Version 2: time of the last event since the start.
    last: Duration,
}

impl Reader {
    /// `line` is the first line of a recording.
    pub(crate) fn new(line: &str) -> Result<Self, String> {
        let header: HeaderLine =
            serde_json::from_str(line).map_err(|_| "the first line is not an asciicast header".to_owned())?;
        let no_size = || "the header has no terminal size".to_owned();
        let (version, cols, rows) = match header.version {
            2 => (Version::Two, header.width.ok_or_else(no_size)?, header.height.ok_or_else(no_size)?),
            3 => header.term.map(|term| (Version::Three, term.cols, term.rows)).ok_or_else(no_size)?,
            other => return Err(format!("asciicast version {other} is not supported; use version 2 or 3")),
        };
        Ok(Self { header: Header { version, cols, rows }, last: Duration::ZERO })
    }

    /// `None` for a comment or an empty line. An error is the end of a sentence that starts with the line number.
    pub(crate) fn event(&mut self, line: &str) -> Result<Option<Event>, String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (seconds, kind, text): (f64, String, String) =
            serde_json::from_str(line).map_err(|_| "is not an asciicast event".to_owned())?;
        let time = Duration::try_from_secs_f64(seconds).map_err(|_| "has an invalid time".to_owned())?;
        let delay = match self.header.version {
            Version::Two => {
                let delay = time.saturating_sub(self.last);
                self.last = self.last.max(time);
                delay
            }
            Version::Three => time,
        };
        Ok(Some(if kind == code::OUTPUT { Event::Output(delay, text) } else { Event::Other(delay) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_sample(version: Version) -> String {
        let size = Size { cols: 90, rows: 25 };
        let mut out = String::new();
        let (command, title) = ("sh", Some("a \"title\""));
        let info = RecordingInfo { size, started_at_ms: 1_700_000_000_500, command, title };
        let mut writer = Writer::start(version, &info, &mut out);
        writer.output(1_700_000_001_000, "h\u{e9}".as_bytes().split_at(2).0, &mut out);
        writer.output(1_700_000_002_250, &"\u{e9}".as_bytes()[1..], &mut out);
        writer.resize(1_700_000_002_250, Size { cols: 100, rows: 30 }, &mut out);
        // The clock was set back.
        writer.output(1_600_000_000_000, b"\x1b[1m\xff", &mut out);
        writer.output(1_700_000_003_000, b"\xe2\x82", &mut out);
        writer.finish(Some((1_700_000_004_000, 3)), &mut out);
        out
    }

    #[test]
    fn both_versions_are_written_as_documented() {
        let two = "{\"command\":\"sh\",\"height\":25,\"timestamp\":1700000000,\"title\":\"a \\\"title\\\"\",\"version\":2,\"width\":90}\n\
                   [0.500,\"o\",\"h\"]\n[1.750,\"o\",\"\u{e9}\"]\n[1.750,\"r\",\"100x30\"]\n[1.750,\"o\",\"\\u001b[1m\u{fffd}\"]\n\
                   [1.750,\"o\",\"\u{fffd}\"]\n";
        assert_eq!(write_sample(Version::Two), two);
        let three = "{\"command\":\"sh\",\"term\":{\"cols\":90,\"rows\":25},\"timestamp\":1700000000,\"title\":\"a \\\"title\\\"\",\"version\":3}\n\
                     [0.500,\"o\",\"h\"]\n[1.250,\"o\",\"\u{e9}\"]\n[0.000,\"r\",\"100x30\"]\n[0.000,\"o\",\"\\u001b[1m\u{fffd}\"]\n\
                     [0.000,\"o\",\"\u{fffd}\"]\n[1.750,\"x\",\"3\"]\n";
        assert_eq!(write_sample(Version::Three), three);
    }

    #[test]
    fn both_versions_survive_a_round_trip() {
        for version in [Version::Two, Version::Three] {
            let text = write_sample(version);
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
    fn invalid_recordings_are_rejected() {
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
