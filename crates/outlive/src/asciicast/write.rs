//! Writing a recording, line by line.

use std::fmt::Write as _;

use outlive_core::attach::Size;
use serde_json::{Map, json};

use super::{Version, code};
use crate::decoder::Decoder;

/// What a recording says about itself.
pub(crate) struct Beginning<'a> {
    pub(crate) size: Size,
    pub(crate) at_ms: u64,
    pub(crate) command: &'a str,
    pub(crate) title: Option<&'a str>,
}

pub(crate) struct Writer {
    version: Version,
    decoder: Decoder,
    begun_ms: u64,
    /// Of the latest event: clocks may be set back, recordings do not go back.
    latest_ms: u64,
}

impl Writer {
    pub(crate) fn begin(version: Version, beginning: &Beginning<'_>, out: &mut String) -> Self {
        let Size { cols, rows } = beginning.size;
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
        header.insert("timestamp".into(), json!(beginning.at_ms / 1000));
        header.insert("command".into(), json!(beginning.command));
        if let Some(title) = beginning.title {
            header.insert("title".into(), json!(title));
        }
        let _ = writeln!(out, "{}", json!(header));
        Self { version, decoder: Decoder::default(), begun_ms: beginning.at_ms, latest_ms: beginning.at_ms }
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

    /// Nothing comes any more; `ended` says when the program has, and with which status.
    pub(crate) fn end(&mut self, ended: Option<(u64, i32)>, out: &mut String) {
        if let Some(last) = self.decoder.finish() {
            self.event(self.latest_ms, code::OUTPUT, last.encode_utf8(&mut [0; 4]), out);
        }
        if let Some((at_ms, status)) = ended.filter(|_| self.version == Version::Three) {
            self.event(at_ms, code::EXIT, &status.to_string(), out);
        }
    }

    fn event(&mut self, at_ms: u64, code: &str, text: &str, out: &mut String) {
        let at_ms = at_ms.max(self.latest_ms);
        let since = match self.version {
            Version::Two => self.begun_ms,
            Version::Three => self.latest_ms,
        };
        self.latest_ms = at_ms;
        let ms = at_ms - since;
        let _ = writeln!(out, "[{}.{:03},\"{code}\",{}]", ms / 1000, ms % 1000, json!(text));
    }
}
