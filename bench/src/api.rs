//! The calls that every contender understands.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::child::READY;
use crate::contenders::Contender;
use crate::daemon::Daemon;
use crate::http::{Connection, PATIENCE};
use crate::websocket::{Frame, WebSocket};

/// The body of a run that does nothing.
pub const RUN_TRUE: &str = r#"{"command":"/bin/true"}"#;

/// Runs /bin/true and checks that it was run.
pub fn run_true(connection: &mut Connection) -> Result<()> {
    let body = connection.expect("POST", "/v1/processes/run", Some(RUN_TRUE))?;
    if memchr::memmem::find(&body, b"\"exitCode\":0").is_none() {
        return Err(format!("run: {}", String::from_utf8_lossy(&body)).into());
    }
    Ok(())
}

/// Starts a program and gives back its id.
pub fn create(connection: &mut Connection, command: &str, arguments: &[&str], tty: bool) -> Result<String> {
    let body = json!({"command": command, "args": arguments, "tty": tty}).to_string();
    let answer = connection.expect("POST", "/v1/processes", Some(&body))?;
    let process: Value = serde_json::from_slice(&answer)?;
    Ok(process["id"].as_str().ok_or("a process without an id")?.to_owned())
}

/// Starts one of our own programs (child.rs).
pub fn create_own(connection: &mut Connection, arguments: &[&str], tty: bool) -> Result<String> {
    let program = std::env::current_exe()?;
    let all: Vec<&str> = std::iter::once("child").chain(arguments.iter().copied()).collect();
    create(connection, program.to_str().ok_or("our own path is not text")?, &all, tty)
}

pub fn input(connection: &mut Connection, id: &str, text: &str) -> Result<()> {
    let body = json!({"data": text, "encoding": "utf8"}).to_string();
    connection.expect("POST", &format!("/v1/processes/{id}/input"), Some(&body)).map(|_| ())
}

/// Ends a process and forgets it.
pub fn remove(connection: &mut Connection, id: &str) -> Result<()> {
    connection.call("POST", &format!("/v1/processes/{id}/kill?waitMs=5000"), None)?;
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = connection.call("DELETE", &format!("/v1/processes/{id}"), None)?;
        match answer.status {
            200..300 | 404 => return Ok(()),
            _ if Instant::now() > until => return Err(format!("{id} cannot be deleted: {}", answer.status).into()),
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Waits until a program has ended, and all of its output is in the log.
pub fn until_exited(connection: &mut Connection, id: &str) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let body = connection.expect("GET", &format!("/v1/processes/{id}"), None)?;
        let process: Value = serde_json::from_slice(&body)?;
        if process["status"] == "exited" {
            // sandbox-agent reads on for a moment.
            thread::sleep(Duration::from_millis(50));
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("the program in {id} did not end").into());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the program on a terminal has set its mode.
pub fn until_ready(connection: &mut Connection, id: &str) -> Result<()> {
    debug_assert_eq!(READY, b'!', "IQ== below is its base64");
    let until = Instant::now() + PATIENCE;
    loop {
        let logs = connection.expect("GET", &format!("/v1/processes/{id}/logs"), None)?;
        if memchr::memmem::find(&logs, b"IQ==").is_some() {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("the program in {id} did not get ready").into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Opens the socket of a terminal, and waits for the frame that says so.
pub fn attach(contender: &dyn Contender, daemon: &Daemon, id: &str) -> Result<WebSocket> {
    attach_at(daemon, &contender.terminal_path(id))
}

pub fn attach_at(daemon: &Daemon, path: &str) -> Result<WebSocket> {
    let mut socket = WebSocket::open(daemon.address, &daemon.token, path)?;
    match socket.next()? {
        Frame::Text(text) if memchr::memmem::find(text, b"\"ready\"").is_some() => Ok(socket),
        _ => Err("the socket did not begin with ready".into()),
    }
}

/// One byte in, its successor out.
pub fn echo(contender: &dyn Contender, socket: &mut WebSocket, byte: u8) -> Result<()> {
    let mut text = [0; 4];
    let (opcode, payload) = contender.input_frame((byte as char).encode_utf8(&mut text));
    socket.send(opcode, &payload)?;
    until_byte(socket, byte.wrapping_add(1))
}

pub fn until_byte(socket: &mut WebSocket, wanted: u8) -> Result<()> {
    loop {
        match socket.next()? {
            Frame::Binary(bytes) if bytes.contains(&wanted) => return Ok(()),
            Frame::Binary(_) => {}
            Frame::Text(text) => return Err(format!("instead of an echo: {}", String::from_utf8_lossy(text)).into()),
            Frame::Close => return Err("closed instead of an echo".into()),
        }
    }
}
