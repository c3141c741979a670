//! The server's end of the connection to the holder.
//!
//! Sending never waits: a message is sent at once, or queued in memory until the socket accepts more. The queue has
//! no limit. It grows only while the holder does not read: because it hangs, or because this server has too many replies
//! to read. A request adds one message (a sink: two), and most callers wait for the reply. Messages without a reply add
//! one per change that causes them: a deadline, an advanced lease, closed input, a removed process, a stored descriptor.
//!
//! One task receives: replies go to the pending requests, everything else becomes a [`HolderEvent`].

mod handover;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use outlive_holder::log::{Cause, Stream};
use outlive_holder::wire::{
    BriefRunResult, Completion, FinishSink, Packet, SetDeadline, Signal, SignalTarget, SinkStream, Socket, Spawn,
    SpawnFailed, SpawnStage, Spawned, Terminate, ToHolder, ToServer, Welcome,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

use self::handover::SendSocket;
pub use self::handover::{Handover, HeldProcess};
use crate::{Error, Result, lock};

/// A message from the holder that is not a reply.
#[derive(Debug)]
pub(crate) enum HolderEvent {
    /// The logs of these keys have changed.
    Wake(Vec<u64>),
    /// Another server takes over: stop writing and accepting, then call `retired`.
    Retire,
    /// The previous server has sent its last responses and exited.
    PredecessorExited,
    /// An upgrade succeeded, or why it failed.
    Upgraded(std::result::Result<(), String>),
    HolderGone,
}

/// A started process, with the descriptors that the holder sent.
#[derive(Debug)]
pub(crate) struct StartedProcess {
    pub(crate) spawned: Spawned,
    pub(crate) log: OwnedFd,
    pub(crate) input: Option<OwnedFd>,
}

/// Result of a spawn.
#[derive(Debug)]
pub(crate) enum SpawnOutcome {
    Started(StartedProcess),
    /// A brief run that has already ended.
    BriefRun(BriefRunResult),
}

#[derive(Debug)]
pub(crate) enum SpawnError {
    Failed(SpawnFailed),
    Unavailable(Error),
}

#[derive(Clone)]
pub struct HolderLink(Arc<Inner>);

struct Inner {
    socket: AsyncFd<Socket>,
    send_socket: SendSocket,
    send_queue: Mutex<VecDeque<QueuedMessage>>,
    queue_filled: Notify,
    requests: PendingRequests,
    gone: AtomicBool,
    gone_changed: Notify,
    retired: AtomicBool,
    welcome: Welcome,
}

/// A message that the socket did not accept at once.
struct QueuedMessage {
    bytes: Vec<u8>,
    fd: Option<OwnedFd>,
    /// The request that waits for a reply; 0: none.
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

    /// Sends a message that has no reply.
    fn send(&self, message: &ToHolder, fd: Option<BorrowedFd<'_>>) {
        self.send_request(0, message, fd);
    }

    /// Sends a message. If that is impossible, `request` fails.
    fn send_request(&self, request: u32, message: &ToHolder, fd: Option<BorrowedFd<'_>>) {
        // A retired server still serves its readers, so it may still resume a writer.
        let allowed_when_retired = matches!(message, ToHolder::Resume(_));
        if self.is_gone() || self.is_retired() && !allowed_when_retired {
            return;
        }
        let bytes = message.encode();
        let mut queue = lock(&self.0.send_queue);
        if queue.is_empty() {
            let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
            match self.0.socket.get_ref().send(&bytes, &fds) {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return self.fail_request(request, &error),
            }
        }
        match fd.map(|fd| fd.try_clone_to_owned()).transpose() {
            Ok(fd) => queue.push_back(QueuedMessage { bytes, fd, request }),
            Err(error) => return self.fail_request(request, &error),
        }
        self.0.queue_filled.notify_one();
    }

    /// Called for a message that cannot be sent at all, for example because there is no descriptor for its contents.
    fn fail_request(&self, request: u32, error: &io::Error) {
        tracing::error!(%error, "cannot send a message to the holder");
        let errno = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
        self.0.requests.complete(request, Reply::NotSent { errno });
    }

    /// Starts a process. Returns when it has executed its program; of a run that may be brief, when it has ended or turns
    /// out not to be.
    pub(crate) async fn spawn(&self, mut spawn: Spawn) -> std::result::Result<SpawnOutcome, SpawnError> {
        if self.is_gone() || self.is_retired() {
            return Err(SpawnError::Unavailable(self.unavailable_error()));
        }
        let (number, reply) = self.0.requests.open();
        spawn.request = number;
        crate::crash_point::reach("spawn_requested");
        self.send_request(number, &ToHolder::Spawn(spawn), None);
        match reply.await {
            Ok(Reply::Started(started)) => Ok(SpawnOutcome::Started(started)),
            Ok(Reply::BriefRun(result)) => Ok(SpawnOutcome::BriefRun(result)),
            other => Err(self.spawn_error(other.ok())),
        }
    }

    fn spawn_error(&self, reply: Option<Reply>) -> SpawnError {
        match reply {
            Some(Reply::SpawnFailed(failed)) => SpawnError::Failed(failed),
            Some(Reply::NotSent { errno }) => {
                SpawnError::Failed(SpawnFailed { request: 0, key: 0, stage: SpawnStage::Prepare, errno })
            }
            _ => SpawnError::Unavailable(self.unavailable_error()),
        }
    }

    /// Sends a signal to a whole tree.
    pub(crate) async fn signal(&self, key: u64, signal: u8) -> Result<()> {
        self.signal_to(key, signal, SignalTarget::Tree).await
    }

    /// Sends a signal to the tree, to the command's process group, or to the command alone.
    pub(crate) async fn signal_to(&self, key: u64, signal: u8, target: SignalTarget) -> Result<()> {
        let (request, reply) = self.0.requests.open();
        self.send_request(request, &ToHolder::Signal(Signal { request, key, signal, target: target as u8 }), None);
        self.wait_completion(reply).await
    }

    /// Waits until the holder has carried out a request that starts nothing.
    async fn wait_completion(&self, reply: oneshot::Receiver<Reply>) -> Result<()> {
        match reply.await {
            Ok(Reply::Completed) => Ok(()),
            Ok(Reply::NotSent { errno }) => Err(Error::holder_request_not_sent(errno)),
            _ => Err(self.unavailable_error()),
        }
    }

    /// Creates a sink at the holder: a process without a program, into whose log the holder records these descriptors.
    pub(crate) async fn start_sink(
        &self,
        key: u64,
        log_budget: u64,
        streams: [(Stream, OwnedFd); 2],
    ) -> std::result::Result<StartedProcess, SpawnError> {
        if self.is_gone() || self.is_retired() {
            return Err(SpawnError::Unavailable(self.unavailable_error()));
        }
        let (number, reply) = self.0.requests.open();
        let [(first, first_fd), (second, second_fd)] = streams;
        // The messages arrive in order, so the reply to the last one stands for both.
        for (stream, fd, request) in [(first, first_fd, 0), (second, second_fd, number)] {
            let sink_stream = SinkStream { key, stream: stream as u8, log_budget, request };
            self.send_request(number, &ToHolder::SinkStream(sink_stream), Some(fd.as_fd()));
        }
        match reply.await {
            Ok(Reply::Started(started)) => Ok(started),
            other => Err(self.spawn_error(other.ok())),
        }
    }

    /// Writes an exit into the log under `key`, after all output that was written before.
    pub(crate) async fn finish_sink(&self, key: u64, status: std::result::Result<u8, u8>, cause: Cause) -> Result<()> {
        let (request, reply) = self.0.requests.open();
        let (code, signal) = (status.ok().unwrap_or(0), status.err().unwrap_or(0));
        let finish = FinishSink { request, key, code, signal, cause: cause as u8 };
        self.send_request(request, &ToHolder::FinishSink(finish), None);
        self.wait_completion(reply).await
    }

    /// Terminates a tree: sends `signal` now and KILL at `kill_at`. The holder does this even if this server dies.
    pub(crate) fn terminate(&self, key: u64, signal: u8, kill_at: u64, cause: Cause) -> Termination {
        let (request, reply) = self.0.requests.open();
        let terminate = Terminate { request, key, signal, kill_at, cause: cause as u8 };
        self.send_request(request, &ToHolder::Terminate(terminate), None);
        Termination { link: self.clone(), reply }
    }

    /// The holder kills the tree at `at`; 0 clears the deadline.
    pub(crate) fn set_deadline(&self, key: u64, cause: Cause, at: u64) {
        self.send(&ToHolder::SetDeadline(SetDeadline { key, cause: cause as u8, at }), None);
    }

    pub(crate) fn close_input(&self, key: u64) {
        self.send(&ToHolder::CloseInput(key), None);
    }

    /// Makes the holder read the program's output again.
    pub(crate) fn resume(&self, key: u64) {
        self.send(&ToHolder::Resume(key), None);
    }

    /// Makes the holder drop the process and its log.
    pub(crate) fn forget(&self, key: u64) {
        self.send(&ToHolder::Forget(key), None);
    }

    /// Keeps a descriptor at the holder for the next server.
    pub fn store_fd(&self, name: &str, fd: BorrowedFd<'_>) {
        self.send(&ToHolder::StoreFd(name.as_bytes().to_vec()), Some(fd));
    }

    pub(crate) fn remove_fd(&self, name: &str) {
        self.send(&ToHolder::RemoveFd(name.as_bytes().to_vec()), None);
    }

    pub fn upgrade(&self) {
        self.send(&ToHolder::Upgrade(()), None);
    }

    /// Sends this server's last message: all later requests are refused here.
    pub(crate) fn retired(&self) {
        self.send(&ToHolder::Retired(()), None);
        self.0.retired.store(true, SeqCst);
        self.0.requests.close_all();
    }

    /// Reports that this server serves; the holder does not return to the previous server after this.
    pub(crate) fn serving(&self) {
        self.send(&ToHolder::Serving(()), None);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.0.retired.load(SeqCst)
    }

    /// Waits until no request is pending.
    pub(crate) async fn wait_idle(&self) {
        self.0.requests.wait_empty().await;
    }

    /// Resolves when the holder is gone: replies and exits that only it can report will never come.
    pub(crate) async fn wait_gone(&self) {
        crate::wait_changed(&self.0.gone_changed, || self.is_gone().then_some(())).await;
    }

    fn unavailable_error(&self) -> Error {
        if self.is_gone() {
            return Error::holder_gone();
        }
        Error::being_replaced()
    }

    /// Receives until the holder is gone.
    pub(crate) async fn receive(self, mut on_event: impl FnMut(HolderEvent)) {
        loop {
            let message = tokio::select! {
                received = self.next() => received,
                () = self.flush() => continue,
            };
            match message {
                Ok(Some(received)) => self.dispatch(received, &mut on_event),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(%error, "the connection to the holder broke");
                    break;
                }
            }
        }
        self.0.gone.store(true, SeqCst);
        self.0.gone_changed.notify_waiters();
        self.0.requests.close_all();
        on_event(HolderEvent::HolderGone);
    }

    fn dispatch(&self, received: Packet, on_event: &mut impl FnMut(HolderEvent)) {
        let mut descriptors = received.descriptors.into_iter();
        match ToServer::decode(&received.bytes) {
            Some(ToServer::Spawned(spawned)) => {
                if let Some(log) = descriptors.next() {
                    let started = StartedProcess { log, input: descriptors.next(), spawned };
                    self.0.requests.complete(started.spawned.request, Reply::Started(started));
                }
            }
            Some(ToServer::SpawnFailed(failed)) => {
                self.0.requests.complete(failed.request, Reply::SpawnFailed(failed));
            }
            Some(ToServer::BriefRunResult(result)) => {
                self.0.requests.complete(result.request, Reply::BriefRun(result));
            }
            Some(ToServer::Completion(completion)) => {
                on_completion(&completion);
                self.0.requests.complete(completion.request, Reply::Completed);
            }
            Some(ToServer::Wake(keys)) => on_event(HolderEvent::Wake(keys)),
            Some(ToServer::Retire(())) => on_event(HolderEvent::Retire),
            Some(ToServer::PredecessorExited(())) => on_event(HolderEvent::PredecessorExited),
            Some(ToServer::Upgraded(error)) => on_event(HolderEvent::Upgraded(if error.is_empty() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&error).into_owned())
            })),
            _ => {}
        }
    }

    async fn next(&self) -> io::Result<Option<Packet>> {
        self.0.socket.async_io(Interest::READABLE, Socket::receive).await
    }

    /// Waits until messages are queued, and sends them.
    async fn flush(&self) {
        if lock(&self.0.send_queue).is_empty() {
            self.0.queue_filled.notified().await;
        }
        let send = || {
            let mut queue = lock(&self.0.send_queue);
            while let Some(message) = queue.front() {
                let fds: Vec<BorrowedFd<'_>> = message.fd.iter().map(AsFd::as_fd).collect();
                self.0.socket.get_ref().send(&message.bytes, &fds)?;
                queue.pop_front();
            }
            Ok(())
        };
        if let Err(error) = self.0.send_socket.retry_send(send).await {
            // Drop this message so that it does not block the others. `receive` notices a broken connection.
            let message = lock(&self.0.send_queue).pop_front();
            self.fail_request(message.map_or(0, |message| message.request), &error);
        }
    }
}

/// A kill that leaves survivors is not an error of the request, but worth a log line.
fn on_completion(completion: &Completion) {
    let (key, survivors) = (completion.key, completion.survivors);
    if survivors > 0 {
        tracing::warn!(key, survivors, "processes of a tree survived its kill, or could not be signalled");
    }
}

/// A termination that the holder carries out.
pub(crate) struct Termination {
    link: HolderLink,
    reply: oneshot::Receiver<Reply>,
}

impl Termination {
    /// Waits until the signal has been sent (stop), or until the tree is gone or the killer has given up (kill).
    pub(crate) async fn completed(self) -> Result<()> {
        self.link.wait_completion(self.reply).await
    }
}

/// The holder's reply to a request.
#[derive(Debug)]
enum Reply {
    Started(StartedProcess),
    BriefRun(BriefRunResult),
    SpawnFailed(SpawnFailed),
    Completed,
    /// The request could not be sent.
    NotSent {
        errno: i32,
    },
}

/// Requests that wait for the holder's reply.
#[derive(Default)]
struct PendingRequests {
    inner: Mutex<RequestTable>,
    /// Notified when a request is no longer pending.
    changed: Notify,
}

#[derive(Default)]
struct RequestTable {
    last_number: u32,
    senders: HashMap<u32, oneshot::Sender<Reply>>,
    /// No further reply will come.
    closed: bool,
}

impl PendingRequests {
    /// Returns the number of a new request, and the receiver of its reply.
    fn open(&self) -> (u32, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        let mut inner = lock(&self.inner);
        // Numbers wrap around: skip those that are still pending, and 0, which stands for "no reply expected".
        loop {
            inner.last_number = inner.last_number.wrapping_add(1);
            if inner.last_number != 0 && !inner.senders.contains_key(&inner.last_number) {
                break;
            }
        }
        let number = inner.last_number;
        if !inner.closed {
            inner.senders.insert(number, sender);
        }
        (number, receiver)
    }

    fn complete(&self, number: u32, reply: Reply) {
        let sender = lock(&self.inner).senders.remove(&number);
        if let Some(sender) = sender {
            // The receiver may have been dropped in the meantime.
            let _ = sender.send(reply);
            self.changed.notify_waiters();
        }
    }

    async fn wait_empty(&self) {
        crate::wait_changed(&self.changed, || lock(&self.inner).senders.is_empty().then_some(())).await;
    }

    /// Fails all pending requests, and all later ones.
    fn close_all(&self) {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        inner.senders.clear();
        drop(inner);
        self.changed.notify_waiters();
    }
}
