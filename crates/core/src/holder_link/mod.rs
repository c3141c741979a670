//! The server's end of the line to the holder.
//!
//! Sending never waits: a message goes out at once, or queues in memory until the socket takes more (bounded by
//! what callers wait for). One task receives: answers go to whoever asked, wake-ups to the logs.

mod handover;
mod requests;
mod room;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use outlive_holder::log::{Cause, Stream};
use outlive_holder::wire::{
    Arm, Conclude, End, Over, Reach, Received, Record, Signal, Socket, Spawn, SpawnFailed, SpawnStage, Spawned,
    ToHolder, ToServer, Welcome,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

pub use self::handover::{Handover, HeldProcess};
use self::requests::{Answer, Requests};
use self::room::Room;
use crate::{Error, Result, lock};

/// What happened at the holder, for the one who watches over the processes.
#[derive(Debug)]
pub(crate) enum News {
    Wake(Vec<u64>),
    /// Another server takes over: stop writing and accepting, then call `retired`.
    Retire,
    /// The server before this one has finished its last answers.
    Alone,
    Upgraded(std::result::Result<(), String>),
    HolderGone,
}

/// A started process as the holder reports it.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) spawned: Spawned,
    pub(crate) log: OwnedFd,
    pub(crate) input: Option<OwnedFd>,
}

/// What a spawn has led to.
#[derive(Debug)]
pub(crate) enum Life {
    Begun(Started),
    /// Only of a brief one.
    Over(Over),
}

#[derive(Clone)]
pub struct HolderLink(Arc<Line>);

struct Line {
    socket: AsyncFd<Socket>,
    room: Room,
    overflow: Mutex<VecDeque<Unsent>>,
    has_overflow: Notify,
    requests: Requests,
    gone: AtomicBool,
    is_gone: Notify,
    retired: AtomicBool,
    welcome: Welcome,
}

/// A message that did not fit.
struct Unsent {
    bytes: Vec<u8>,
    fd: Option<OwnedFd>,
    /// Who waits for its answer; 0 is nobody.
    request: u32,
}

impl HolderLink {
    pub fn welcome(&self) -> &Welcome {
        &self.0.welcome
    }

    pub fn epoch(&self) -> u32 {
        self.0.welcome.epoch
    }

    pub fn is_gone(&self) -> bool {
        self.0.gone.load(SeqCst)
    }

    /// A message that asks for no answer.
    fn send(&self, message: &ToHolder, fd: Option<BorrowedFd<'_>>) {
        self.send_for(0, message, fd);
    }

    /// Who waits for the answer of `request` is told if it cannot be sent.
    fn send_for(&self, request: u32, message: &ToHolder, fd: Option<BorrowedFd<'_>>) {
        let still_heard = matches!(message, ToHolder::Resume(_));
        if self.is_gone() || self.is_retired() && !still_heard {
            return;
        }
        let bytes = message.encode();
        let mut overflow = lock(&self.0.overflow);
        if overflow.is_empty() {
            let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
            match self.0.socket.get_ref().send(&bytes, &fds) {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return self.lost(request, &error),
            }
        }
        match fd.map(|fd| fd.try_clone_to_owned()).transpose() {
            Ok(fd) => overflow.push_back(Unsent { bytes, fd, request }),
            Err(error) => return self.lost(request, &error),
        }
        self.0.has_overflow.notify_one();
    }

    /// A message that cannot be sent at all, for want of a descriptor for its contents, say.
    fn lost(&self, request: u32, error: &io::Error) {
        tracing::error!(%error, "a message to the holder is lost");
        let errno = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
        let failed = SpawnFailed { request, key: 0, stage: SpawnStage::Prepare, errno };
        self.0.requests.answer(request, Answer::Failed(failed));
    }

    /// Starts a process; the answer comes when it has executed its program, or of a brief one when it has ended.
    pub(crate) async fn spawn(&self, mut spawn: Spawn) -> std::result::Result<Life, SpawnFailure> {
        if self.is_gone() || self.is_retired() {
            return Err(SpawnFailure::Unavailable(self.why_not()));
        }
        let (number, answer) = self.0.requests.open();
        spawn.request = number;
        crate::hooks::reach("spawn_asked");
        self.send_for(number, &ToHolder::Spawn(spawn), None);
        match answer.await {
            Ok(Answer::Started(started)) => Ok(Life::Begun(started)),
            Ok(Answer::Over(over)) => Ok(Life::Over(over)),
            Ok(Answer::Failed(failed)) => Err(SpawnFailure::Failed(failed)),
            _ => Err(SpawnFailure::Unavailable(self.why_not())),
        }
    }

    /// Sends a signal to a whole tree; answers with how many processes got it.
    pub(crate) async fn signal(&self, key: u64, signal: u8) -> Result<u32> {
        self.signal_to(key, signal, Reach::Tree).await
    }

    /// As [`signal`](Self::signal), to the tree, the group of the command, or the command alone.
    pub(crate) async fn signal_to(&self, key: u64, signal: u8, reach: Reach) -> Result<u32> {
        let (request, answer) = self.0.requests.open();
        self.send_for(request, &ToHolder::Signal(Signal { request, key, signal, reach: reach as u8 }), None);
        match answer.await {
            Ok(Answer::Done(done)) => Ok(done.signalled),
            _ => Err(self.why_not()),
        }
    }

    /// Has these descriptors recorded into a log under `key`, which belongs to no process.
    pub(crate) async fn record(
        &self,
        key: u64,
        log_budget: u64,
        streams: [(Stream, OwnedFd); 2],
    ) -> std::result::Result<Started, SpawnFailure> {
        if self.is_gone() || self.is_retired() {
            return Err(SpawnFailure::Unavailable(self.why_not()));
        }
        let (number, answer) = self.0.requests.open();
        let [(first, first_fd), (second, second_fd)] = streams;
        // The answer to the last one counts for both: they arrive in order.
        for (stream, fd, request) in [(first, first_fd, 0), (second, second_fd, number)] {
            let record = Record { key, stream: stream as u8, log_budget, request };
            self.send_for(number, &ToHolder::Record(record), Some(fd.as_fd()));
        }
        match answer.await {
            Ok(Answer::Started(started)) => Ok(started),
            Ok(Answer::Failed(failed)) => Err(SpawnFailure::Failed(failed)),
            _ => Err(SpawnFailure::Unavailable(self.why_not())),
        }
    }

    /// Writes the end of what was recorded under `key`, after everything that was written until now.
    pub(crate) async fn conclude(&self, key: u64, status: std::result::Result<u8, u8>, cause: Cause) -> Result<()> {
        let (request, answer) = self.0.requests.open();
        let (code, signal) = (status.ok().unwrap_or(0), status.err().unwrap_or(0));
        let conclude = Conclude { request, key, code, signal, cause: cause as u8 };
        self.send_for(request, &ToHolder::Conclude(conclude), None);
        match answer.await {
            Ok(Answer::Done(_)) => Ok(()),
            _ => Err(self.why_not()),
        }
    }

    /// Begins the end of a tree. The holder carries it out whether or not this server lives.
    pub(crate) fn end(&self, key: u64, signal: u8, kill_at: u64, cause: Cause) -> Ending {
        let (request, answer) = self.0.requests.open();
        let end = End { request, key, signal, kill_at, cause: cause as u8 };
        self.send_for(request, &ToHolder::End(end), None);
        Ending(answer)
    }

    pub(crate) fn arm(&self, key: u64, cause: Cause, at: u64) {
        self.send(&ToHolder::Arm(Arm { key, cause: cause as u8, at }), None);
    }

    pub(crate) fn close_input(&self, key: u64) {
        self.send(&ToHolder::CloseInput(key), None);
    }

    pub(crate) fn resume(&self, key: u64) {
        self.send(&ToHolder::Resume(key), None);
    }

    pub(crate) fn forget(&self, key: u64) {
        self.send(&ToHolder::Forget(key), None);
    }

    pub fn keep(&self, name: &str, fd: BorrowedFd<'_>) {
        self.send(&ToHolder::Keep(name.as_bytes().to_vec()), Some(fd));
    }

    /// Gives up what was kept under a name.
    pub(crate) fn drop_kept(&self, name: &str) {
        self.send(&ToHolder::Drop(name.as_bytes().to_vec()), None);
    }

    pub fn upgrade(&self) {
        self.send(&ToHolder::Upgrade(()), None);
    }

    /// Says the last word of this server: whatever is asked of the holder from now on is refused here.
    pub(crate) fn retired(&self) {
        self.send(&ToHolder::Retired(()), None);
        self.0.retired.store(true, SeqCst);
        self.0.requests.close_all();
    }

    /// Everything has been taken up; from now on there is no way back to the server before.
    pub(crate) fn serving(&self) {
        self.send(&ToHolder::Serving(()), None);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.0.retired.load(SeqCst)
    }

    /// Returns when nobody waits for an answer.
    pub(crate) async fn until_answered(&self) {
        self.0.requests.until_empty().await;
    }

    /// Resolves when the holder is gone: what only it can bring about will never happen.
    pub(crate) async fn until_gone(&self) {
        let mut gone = std::pin::pin!(self.0.is_gone.notified());
        gone.as_mut().enable();
        if !self.is_gone() {
            gone.await;
        }
    }

    fn why_not(&self) -> Error {
        if self.is_gone() {
            return Error::holder_gone();
        }
        let message = "this server is being replaced; try again on a new connection".into();
        Error::Unavailable { code: "being_replaced", message }
    }

    /// Receives until the holder is gone.
    pub(crate) async fn receive(self, mut tell: impl FnMut(News)) {
        loop {
            let message = tokio::select! {
                received = self.next() => received,
                () = self.flush() => continue,
            };
            match message {
                Ok(Some(received)) => self.dispatch(received, &mut tell),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(%error, "the line to the holder broke");
                    break;
                }
            }
        }
        self.0.gone.store(true, SeqCst);
        self.0.is_gone.notify_waiters();
        self.0.requests.close_all();
        tell(News::HolderGone);
    }

    fn dispatch(&self, received: Received, tell: &mut impl FnMut(News)) {
        let mut descriptors = received.descriptors.into_iter();
        match ToServer::decode(&received.bytes) {
            Some(ToServer::Spawned(spawned)) => {
                if let Some(log) = descriptors.next() {
                    let started = Started { log, input: descriptors.next(), spawned };
                    self.0.requests.answer(started.spawned.request, Answer::Started(started));
                }
            }
            Some(ToServer::SpawnFailed(failed)) => {
                self.0.requests.answer(failed.request, Answer::Failed(failed));
            }
            Some(ToServer::Over(over)) => self.0.requests.answer(over.request, Answer::Over(over)),
            Some(ToServer::Done(done)) => self.0.requests.answer(done.request, Answer::Done(done)),
            Some(ToServer::Wake(keys)) => tell(News::Wake(keys)),
            Some(ToServer::Retire(())) => tell(News::Retire),
            Some(ToServer::Alone(())) => tell(News::Alone),
            Some(ToServer::Upgraded(why)) => tell(News::Upgraded(if why.is_empty() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&why).into_owned())
            })),
            _ => {}
        }
    }

    async fn next(&self) -> io::Result<Option<Received>> {
        self.0.socket.async_io(Interest::READABLE, Socket::receive).await
    }

    /// Sends what did not fit earlier. Waits (for ever, if need be) until there is such a thing.
    async fn flush(&self) {
        if lock(&self.0.overflow).is_empty() {
            self.0.has_overflow.notified().await;
        }
        let send = || {
            let mut overflow = lock(&self.0.overflow);
            while let Some(unsent) = overflow.front() {
                let fds: Vec<BorrowedFd<'_>> = unsent.fd.iter().map(AsFd::as_fd).collect();
                self.0.socket.get_ref().send(&unsent.bytes, &fds)?;
                overflow.pop_front();
            }
            Ok(())
        };
        if let Err(error) = self.0.room.send(send).await {
            // It must not hold up the others; a line that broke is noticed by who receives.
            let unsent = lock(&self.0.overflow).pop_front();
            self.lost(unsent.map_or(0, |unsent| unsent.request), &error);
        }
    }
}

/// An end that has been asked for.
pub(crate) struct Ending(tokio::sync::oneshot::Receiver<Answer>);

impl Ending {
    /// Until the signal has been sent (stop), or the tree is gone (kill); how many processes could not be killed.
    pub(crate) async fn carried_out(self) -> Result<u32> {
        match self.0.await {
            Ok(Answer::Done(done)) => Ok(done.survivors),
            _ => Err(Error::holder_gone()),
        }
    }
}

#[derive(Debug)]
pub(crate) enum SpawnFailure {
    Failed(SpawnFailed),
    Unavailable(Error),
}
