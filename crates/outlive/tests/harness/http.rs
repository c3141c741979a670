//! A small blocking HTTP client: one connection per request, or kept alive.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) json: Value,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }

    pub(crate) fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or("")
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Http {
    port: u16,
}

impl Http {
    pub(crate) fn new(port: u16) -> Self {
        Self { port }
    }

    pub(crate) fn get(self, path: &str) -> Response {
        self.send("GET", path, &[], None)
    }

    pub(crate) fn post(self, path: &str, body: &Value) -> Response {
        self.send("POST", path, &[("content-type", "application/json")], Some(body.to_string().as_bytes()))
    }

    pub(crate) fn send(self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Response {
        self.try_send(method, path, headers, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    pub(crate) fn connect(self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(90)))?;
        Ok(stream)
    }

    /// Sends a request and reads the head of the response; the body is read from the result.
    pub(crate) fn open(
        self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> std::io::Result<StreamingResponse> {
        let mut stream = self.connect()?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n", self.port);
        if !headers.iter().any(|(name, _)| *name == "connection") {
            head.push_str("connection: close\r\n");
        }
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        if let Some(body) = body {
            head.extend(["content-length: ", &body.len().to_string(), "\r\n"]);
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        if let Some(body) = body {
            stream.write_all(body)?;
        }
        StreamingResponse::read_head(stream)
    }

    /// Returns `Err` when the connection broke before the response was complete.
    pub(crate) fn try_send(
        self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> std::io::Result<Response> {
        let mut open = self.open(method, path, headers, body)?;
        let mut bytes = Vec::new();
        open.read_to_end(&mut bytes)?;
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Response { status: open.status, headers: open.headers, body: bytes, json })
    }
}

/// A response whose body is read piece by piece.
pub(crate) struct StreamingResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
    body: BodyLength,
}

enum BodyLength {
    Chunked { left: usize, finished: bool },
    Known(usize),
    None,
}

impl StreamingResponse {
    fn read_head(stream: TcpStream) -> std::io::Result<Self> {
        let broken = || std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "no response");
        let mut reader = BufReader::with_capacity(64 * 1024, stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|text| text.parse().ok()).ok_or_else(broken)?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
                None if line.trim_end().is_empty() && !line.is_empty() => break,
                None => return Err(broken()),
            }
        }
        let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let body = match (find("transfer-encoding"), find("content-length")) {
            (Some(_), _) => BodyLength::Chunked { left: 0, finished: false },
            (None, Some(length)) => BodyLength::Known(length.parse().map_err(|_| broken())?),
            (None, None) => BodyLength::None,
        };
        Ok(Self { status, headers, reader, body })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }
}

impl Read for StreamingResponse {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let cut = || std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the response was cut off");
        match &mut self.body {
            BodyLength::None | BodyLength::Known(0) | BodyLength::Chunked { finished: true, .. } => Ok(0),
            BodyLength::Known(left) => {
                let limit = buffer.len().min(*left);
                let count = self.reader.read(&mut buffer[..limit])?;
                if count == 0 {
                    return Err(cut());
                }
                *left -= count;
                Ok(count)
            }
            BodyLength::Chunked { left, finished } => {
                if *left == 0 {
                    let mut line = String::new();
                    self.reader.read_line(&mut line)?;
                    *left = usize::from_str_radix(line.trim(), 16).map_err(|_| cut())?;
                    if *left == 0 {
                        *finished = true;
                        return Ok(0);
                    }
                }
                let limit = buffer.len().min(*left);
                let count = self.reader.read(&mut buffer[..limit])?;
                if count == 0 {
                    return Err(cut());
                }
                *left -= count;
                if *left == 0 {
                    let mut end = [0u8; 2];
                    self.reader.read_exact(&mut end)?;
                }
                Ok(count)
            }
        }
    }
}

/// One server-sent event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: String,
}

/// Reads server-sent events from a response; `None` at its end or when the connection broke.
pub(crate) struct EventStream(BufReader<StreamingResponse>);

impl EventStream {
    pub(crate) fn new(open: StreamingResponse) -> Self {
        Self(BufReader::new(open))
    }

    pub(crate) fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            if line.is_empty() {
                if !event.data.is_empty() {
                    return Some(event);
                }
            } else if let Some(value) = line.strip_prefix("event: ") {
                value.clone_into(&mut event.name);
            } else if let Some(value) = line.strip_prefix("id: ") {
                value.clone_into(&mut event.id);
            } else if let Some(value) = line.strip_prefix("data: ") {
                event.data.push_str(value);
            }
        }
    }

    /// Skips events up to one with this name.
    pub(crate) fn skip_to(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().unwrap_or_else(|| panic!("the stream ended before {name}"));
            if event.name == name {
                return event;
            }
        }
    }
}
