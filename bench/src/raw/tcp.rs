//! Loopback TCP between two threads.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;

/// The size of a masked WebSocket frame with a payload of one byte.
const MESSAGE_BYTES: usize = 7;
const CHUNK_BYTES: usize = 64 * 1024;

fn pair() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok((client, server))
}

/// The time of each of `count` round trips of a small message.
pub fn ping_pong(count: usize) -> Result<Vec<Duration>> {
    let (mut near, mut far) = pair()?;
    thread::spawn(move || {
        let mut message = [0; MESSAGE_BYTES];
        while far.read_exact(&mut message).is_ok() && far.write_all(&message).is_ok() {}
    });
    let mut message = [7; MESSAGE_BYTES];
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        near.write_all(&message)?;
        near.read_exact(&mut message)?;
        times.push(started.elapsed());
    }
    Ok(times)
}

/// The time that `bytes` bytes take from one end to the other.
pub fn transfer(bytes: u64) -> Result<Duration> {
    let (mut near, mut far) = pair()?;
    let writer = thread::spawn(move || {
        let chunk = vec![1; CHUNK_BYTES];
        let mut left = bytes;
        while left > 0 {
            let count = left.min(CHUNK_BYTES as u64) as usize;
            if far.write_all(&chunk[..count]).is_err() {
                return;
            }
            left -= count as u64;
        }
    });
    let started = Instant::now();
    let mut buffer = vec![0; 4 * CHUNK_BYTES];
    let mut received = 0;
    while received < bytes {
        let count = near.read(&mut buffer)?;
        if count == 0 {
            return Err("loopback TCP ended early".into());
        }
        received += count as u64;
    }
    let time = started.elapsed();
    let _ = writer.join();
    Ok(time)
}
