//! Starts a real outlive on a free port for one test, and has small blocking clients for it.
//!
//! Tests wait for facts: a response, an event, a line in /proc. Nothing here sleeps to synchronise; [`eventually`]
//! polls for the facts that no event announces.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

pub(crate) mod http;
pub(crate) mod proc;
pub(crate) mod socket;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::http::{Http, Response};

/// Longer than any single step of a test takes, even on a busy machine.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Writes an executable file. A child process does it: children that other tests start at this moment would inherit a
/// descriptor of this process, and a file that is open for writing cannot be executed.
pub(crate) fn write_executable(path: &Path, contents: &[u8]) {
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    writer.stdin.take().unwrap().write_all(contents).unwrap();
    assert!(writer.wait().unwrap().success());
}

/// A running `outlive serve` with a state directory of its own. Dropping it stops it.
pub(crate) struct Outlive {
    child: Child,
    pub(crate) port: u16,
    pub(crate) dir: tempfile::TempDir,
    /// Sent with every request, if set.
    token: Option<String>,
    /// The lines that `serve` prints after the first one.
    stdout: BufReader<std::process::ChildStdout>,
}

/// Options for starting outlive.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    /// Runs this program instead of the binary under test.
    pub(crate) program: Option<PathBuf>,
    /// Passed as `--token` and sent with every request. Without it, outlive is started with `--no-token`.
    pub(crate) token: Option<String>,
    /// Replaces the `--token` or `--no-token` flag.
    pub(crate) access: Option<Vec<String>>,
    pub(crate) listen: Option<String>,
    /// Passed as `--history`. Without it, history is off.
    pub(crate) history: Option<PathBuf>,
}

impl Setup {
    /// For tests whose subject is the log in memory: what it no longer keeps is gone.
    pub(crate) fn without_history() -> Self {
        Self { history: Some("off".into()), ..Self::default() }
    }

    /// Makes the server kill itself the `count`-th time it reaches the crash point `point`. Its successors stay alive.
    pub(crate) fn crash_at(mut self, point: &str, count: u32) -> Self {
        let directory = tempfile::tempdir().unwrap().keep();
        self.environment.extend([
            ("OUTLIVE_TEST_KILL_AT".into(), format!("{point}:{count}")),
            ("OUTLIVE_TEST_KILL_ONCE".into(), directory.to_str().unwrap().into()),
        ]);
        self
    }
}

impl Outlive {
    pub(crate) fn start() -> Self {
        Self::start_with(Setup::default())
    }

    pub(crate) fn start_with(setup: Setup) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = setup.program.unwrap_or_else(|| env!("CARGO_BIN_EXE_outlive").into());
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", setup.listen.as_deref().unwrap_or("127.0.0.1:0"), "--state-dir"])
            .arg(dir.path().join("state"))
            .arg("--history")
            .arg(setup.history.unwrap_or_else(|| "off".into()))
            .args(setup.access.unwrap_or_else(|| match &setup.token {
                Some(token) => vec!["--token".to_owned(), token.clone()],
                None => vec!["--no-token".to_owned()],
            }))
            .args(setup.arguments)
            .envs(setup.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if std::env::var_os("OUTLIVE_TEST_LOGS").is_none() {
            command.stderr(std::fs::File::create(dir.path().join("stderr")).unwrap());
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("not a listening line: {line:?}"));
        Self { child, port, dir, token: setup.token, stdout }
    }

    /// Reads the next line that `serve` prints.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends this token with every request from now on.
    pub(crate) fn use_token(&mut self, token: &str) {
        self.token = Some(token.to_owned());
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        let token = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = Vec::new();
        headers.extend(token.as_deref().map(|token| ("authorization", token)));
        headers.extend(body.map(|_| ("content-type", "application/json")));
        self.http().send(method, path, &headers, body.map(Value::to_string).as_deref().map(str::as_bytes))
    }

    pub(crate) fn holder_pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn server_pid(&self) -> i32 {
        self.get("/v1/health").json["serverPid"].as_i64().unwrap() as i32
    }

    pub(crate) fn http(&self) -> Http {
        Http::new(self.port)
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.send("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.send("POST", path, Some(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Response {
        self.send("DELETE", path, None)
    }

    /// Starts a process and returns its id.
    pub(crate) fn start_process(&self, spec: Value) -> String {
        let response = self.post("/v1/processes", &spec);
        assert_eq!(response.status, 200, "{}", response.text());
        response.json["id"].as_str().unwrap().to_owned()
    }

    /// Starts a shell command as a process and returns its id.
    pub(crate) fn start_shell(&self, line: &str) -> String {
        self.start_process(json!({ "command": line, "shell": true }))
    }

    pub(crate) fn info(&self, id: &str) -> Value {
        let response = self.get(&format!("/v1/processes/{id}"));
        assert_eq!(response.status, 200, "{}", response.text());
        response.json
    }

    /// Waits for the exit with the API's own wait.
    pub(crate) fn wait_exit(&self, id: &str) -> Value {
        let response = self.post(&format!("/v1/processes/{id}/wait"), &json!({ "timeoutMs": 60_000 }));
        assert_eq!(response.json["outcome"], "exited", "{}", response.text());
        response.json["process"].clone()
    }

    /// Waits until the output matches.
    pub(crate) fn wait_output(&self, id: &str, pattern: &str) -> Value {
        let body = json!({ "for": "output", "pattern": pattern, "timeoutMs": 60_000 });
        let response = self.post(&format!("/v1/processes/{id}/wait"), &body);
        assert_eq!(response.json["outcome"], "matched", "{pattern}: {}", response.text());
        response.json
    }

    pub(crate) fn output(&self, id: &str) -> Vec<u8> {
        let response = self.get(&format!("/v1/processes/{id}/output"));
        assert_eq!(response.status, 200, "{}", response.text());
        response.body
    }

    /// Kills the server process, and waits until its successor responds.
    pub(crate) fn kill_server(&self) -> i32 {
        let old = self.server_pid();
        proc::send_signal(old, rustix::process::Signal::KILL);
        eventually("another server", || Some(self.server_pid()).filter(|pid| *pid != old))
    }

    /// Kills the holder and the server at once, as the end of a container does, and then the programs that they leave.
    pub(crate) fn kill_everything(mut self) {
        let holder = self.holder_pid();
        let children = proc::children(holder);
        for pid in std::iter::once(holder).chain(children) {
            proc::send_signal(pid, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }

    /// The exit code of `serve`, or `None` while it runs.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// Stops outlive with SIGTERM and returns its exit code.
    pub(crate) fn stop(mut self) -> i32 {
        proc::send_signal(self.holder_pid(), rustix::process::Signal::TERM);
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(started.elapsed() < WAIT_TIMEOUT, "outlive does not exit");
            std::thread::yield_now();
        }
    }
}

impl Drop for Outlive {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            proc::send_signal(self.holder_pid(), rustix::process::Signal::TERM);
            let started = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) {
                if started.elapsed() > Duration::from_secs(20) {
                    let _ = self.child.kill();
                }
                std::thread::park_timeout(Duration::from_millis(2));
            }
        }
        if std::thread::panicking() {
            eprintln!("--- outlive's stderr ---\n{}", self.stderr());
        }
    }
}

/// Polls until `probe` returns a value.
pub(crate) fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(started.elapsed() < WAIT_TIMEOUT, "never happened: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Reads a file that a program creates as a signal; `None` until it has contents.
pub(crate) fn read_if_exists(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().filter(|text| !text.is_empty())
}

/// Sets the flag when it is dropped, so that a background thread also stops if the test panics.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
