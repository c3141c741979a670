//! HTTP/1.1 over one blocking, kept-alive connection: as little client as possible.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::Result;
use crate::incoming::Incoming;

/// Nothing measured here takes so long; whoever hangs fails its round instead of the whole run.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Connection {
    incoming: Incoming,
    outgoing: TcpStream,
    head: String,
    request: Vec<u8>,
}

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
}

pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

impl Connection {
    pub fn open(address: SocketAddr, token: &str) -> Result<Self> {
        let outgoing = connect(address)?;
        let head = format!("host: {address}\r\nauthorization: Bearer {token}\r\n");
        Ok(Self { incoming: Incoming::new(outgoing.try_clone()?), outgoing, head, request: Vec::new() })
    }

    /// One request, and its whole answer.
    pub fn call(&mut self, method: &str, path: &str, body: Option<&str>) -> Result<Answer> {
        self.send(method, path, body)?;
        let (status, framing) = self.answer_head()?;
        let mut body = Vec::new();
        self.read_body(framing, |piece| {
            body.extend_from_slice(piece);
            true
        })?;
        Ok(Answer { status, body })
    }

    /// One request that must succeed.
    pub fn expect(&mut self, method: &str, path: &str, body: Option<&str>) -> Result<Vec<u8>> {
        let answer = self.call(method, path, body)?;
        if (200..300).contains(&answer.status) {
            return Ok(answer.body);
        }
        let text = String::from_utf8_lossy(&answer.body);
        Err(format!("{method} {path}: {} {text}", answer.status).into())
    }

    /// Begins to read an endless answer; `Stream::pieces` goes on with it.
    pub fn follow(mut self, path: &str) -> Result<Stream> {
        self.send("GET", path, None)?;
        let (status, framing) = self.answer_head()?;
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

    fn answer_head(&mut self) -> Result<(u16, Framing)> {
        let length = self.incoming.until(b"\r\n\r\n")?;
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

    /// Gives out the body piece by piece until its end, or until `each` wants no more. The connection is of no use
    /// after the latter.
    fn read_body(&mut self, framing: Framing, mut each: impl FnMut(&[u8]) -> bool) -> Result<()> {
        match framing {
            Framing::Length(length) => self.read_piece(length, &mut each).map(|_| ()),
            Framing::Chunked => loop {
                let line = self.incoming.until(b"\r\n")?;
                let digits = str::from_utf8(&self.incoming.available()[..line - 2])?;
                let length = usize::from_str_radix(digits.split(';').next().unwrap_or_default(), 16)?;
                self.incoming.consume(line);
                if !self.read_piece(length, &mut each)? {
                    return Ok(());
                }
                self.incoming.need(2)?;
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
            self.incoming.need(1)?;
            let available = self.incoming.available();
            let count = left.min(available.len());
            let goes_on = each(&available[..count]);
            self.incoming.consume(count);
            left -= count;
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// An answer that is read while it is being written.
pub struct Stream {
    connection: Connection,
    framing: Framing,
}

impl Stream {
    pub fn pieces(mut self, mut each: impl FnMut(&[u8]) -> bool) -> Result<()> {
        // One that says nothing but "I am still here" would pass every time limit of a single read.
        let until = Instant::now() + PATIENCE;
        let mut is_late = false;
        self.connection.read_body(self.framing, |piece| {
            let goes_on = each(piece);
            is_late = goes_on && Instant::now() > until;
            goes_on && !is_late
        })?;
        if is_late { Err("the stream did not come to its end in time".into()) } else { Ok(()) }
    }
}
