//! The task of one command: starts its process, publishes its output as events, and records its exit in the session.
//! The task does not depend on the request that started it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use outlive_core::log::{Cursor, Exit, Flow, Item, Start, StreamFilter};
use outlive_core::process::Process;
use outlive_core::{Core, NewProcess, lock, signal};
use outlive_holder::clock;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::command::SessionCommand;
use super::message::{CommandExit, EVENT_BYTES, METADATA_BYTES, Message, MessageContext, STORED_BYTES, fill_output};
use super::store::{RunningCommand, Sessions};
use crate::dialect::opencode::error::{Failure, unknown_error};
use crate::dialect::opencode::{OpenCode, ids};

/// Between two events about the output of a command.
const PART_INTERVAL: Duration = Duration::from_millis(250);
/// After this much output in events, a command publishes at the slow interval.
const FAST_PART_BYTES: u64 = 4 << 20;
const SLOW_PART_INTERVAL: Duration = Duration::from_secs(5);

/// Annotations of a command's process. The next server finds the process by its message.
const SESSION: &str = "opencode.session";
const MESSAGE: &str = "opencode.message";

/// Between SIGTERM and SIGKILL of an abort.
const ABORT_GRACE: Duration = Duration::from_secs(1);
/// The abort request responds after this time at the latest.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Reported for a command that has no log when its task resumes under a new server: the log was dropped and is not in the
/// history, or it cannot be opened. The task reads exits from logs only, so it knows no true exit code.
const UNKNOWN_EXIT_SIGNAL: u8 = 9;

/// A command that runs in a session. The session is busy until this is dropped.
struct CommandTask {
    core: Core,
    state: Arc<OpenCode>,
    session: String,
    directory: String,
    running: Arc<RunningCommand>,
}

/// Runs a command and returns its message. The command continues when the caller is dropped.
pub(super) async fn run(
    core: &Core,
    state: &Arc<OpenCode>,
    session: Value,
    command: SessionCommand,
) -> Result<Message, Failure> {
    let task = CommandTask::begin(core, state, &session)?;
    let work = tokio::spawn(async move { task.run(&session, command).await });
    work.await.unwrap_or_else(|_| Err(Failure::task_failed()))
}

impl CommandTask {
    fn begin(core: &Core, state: &Arc<OpenCode>, session: &Value) -> Result<Self, Failure> {
        let id = session["id"].as_str().unwrap_or_default().to_owned();
        let running = state.sessions.set_busy(&id)?;
        let directory = session["directory"].as_str().unwrap_or("/").to_owned();
        let task = Self { core: core.clone(), state: Arc::clone(state), session: id, directory, running };
        task.publish("session.status", json!({ "sessionID": task.session, "status": { "type": "busy" } }));
        Ok(task)
    }

    fn publish(&self, kind: &'static str, properties: Value) {
        self.state.bus.publish(kind, &self.directory, &properties);
    }

    fn publish_message(&self, message: &Message) {
        self.publish("message.updated", json!({ "sessionID": self.session, "info": message.info }));
    }

    fn publish_part(&self, part: &Value) {
        let properties = json!({ "sessionID": self.session, "part": part, "time": clock::wall_ms() });
        self.publish("message.part.updated", properties);
    }

    fn publish_with_part(&self, message: &Message) {
        self.publish_message(message);
        self.publish_part(&message.parts[0]);
    }

    fn store(&self, message: &Message) -> Result<(), Failure> {
        Ok(self.state.sessions.put_message(&self.core, &self.session, message)?)
    }

    /// Updates the session's time, and its model, which the next command without one uses.
    fn update_session(&self, command: &SessionCommand) {
        let _ = self.state.sessions.edit(&self.core, &self.session, |session| {
            session["time"]["updated"] = clock::wall_ms().into();
            if let Some(model) = &command.model {
                session["model"] = json!({ "id": model.model, "providerID": model.provider });
            }
        });
    }

    async fn run(&self, session: &Value, command: SessionCommand) -> Result<Message, Failure> {
        let model = command.model_in(session);
        let (session, agent) = (self.session.as_str(), command.agent.as_str());
        let context = MessageContext { session, agent, model: &model, at_ms: clock::wall_ms() };
        let user_id = command.message_id.clone().unwrap_or_else(|| ids::ascending("msg"));
        let user = Message::from_user(&context, &user_id);
        if Sessions::message(&self.core, &self.session, user.id()).is_some() {
            return Err(Failure::invalid_field("messageID", "an id that no message has", user.id()));
        }
        self.store(&user)?;
        self.update_session(&command);
        self.publish_with_part(&user);
        let mut message = Message::from_assistant(&context, user.id(), &self.directory, &command.line);
        self.store(&message)?;
        self.publish_with_part(&message);
        let process = match self.start(&command, message.id()).await {
            Ok(process) => process,
            Err(error) => {
                let reason = error.to_string();
                self.record_failure(&mut message, &reason);
                self.publish("session.error", json!({ "sessionID": self.session, "error": unknown_error(&reason) }));
                return Err(error.into());
            }
        };
        let message = self.wait_and_complete(process, message).await;
        if let Some((name, arguments)) = command.name_and_arguments {
            let executed =
                json!({ "name": name, "sessionID": self.session, "arguments": arguments, "messageID": message.id() });
            self.publish("command.executed", executed);
        }
        Ok(message)
    }

    async fn start(&self, command: &SessionCommand, message: &str) -> Result<Arc<Process>, outlive_core::Error> {
        let mut spec = command.spec.clone();
        spec.session_id = Some(self.session.clone());
        spec.annotations.insert(SESSION.to_owned(), self.session.clone());
        spec.annotations.insert(MESSAGE.to_owned(), message.to_owned());
        let create = NewProcess { spec, start: true, ..NewProcess::default() };
        self.core.create(create).await
    }

    fn record_failure(&self, message: &mut Message, reason: &str) {
        message.fail(reason, clock::wall_ms());
        let _ = self.store(message);
        self.publish_with_part(message);
    }

    /// Waits for the exit of a process, from its start or from a take-over; returns the completed message.
    async fn wait_and_complete(&self, process: Arc<Process>, mut message: Message) -> Message {
        message.parts[0]["state"]["metadata"]["processID"] = process.id().into();
        let _ = self.store(&message);
        *lock(&self.running.process) = Some(Arc::clone(&process));
        if self.running.aborted.load(SeqCst) {
            // The abort came before there was a process to end.
            tokio::spawn(end_tree(Arc::clone(&process)));
        }
        let exit = self.publish_output(&process, &message.parts[0]).await;
        process.sync_exit_from_log();
        let status = exit.map_or(Err(UNKNOWN_EXIT_SIGNAL), |exit| exit.status);
        let exit = CommandExit {
            at_ms: clock::wall_ms(),
            code: status.map_or_else(|number| 128 + i32::from(number), i32::from),
            signal: status.err().map(|number| signal::name(i32::from(number))),
            aborted: self.running.aborted.load(SeqCst),
        };
        message.complete(&exit, process.id());
        let mut stored = message.clone();
        fill_output(&self.core, &mut stored.parts[0], STORED_BYTES).await;
        let _ = self.store(&stored);
        self.publish_message(&message);
        let mut part = message.parts[0].clone();
        fill_output(&self.core, &mut part, EVENT_BYTES).await;
        self.publish_part(&part);
        message
    }

    /// Publishes the last 16 KiB of the output at intervals until the process has exited. The cursor is not lossless: the
    /// command never waits for this task, and only output that is published is read.
    async fn publish_output(&self, process: &Arc<Process>, part: &Value) -> Option<Exit> {
        let log = process.log().ok()?;
        let (mut published_to, mut published_bytes, mut next_at) = (0, 0, Instant::now());
        loop {
            // Waits for new output, and does not need what was overwritten.
            let cursor = Cursor::new(Arc::clone(&log), Start::At(published_to), Flow::Live, StreamFilter::All);
            if let Item::Exit(exit) = cursor.memory_only().next(1).await {
                return Some(exit);
            }
            tokio::select! {
                exit = log.wait_exit() => return Some(exit),
                () = tokio::time::sleep_until(next_at) => {}
            }
            published_to = log.head();
            let mut part = part.clone();
            published_bytes += fill_output(&self.core, &mut part, METADATA_BYTES).await;
            self.publish_part(&part);
            let interval = if published_bytes < FAST_PART_BYTES { PART_INTERVAL } else { SLOW_PART_INTERVAL };
            next_at = Instant::now() + interval;
        }
    }
}

/// The session becomes idle however the task ends, even by a panic.
impl Drop for CommandTask {
    fn drop(&mut self) {
        self.state.sessions.set_idle(&self.session);
        self.publish("session.status", json!({ "sessionID": self.session, "status": { "type": "idle" } }));
        self.publish("session.idle", json!({ "sessionID": self.session }));
    }
}

async fn end_tree(process: Arc<Process>) {
    let _ = process.stop(ABORT_GRACE, ABORT_TIMEOUT).await;
    // `stop` returns when the command itself has exited; this ends processes that it left behind.
    let _ = process.kill(ABORT_TIMEOUT).await;
}

/// Ends the process tree of the session's running command and waits until the session is idle.
pub(super) async fn abort(state: &Arc<OpenCode>, session: &str) {
    let Some(running) = state.sessions.running(session) else { return };
    running.aborted.store(true, SeqCst);
    let process = lock(&running.process).clone();
    if let Some(process) = process {
        end_tree(process).await;
    }
    let _ = tokio::time::timeout(ABORT_TIMEOUT, state.sessions.wait_ended(session, &running)).await;
}

/// Resumes the tasks of the commands that ran when the previous server ended.
pub(crate) fn take_over(core: &Core, state: &Arc<OpenCode>) {
    state.sessions.load(core);
    for session in Sessions::list(core) {
        let id = session["id"].as_str().unwrap_or_default();
        let Some(mut message) = Sessions::messages(core, id).into_iter().rfind(Message::is_running) else { continue };
        let Ok(task) = CommandTask::begin(core, state, &session) else { continue };
        tokio::spawn(async move {
            match task.core.find_by_annotation(MESSAGE, message.id()) {
                Some(process) => drop(task.wait_and_complete(process, message).await),
                None => task.record_failure(&mut message, "the server ended before the command was started"),
            }
        });
    }
}
