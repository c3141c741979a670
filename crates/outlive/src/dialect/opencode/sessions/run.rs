//! The task of one command: starts it, tells of what it prints, and writes its end into the session.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use outlive_core::log::{Cursor, Exit, Flow, Item, Start, StreamFilter};
use outlive_core::process::Process;
use outlive_core::{Core, Create, signal};
use outlive_holder::clock;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::OpenCode;
use super::super::error::{Failure, unknown};
use super::order::{Order, message_id, model_of};
use super::output;
use super::shapes::{Ended, Message, Told, complete, fail, of_assistant, of_user};
use super::store::{Running, Sessions};

/// Between two events about a part.
const TURN: Duration = Duration::from_millis(250);
/// After as much output in them, a command is told of less often.
const QUICK_BYTES: u64 = 4 << 20;
const SLOW_TURN: Duration = Duration::from_secs(5);

/// By these a command's process is found again.
const SESSION: &str = "opencode.session";
const MESSAGE: &str = "opencode.message";

/// After an abort: for those who want to say goodbye, and for the answer.
const GRACE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

/// Said of a command whose log is not there, so that nobody has seen its end: the server died before it was started, or the log was
/// dropped meanwhile. It is over, and no code would be true.
const KILL: u8 = 9;

/// A session in which a command runs.
struct Task {
    core: Core,
    state: Arc<OpenCode>,
    session: String,
    folder: String,
    running: Arc<Running>,
}

/// It goes on without whoever has asked for it; its message is what comes back.
pub(super) async fn run(core: &Core, state: &Arc<OpenCode>, session: Value, order: Order) -> Result<Message, Failure> {
    let task = Task::begin(core, state, &session)?;
    let work = tokio::spawn(async move { task.carry_out(&session, order).await });
    work.await.unwrap_or_else(|_| Err(Failure::broken_off()))
}

impl Task {
    fn begin(core: &Core, state: &Arc<OpenCode>, session: &Value) -> Result<Self, Failure> {
        let id = session["id"].as_str().unwrap_or_default().to_owned();
        let running = state.sessions.begin(&id)?;
        let folder = session["directory"].as_str().unwrap_or("/").to_owned();
        let task = Self { core: core.clone(), state: Arc::clone(state), session: id, folder, running };
        task.say("session.status", json!({ "sessionID": task.session, "status": { "type": "busy" } }));
        Ok(task)
    }

    fn say(&self, kind: &'static str, properties: Value) {
        self.state.bus.say(kind, &self.folder, &properties);
    }

    fn keep(&self, message: &Message) -> Result<(), Failure> {
        Ok(self.state.sessions.put_message(&self.core, &self.session, message)?)
    }

    fn say_message(&self, message: &Message) {
        self.say("message.updated", json!({ "sessionID": self.session, "info": message.info }));
    }

    fn say_part(&self, part: &Value) {
        let properties = json!({ "sessionID": self.session, "part": part, "time": clock::wall_ms() });
        self.say("message.part.updated", properties);
    }

    /// The session was used, and what was said of a model holds for the next command.
    fn remember(&self, order: &Order) {
        let _ = self.state.sessions.edit(&self.core, &self.session, |session| {
            session["time"]["updated"] = clock::wall_ms().into();
            if let Some(model) = &order.model {
                session["model"] = json!({ "id": model.model, "providerID": model.provider });
            }
        });
    }

    async fn carry_out(&self, session: &Value, order: Order) -> Result<Message, Failure> {
        let model = model_of(&order, session);
        let told = Told { session: &self.session, agent: &order.agent, model: &model, at_ms: clock::wall_ms() };
        let user = of_user(&told, &message_id(&order));
        if Sessions::message(&self.core, &self.session, user.id()).is_some() {
            return Err(Failure::wrong("messageID", "an id that no message has", user.id()));
        }
        self.keep(&user)?;
        self.remember(&order);
        self.say_message(&user);
        self.say_part(&user.parts[0]);
        let mut message = of_assistant(&told, user.id(), &self.folder, &order.line);
        self.keep(&message)?;
        self.say_message(&message);
        self.say_part(&message.parts[0]);
        let process = match self.start(&order, message.id()).await {
            Ok(process) => process,
            Err(error) => {
                let failure = Failure::from(error.clone());
                fail(&mut message, &error.to_string(), clock::wall_ms());
                let _ = self.keep(&message);
                self.say_message(&message);
                self.say_part(&message.parts[0]);
                self.say("session.error", json!({ "sessionID": self.session, "error": unknown(&error.to_string()) }));
                return Err(failure);
            }
        };
        let message = self.follow(process, message).await;
        if let Some((name, arguments)) = order.named {
            let done =
                json!({ "name": name, "sessionID": self.session, "arguments": arguments, "messageID": message.id() });
            self.say("command.executed", done);
        }
        Ok(message)
    }

    async fn start(&self, order: &Order, message: &str) -> Result<Arc<Process>, outlive_core::Error> {
        let mut spec = order.spec.clone();
        spec.session_id = Some(self.session.clone());
        spec.annotations.insert(SESSION.to_owned(), self.session.clone());
        spec.annotations.insert(MESSAGE.to_owned(), message.to_owned());
        let create = Create { spec, start: true, ..Create::default() };
        self.core.create(create).await.map(|(process, _)| process)
    }

    /// From its start, or from where the server before was, to its end.
    async fn follow(&self, process: Arc<Process>, mut message: Message) -> Message {
        message.parts[0]["state"]["metadata"]["processID"] = process.id().into();
        let _ = self.keep(&message);
        *self.running.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&process));
        if self.running.aborted.load(SeqCst) {
            tokio::spawn(end_tree(Arc::clone(&process)));
        }
        let exit = self.tell_output(&process, &message.parts[0]).await;
        process.news();
        let status = exit.map_or(Err(KILL), |exit| exit.status);
        let ended = Ended {
            at_ms: clock::wall_ms(),
            exit: status.map_or_else(|number| 128 + i32::from(number), i32::from),
            signal: status.err().map(|number| signal::name(i32::from(number))),
            aborted: self.running.aborted.load(SeqCst),
        };
        complete(&mut message, &ended, process.id());
        let mut kept = message.clone();
        output::fill(&self.core, &mut kept.parts[0], output::KEPT_BYTES);
        let _ = self.keep(&kept);
        self.say_message(&message);
        let mut part = message.parts[0].clone();
        output::fill(&self.core, &mut part, output::EVENT_BYTES);
        self.say_part(&part);
        message
    }

    /// Tells of the end of what is printed, now and then, until the command has ended. Nobody waits for that, and nothing is read that is not told.
    async fn tell_output(&self, process: &Arc<Process>, part: &Value) -> Option<Exit> {
        let log = process.log().ok()?;
        let (mut seen, mut told_bytes, mut turn) = (0, 0, Instant::now());
        loop {
            let mut cursor = Cursor::new(Arc::clone(&log), Start::At(seen), Flow::Live, StreamFilter::All);
            if let Item::Exit(exit) = cursor.next(1).await {
                return Some(exit);
            }
            drop(cursor);
            tokio::select! {
                exit = log.until_exit() => return Some(exit),
                () = tokio::time::sleep_until(turn) => {}
            }
            seen = log.head();
            let mut part = part.clone();
            told_bytes += output::fill(&self.core, &mut part, output::SHOWN_BYTES);
            self.say_part(&part);
            turn = Instant::now() + if told_bytes < QUICK_BYTES { TURN } else { SLOW_TURN };
        }
    }
}

/// However it came to its end, the session is free for the next one.
impl Drop for Task {
    fn drop(&mut self) {
        self.state.sessions.end(&self.session);
        self.say("session.status", json!({ "sessionID": self.session, "status": { "type": "idle" } }));
        self.say("session.idle", json!({ "sessionID": self.session }));
    }
}

async fn end_tree(process: Arc<Process>) {
    let _ = process.stop(GRACE, PATIENCE).await;
    // What the command left behind, and what took no notice.
    let _ = process.kill(PATIENCE).await;
}

/// Ends the command that a session runs, with everything that it has started. The session is then free for another one.
pub(super) async fn abort(state: &Arc<OpenCode>, session: &str) {
    let Some(running) = state.sessions.running(session) else { return };
    running.aborted.store(true, SeqCst);
    let process = running.process.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(process) = process {
        end_tree(process).await;
    }
    let _ = tokio::time::timeout(PATIENCE, state.sessions.until_ended(session, &running)).await;
}

/// Goes on with the commands that the server before was following.
pub(in super::super) fn take_over(core: &Core, state: &Arc<OpenCode>) {
    state.sessions.take_over(core);
    for session in Sessions::list(core) {
        let id = session["id"].as_str().unwrap_or_default();
        let is_running = |message: &Message| message.tool().is_some_and(|part| part["state"]["status"] == "running");
        let Some(mut message) = Sessions::messages(core, id).into_iter().rfind(is_running) else { continue };
        let Ok(task) = Task::begin(core, state, &session) else { continue };
        tokio::spawn(async move {
            if let Some(process) = task.core.find_annotated(MESSAGE, message.id()) {
                task.follow(process, message).await;
            } else {
                fail(&mut message, "the server ended before the command was started", clock::wall_ms());
                let _ = task.keep(&message);
                task.say_message(&message);
                task.say_part(&message.parts[0]);
            }
        });
    }
}
