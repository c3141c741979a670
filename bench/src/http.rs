//! A minimal HTTP/1.1 client over one blocking, kept-alive connection.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::Result;
use crate::incoming::Incoming;

/// Longer than anything measured here takes. A contender that hangs fails its round instead of stopping the whole run.
pub const IO_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Connection {
    incoming: Incoming,
    outgoing: TcpStream,
    head: String,
    request: Vec<u8>,
}

pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
}

pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    Ok(stream)
}

impl Connection {
    pub fn open(address: SocketAddr, token: &str) -> Result<Self> {
        let outgoing = connect(address)?;
        let head = format!("host: {address}\r\nauthorization: Bearer {token}\r\n");
        Ok(Self { incoming: Incoming::new(outgoing.try_clone()?), outgoing, head, request: Vec::new() })
    }

    /// Sends a request and reads the whole response.
    pub fn call(&mut self, method: &str, path: &str, body: Option<&str>) -> Result<Response> {
        self.send(method, path, body)?;
        let (status, framing) = self.read_response_head()?;
        let mut body = Vec::new();
        self.read_body(framing, |piece| {
            body.extend_from_slice(piece);
            true
        })?;
        Ok(Response { status, body })
    }

    /// Sends a request and returns the body; any status but 2xx is an error.
    pub fn expect(&mut self, method: &str, path: &str, body: Option<&str>) -> Result<Vec<u8>> {
        let response = self.call(method, path, body)?;
        if (200..300).contains(&response.status) {
            return Ok(response.body);
        }
        let text = String::from_utf8_lossy(&response.body);
        Err(format!("{method} {path}: {} {text}", response.status).into())
    }

    /// Starts to read a streamed response; `Stream::for_each_chunk` reads its body.
    pub fn follow(mut self, path: &str) -> Result<Stream> {
        self.send("GET", path, None)?;
        let (status, framing) = self.read_response_head()?;
        if status != 200 {
            return Err(format!("GET {path}: {status}").into());
        }
        Ok(Stream { connection: self, framing })
    }

    fn send(&mut self, method: &str, path: &str, body: Option<&str>) -> Result<()> {
        self.request.clear();
        write!(self.request, "{method} {path} HTTP/1.1\r\n{}", self.head)?;
        match body {
            Some(body) => {
                write!(self.request, "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
            }
            None => self.request.extend_from_slice(b"\r\n"),
        }
        Ok(self.outgoing.write_all(&self.request)?)
    }

    fn read_response_head(&mut self) -> Result<(u16, Framing)> {
        let length = self.incoming.read_until(b"\r\n\r\n")?;
        let head = str::from_utf8(&self.incoming.available()[..length])?;
        let status = head.get(9..12).ok_or("no status line")?.parse()?;
        let mut framing = Framing::Length(0);
        for line in head.split("\r\n").skip(1) {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                framing = Framing::Length(value.trim().parse()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                framing = Framing::Chunked;
            }
        }
        self.incoming.consume(length);
        Ok((status, framing))
    }

    /// Passes the body to `each` in chunks, until the body ends or `each` returns false. In the second case the rest of
    /// the body is unread, so the connection cannot be used again.
    fn read_body(&mut self, framing: Framing, mut each: impl FnMut(&[u8]) -> bool) -> Result<()> {
        match framing {
            Framing::Length(length) => self.read_piece(length, &mut each).map(|_| ()),
            Framing::Chunked => loop {
                let line = self.incoming.read_until(b"\r\n")?;
                let digits = str::from_utf8(&self.incoming.available()[..line - 2])?;
                let length = usize::from_str_radix(digits.split(';').next().unwrap_or_default(), 16)?;
                self.incoming.consume(line);
                if !self.read_piece(length, &mut each)? {
                    return Ok(());
                }
                self.incoming.require(2)?;
                self.incoming.consume(2);
                if length == 0 {
                    return Ok(());
                }
            },
        }
    }

    fn read_piece(&mut self, length: usize, each: &mut impl FnMut(&[u8]) -> bool) -> Result<bool> {
        let mut left = length;
        while left > 0 {
            self.incoming.require(1)?;
            let available = self.incoming.available();
            let count = left.min(available.len());
            let wants_more = each(&available[..count]);
            self.incoming.consume(count);
            left -= count;
            if !wants_more {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A response that is read while the server still writes it.
pub struct Stream {
    connection: Connection,
    framing: Framing,
}

impl Stream {
    pub fn for_each_chunk(mut self, mut each: impl FnMut(&[u8]) -> bool) -> Result<()> {
        // A stream that carries only keep-alives never exceeds the read timeout, so the whole stream has a deadline.
        let deadline = Instant::now() + IO_TIMEOUT;
        let mut is_late = false;
        self.connection.read_body(self.framing, |piece| {
            let wants_more = each(piece);
            is_late = wants_more && Instant::now() > deadline;
            wants_more && !is_late
        })?;
        if is_late { Err("the stream did not end within the timeout".into()) } else { Ok(()) }
    }
}
