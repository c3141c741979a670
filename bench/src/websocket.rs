//! A blocking WebSocket client that supports unfragmented frames and no extensions.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use crate::Result;
use crate::http::connect;
use crate::incoming::Incoming;

const MASK: [u8; 4] = [0x5a, 0x17, 0xc3, 0x88];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    Text = 1,
    Binary = 2,
    Pong = 10,
}

pub enum Frame<'a> {
    Text(&'a [u8]),
    Binary(&'a [u8]),
    Close,
}

pub struct WebSocket {
    incoming: Incoming,
    outgoing: TcpStream,
    /// Length of the frame that `next` returned last, which is still in the buffer.
    returned_frame_bytes: usize,
    frame: Vec<u8>,
}

impl WebSocket {
    pub fn open(address: SocketAddr, token: &str, path: &str) -> Result<Self> {
        let mut outgoing = connect(address)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: Upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        outgoing.write_all(request.as_bytes())?;
        let mut incoming = Incoming::new(outgoing.try_clone()?);
        let head = incoming.read_until(b"\r\n\r\n")?;
        let status = incoming.available().get(9..12).map(<[u8]>::to_vec);
        incoming.consume(head);
        if status.as_deref() != Some(b"101") {
            return Err(format!(
                "cannot upgrade {path} to a WebSocket: status {}",
                String::from_utf8_lossy(&status.unwrap_or_default())
            )
            .into());
        }
        Ok(Self { incoming, outgoing, returned_frame_bytes: 0, frame: Vec::new() })
    }

    pub fn send(&mut self, opcode: Opcode, payload: &[u8]) -> Result<()> {
        self.frame.clear();
        self.frame.push(0x80 | opcode as u8);
        match payload.len() {
            length @ 0..126 => self.frame.push(0x80 | length as u8),
            length => {
                self.frame.push(0x80 | 0x7e);
                self.frame.extend_from_slice(&u16::try_from(length)?.to_be_bytes());
            }
        }
        self.frame.extend_from_slice(&MASK);
        self.frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        Ok(self.outgoing.write_all(&self.frame)?)
    }

    /// Returns the next data or close frame, and replies to pings. outlive takes a pong as the confirmation that the
    /// client has received everything before it.
    pub fn next(&mut self) -> Result<Frame<'_>> {
        let (opcode, head, length) = loop {
            let returned_frame_bytes = std::mem::take(&mut self.returned_frame_bytes);
            self.incoming.consume(returned_frame_bytes);
            let (opcode, head, length) = self.frame_head()?;
            self.incoming.require(head + length)?;
            self.returned_frame_bytes = head + length;
            match opcode {
                9 => {
                    let payload = self.incoming.available()[head..head + length].to_vec();
                    self.send(Opcode::Pong, &payload)?;
                }
                0 | 1 | 2 | 8 => break (opcode, head, length),
                _ => {}
            }
        };
        let payload = &self.incoming.available()[head..head + length];
        Ok(match opcode {
            1 => Frame::Text(payload),
            8 => Frame::Close,
            _ => Frame::Binary(payload),
        })
    }

    fn frame_head(&mut self) -> Result<(u8, usize, usize)> {
        self.incoming.require(2)?;
        let [first, second] = [self.incoming.available()[0], self.incoming.available()[1]];
        let (head, length) = match second & 0x7f {
            126 => {
                self.incoming.require(4)?;
                let bytes = &self.incoming.available()[2..4];
                (4, u16::from_be_bytes([bytes[0], bytes[1]]) as usize)
            }
            127 => {
                self.incoming.require(10)?;
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&self.incoming.available()[2..10]);
                (10, usize::try_from(u64::from_be_bytes(bytes))?)
            }
            length => (2, length as usize),
        };
        Ok((first & 0x0f, head, length))
    }
}
