//! A real outlive on a free port for one test, and small clients for it.
//!
//! Tests wait for facts: an answer, an event, a line in /proc. Nothing here sleeps to synchronise;
//! [`eventually`] looks again until a fact is there, for those that no event announces.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails that way")]

pub(crate) mod http;
pub(crate) mod proc;
pub(crate) mod socket;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::http::{Answer, Http};

/// Longer than anything should take, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Outlive {
    child: Child,
    pub(crate) port: u16,
    pub(crate) dir: tempfile::TempDir,
    /// Shown with every call, unless there is none.
    token: Option<String>,
    /// What it said when it started, the first line apart.
    said: BufReader<std::process::ChildStdout>,
}

/// How to start it.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    /// Another binary than the one under test.
    pub(crate) program: Option<PathBuf>,
    /// Started with this token, and used with it; without one everybody is let in.
    pub(crate) token: Option<String>,
    /// The flags that say who is let in, in place of those.
    pub(crate) access: Option<Vec<String>>,
    pub(crate) listen: Option<String>,
}

impl Outlive {
    pub(crate) fn start() -> Self {
        Self::with(Setup::default())
    }

    pub(crate) fn with(setup: Setup) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = setup.program.unwrap_or_else(|| env!("CARGO_BIN_EXE_outlive").into());
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", setup.listen.as_deref().unwrap_or("127.0.0.1:0"), "--state-dir"])
            .arg(dir.path().join("state"))
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
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("not a listening line: {line:?}"));
        Self { child, port, dir, token: setup.token, said }
    }

    /// The next line that `serve` prints.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Calls with this token from now on.
    pub(crate) fn use_token(&mut self, token: &str) {
        self.token = Some(token.to_owned());
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
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

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Some(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None)
    }

    /// Starts a process and returns its id.
    pub(crate) fn start_process(&self, spec: Value) -> String {
        let answer = self.post("/v1/processes", &spec);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn shell(&self, line: &str) -> String {
        self.start_process(json!({ "command": line, "shell": true }))
    }

    pub(crate) fn info(&self, id: &str) -> Value {
        let answer = self.get(&format!("/v1/processes/{id}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json
    }

    /// Waits for the exit by the API's own wait.
    pub(crate) fn wait_exit(&self, id: &str) -> Value {
        let answer = self.post(&format!("/v1/processes/{id}/wait"), &json!({ "timeoutMs": 60_000 }));
        assert_eq!(answer.json["outcome"], "exited", "{}", answer.text());
        answer.json["process"].clone()
    }

    /// Waits until the output matches.
    pub(crate) fn wait_output(&self, id: &str, pattern: &str) -> Value {
        let body = json!({ "for": "output", "pattern": pattern, "timeoutMs": 60_000 });
        let answer = self.post(&format!("/v1/processes/{id}/wait"), &body);
        assert_eq!(answer.json["outcome"], "matched", "{pattern}: {}", answer.text());
        answer.json
    }

    pub(crate) fn output(&self, id: &str) -> Vec<u8> {
        let answer = self.get(&format!("/v1/processes/{id}/output"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.body
    }

    /// Kills the server process, and waits until another one answers.
    pub(crate) fn kill_server(&self) -> i32 {
        let old = self.server_pid();
        proc::signal(old, rustix::process::Signal::KILL);
        eventually("another server", || Some(self.server_pid()).filter(|pid| *pid != old))
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }

    /// Its exit code, once it has ended.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// Ends it as a person would and returns its exit code.
    pub(crate) fn stop(mut self) -> i32 {
        proc::signal(self.holder_pid(), rustix::process::Signal::TERM);
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < PATIENCE, "outlive does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Outlive {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            proc::signal(self.holder_pid(), rustix::process::Signal::TERM);
            let begun = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) {
                if begun.elapsed() > Duration::from_secs(20) {
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

/// Looks until the fact is there.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A file that a program leaves as a sign.
pub(crate) fn read_if_there(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().filter(|text| !text.is_empty())
}
