//! A blocking WebSocket client that tracks offsets as docs/reference/http-sockets.md says.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use super::http::Http;

pub(crate) struct Socket {
    pub(crate) inner: WebSocket<TcpStream>,
    /// Offset of the next byte.
    pub(crate) offset: u64,
    /// Whether frames start with the stream number, as those of a process on pipes do.
    tagged: bool,
    pub(crate) ready: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    Bytes { offset: u64, stream: u8, bytes: Vec<u8> },
    Control(Value),
    Closed(Option<u16>),
}

impl Socket {
    /// Connects to `/v1/processes/{id}/connect?{query}`.
    pub(crate) fn connect(http: Http, id: &str, query: &str, tagged: bool) -> Self {
        Self::try_connect(http, id, query, tagged).unwrap_or_else(|error| panic!("connect {id}: {error}"))
    }

    pub(crate) fn try_connect(http: Http, id: &str, query: &str, tagged: bool) -> Result<Self, String> {
        Self::open(http, &format!("/v1/processes/{id}/connect?{query}"), tagged, None)
    }

    pub(crate) fn open(http: Http, path: &str, tagged: bool, max_message: Option<usize>) -> Result<Self, String> {
        let stream = http.connect().map_err(|error| error.to_string())?;
        let address = stream.peer_addr().map_err(|error| error.to_string())?;
        let config = WebSocketConfig::default().max_message_size(max_message.or(Some(64 << 20)));
        let url = format!("ws://{address}{path}");
        let (inner, _) =
            tungstenite::client::client_with_config(url, stream, Some(config)).map_err(|error| format!("{error:?}"))?;
        let mut socket = Self { inner, offset: 0, tagged, ready: Value::Null };
        match socket.next() {
            Frame::Control(ready) if ready["type"] == "ready" => {
                socket.offset = ready["offset"].as_u64().unwrap_or(0);
                socket.ready = ready;
                Ok(socket)
            }
            other => Err(format!("expected ready, got {other:?}")),
        }
    }

    /// Reads the next frame; a broken connection is `Closed(None)`.
    pub(crate) fn next(&mut self) -> Frame {
        loop {
            match self.inner.read() {
                Ok(Message::Binary(bytes)) => {
                    let (stream, bytes) = if self.tagged { (bytes[0], &bytes[1..]) } else { (0, &bytes[..]) };
                    let offset = self.offset;
                    self.offset += bytes.len() as u64;
                    return Frame::Bytes { offset, stream, bytes: bytes.to_vec() };
                }
                Ok(Message::Text(text)) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    if frame["type"] == "gap" {
                        self.offset = frame["to"].as_u64().unwrap();
                    }
                    return Frame::Control(frame);
                }
                Ok(Message::Close(frame)) => {
                    let _ = self.inner.flush();
                    return Frame::Closed(frame.map(|frame| frame.code.into()));
                }
                Ok(_) => {}
                Err(_) => return Frame::Closed(None),
            }
        }
    }

    /// Reads all bytes up to the exit frame and returns both. Panics on a gap.
    pub(crate) fn read_to_exit(&mut self) -> (Vec<u8>, Value) {
        let mut all = Vec::new();
        loop {
            match self.next() {
                Frame::Bytes { bytes, .. } => all.extend_from_slice(&bytes),
                Frame::Control(frame) if frame["type"] == "exit" => return (all, frame),
                Frame::Control(frame) if frame["type"] == "resized" => {}
                other => panic!("unexpected {other:?} after {} bytes", all.len()),
            }
        }
    }

    /// Reads until the bytes so far contain `text`; returns them.
    pub(crate) fn read_until(&mut self, text: &str) -> Vec<u8> {
        let mut all: Vec<u8> = Vec::new();
        loop {
            match self.next() {
                Frame::Bytes { bytes, .. } => {
                    all.extend_from_slice(&bytes);
                    if all.windows(text.len()).any(|window| window == text.as_bytes()) {
                        return all;
                    }
                }
                Frame::Control(frame) if frame["type"] == "resized" => {}
                other => panic!("{other:?} while waiting for {text:?}; so far {:?}", String::from_utf8_lossy(&all)),
            }
        }
    }

    pub(crate) fn send_control(&mut self, frame: Value) {
        self.inner.send(Message::Text(frame.to_string().into())).unwrap();
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        self.send_control(json!({ "type": "input", "data": text }));
    }

    pub(crate) fn resize(&mut self, cols: u16, rows: u16) {
        self.send_control(json!({ "type": "resize", "cols": cols, "rows": rows }));
    }

    /// Closes the TCP connection without a close frame; returns the offset reached.
    pub(crate) fn disconnect(self) -> u64 {
        let _ = self.inner.get_ref().shutdown(std::net::Shutdown::Both);
        self.offset
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.inner.get_ref().set_read_timeout(timeout).unwrap();
    }
}
