//! API calls that every contender supports.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::child::READY;
use crate::contenders::Contender;
use crate::daemon::Daemon;
use crate::http::{Connection, IO_TIMEOUT};
use crate::websocket::{Frame, WebSocket};

/// The body of a run that does nothing.
pub const RUN_TRUE: &str = r#"{"command":"/bin/true"}"#;

/// Runs /bin/true and checks its exit code.
pub fn run_true(connection: &mut Connection) -> Result<()> {
    let body = connection.expect("POST", "/v1/processes/run", Some(RUN_TRUE))?;
    if memchr::memmem::find(&body, b"\"exitCode\":0").is_none() {
        return Err(format!("run: {}", String::from_utf8_lossy(&body)).into());
    }
    Ok(())
}

/// Starts a program and returns its id.
pub fn create(connection: &mut Connection, command: &str, arguments: &[&str], tty: bool) -> Result<String> {
    let body = json!({"command": command, "args": arguments, "tty": tty}).to_string();
    let response = connection.expect("POST", "/v1/processes", Some(&body))?;
    let process: Value = serde_json::from_slice(&response)?;
    Ok(process["id"].as_str().ok_or("the created process has no id")?.to_owned())
}

/// Starts one of the programs in `child.rs`.
pub fn create_child(connection: &mut Connection, arguments: &[&str], tty: bool) -> Result<String> {
    let program = std::env::current_exe()?;
    let all: Vec<&str> = std::iter::once("child").chain(arguments.iter().copied()).collect();
    create(connection, program.to_str().ok_or("the path of the benchmark binary is not UTF-8")?, &all, tty)
}

pub fn send_input(connection: &mut Connection, id: &str, text: &str) -> Result<()> {
    let body = json!({"data": text, "encoding": "utf8"}).to_string();
    connection.expect("POST", &format!("/v1/processes/{id}/input"), Some(&body)).map(|_| ())
}

/// Kills a process and deletes its record.
pub fn remove(connection: &mut Connection, id: &str) -> Result<()> {
    connection.call("POST", &format!("/v1/processes/{id}/kill?waitMs=5000"), None)?;
    let deadline = Instant::now() + IO_TIMEOUT;
    loop {
        let response = connection.call("DELETE", &format!("/v1/processes/{id}"), None)?;
        match response.status {
            200..300 | 404 => return Ok(()),
            _ if Instant::now() > deadline => return Err(format!("cannot delete {id}: {}", response.status).into()),
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Waits until a program has exited and all of its output is in the log.
pub fn wait_for_exit(connection: &mut Connection, id: &str) -> Result<()> {
    let deadline = Instant::now() + IO_TIMEOUT;
    loop {
        let body = connection.expect("GET", &format!("/v1/processes/{id}"), None)?;
        let process: Value = serde_json::from_slice(&body)?;
        if process["status"] == "exited" {
            // sandbox-agent still reads output for a moment after it reports the exit.
            thread::sleep(Duration::from_millis(50));
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("the program in {id} did not exit").into());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the program on a terminal has set the terminal's mode.
pub fn wait_until_ready(connection: &mut Connection, id: &str) -> Result<()> {
    debug_assert_eq!(READY, b'!', "IQ== below is its base64");
    let deadline = Instant::now() + IO_TIMEOUT;
    loop {
        let logs = connection.expect("GET", &format!("/v1/processes/{id}/logs"), None)?;
        if memchr::memmem::find(&logs, b"IQ==").is_some() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("the program in {id} did not become ready").into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Opens the socket of a terminal and waits for its `ready` frame.
pub fn attach(contender: &dyn Contender, daemon: &Daemon, id: &str) -> Result<WebSocket> {
    attach_at(daemon, &contender.terminal_path(id))
}

pub fn attach_at(daemon: &Daemon, path: &str) -> Result<WebSocket> {
    let mut socket = WebSocket::open(daemon.address, &daemon.token, path)?;
    match socket.next()? {
        Frame::Text(text) if memchr::memmem::find(text, b"\"ready\"").is_some() => Ok(socket),
        _ => Err("the first frame of the socket is not `ready`".into()),
    }
}

/// Sends one byte and waits for the next byte value, which the `echo` program replies with.
pub fn echo(contender: &dyn Contender, socket: &mut WebSocket, byte: u8) -> Result<()> {
    let mut text = [0; 4];
    let (opcode, payload) = contender.input_frame((byte as char).encode_utf8(&mut text));
    socket.send(opcode, &payload)?;
    wait_for_byte(socket, byte.wrapping_add(1))
}

fn wait_for_byte(socket: &mut WebSocket, wanted: u8) -> Result<()> {
    loop {
        match socket.next()? {
            Frame::Binary(bytes) if bytes.contains(&wanted) => return Ok(()),
            Frame::Binary(_) => {}
            Frame::Text(text) => {
                return Err(format!("expected an echo, received {}", String::from_utf8_lossy(text)).into());
            }
            Frame::Close => return Err("the socket closed before the echo".into()),
        }
    }
}
