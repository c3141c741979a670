//! Connection slots: how many connections are accepted, and which one is evicted when there are too many.
//!
//! A connection is *unauthenticated* until a request on it shows a valid credential. Unauthenticated connections have
//! their own, lower limit. When another one arrives at the limit, the one is evicted for which the server has waited
//! longest: a client that opens thousands of connections and sends nothing, or does not read its responses, evicts only
//! its own. A connection that was accepted a moment ago and has not been served yet does not count as waiting.

use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use outlive_core::lock;
use tokio::sync::Notify;

use crate::settings::ServerLimits;

/// A burst of new connections may exceed the limit by this factor before newcomers wait: a connection from which
/// nothing was read yet costs little.
const BURST_FACTOR: usize = 2;
/// Every new connection has been served by then, so one that is still new may be evicted.
const NEW_TIMEOUT: Duration = Duration::from_secs(5);
/// After this many requests without a valid credential, nothing more is read from a connection: responses that its
/// client does not read would fill our memory.
const MAX_UNAUTHENTICATED_REQUESTS: u32 = 8;

/// All connections of this server.
pub(crate) struct ConnectionTable {
    max_connections: usize,
    max_unauthenticated: usize,
    inner: Mutex<Inner>,
    /// Notified when the last connection was closed.
    emptied: Notify,
    /// Notified when a slot changed its state or was freed.
    changed: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotUnavailable {
    /// All connections are authenticated; none can be evicted.
    Full,
    /// Many connections arrived at once. A slot becomes free as soon as the server has served one of them.
    Burst,
}

#[derive(Default)]
struct Inner {
    last_number: u64,
    authenticated: usize,
    /// Unauthenticated connections for which the server does not wait yet, in order of arrival.
    new: BTreeMap<u64, (Instant, Arc<Notify>)>,
    /// Unauthenticated connections for which the server waits, in the order in which the wait began.
    awaiting_client: BTreeMap<u64, Arc<Notify>>,
}

impl Inner {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn unauthenticated(&self) -> usize {
        self.new.len() + self.awaiting_client.len()
    }

    fn is_empty(&self) -> bool {
        self.authenticated + self.unauthenticated() == 0
    }

    /// False if the connection was evicted before.
    fn remove_unauthenticated(&mut self, state: SlotState) -> bool {
        match state {
            SlotState::New(number) => self.new.remove(&number).is_some(),
            SlotState::AwaitingClient(number) => self.awaiting_client.remove(&number).is_some(),
            SlotState::Authenticated => false,
        }
    }

    /// Removes the connection to evict next; `None` if none may be evicted.
    fn pop_evictable(&mut self) -> Option<Arc<Notify>> {
        if let Some((_, eviction)) = self.awaiting_client.pop_first() {
            return Some(eviction);
        }
        let oldest = self.new.first_entry()?;
        (oldest.get().0.elapsed() >= NEW_TIMEOUT).then(|| oldest.remove().1)
    }
}

impl ConnectionTable {
    pub(super) fn new(limits: &ServerLimits) -> Arc<Self> {
        let to_usize = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        // The other half of the descriptors is for logs, terminals and files.
        let max_connections = to_usize(limits.max_connections).min(to_usize(max_descriptors() / 2)).max(1);
        Arc::new(Self {
            max_connections,
            max_unauthenticated: to_usize(limits.max_unauthenticated).min(max_connections),
            inner: Mutex::default(),
            emptied: Notify::new(),
            changed: Notify::new(),
        })
    }

    /// A slot for a new connection; may evict an unauthenticated one.
    pub(super) fn acquire(self: &Arc<Self>) -> Result<Arc<ConnectionSlot>, SlotUnavailable> {
        let mut inner = self.lock();
        let available = self.max_connections.saturating_sub(inner.authenticated);
        let limit = self.max_unauthenticated.min(available);
        let burst_limit = limit.saturating_mul(BURST_FACTOR).min(available);
        while inner.unauthenticated() >= limit {
            match inner.pop_evictable() {
                Some(eviction) => eviction.notify_one(),
                None if burst_limit == 0 => return Err(SlotUnavailable::Full),
                None if inner.unauthenticated() >= burst_limit => return Err(SlotUnavailable::Burst),
                None => break,
            }
        }
        let number = inner.next_number();
        let eviction = Arc::new(Notify::new());
        inner.new.insert(number, (Instant::now(), Arc::clone(&eviction)));
        Ok(Arc::new(ConnectionSlot {
            table: Arc::clone(self),
            eviction,
            state: Mutex::new(SlotState::New(number)),
            authenticated: AtomicBool::new(false),
            unauthenticated_requests: AtomicU32::new(0),
            request_limit: Notify::new(),
            polls: AtomicU32::new(0),
            reader: AtomicWaker::new(),
        }))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Waits until a slot may be available for one more connection of a burst.
    pub(super) async fn wait_burst_progress(&self) {
        /// Not only on a change: a new connection may be evicted after `NEW_TIMEOUT`.
        const RETRY_INTERVAL: Duration = Duration::from_millis(500);
        let _ = tokio::time::timeout(RETRY_INTERVAL, self.changed.notified()).await;
    }

    /// Resolves once each time the last connection has been closed.
    pub(super) async fn wait_emptied(&self) {
        self.emptied.notified().await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// The slot of one connection; freed on drop.
pub(crate) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    eviction: Arc<Notify>,
    state: Mutex<SlotState>,
    /// Same as `SlotState::Authenticated`, without a lock: every request reads it.
    authenticated: AtomicBool,
    unauthenticated_requests: AtomicU32,
    /// Notified at `MAX_UNAUTHENTICATED_REQUESTS`.
    request_limit: Notify,
    /// How often the task of the connection was polled.
    polls: AtomicU32,
    /// Wakes the reader of a paused connection.
    reader: AtomicWaker,
}

/// How much may be read from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadMode {
    Full,
    /// A few bytes per poll, because an HTTP/2 request takes only a few bytes.
    Limited,
    Paused,
}

/// With the key in the table's maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    New(u64),
    AwaitingClient(u64),
    Authenticated,
}

impl ConnectionSlot {
    /// A request on the connection has shown a valid credential. False: the connection was evicted before.
    pub(crate) fn mark_authenticated(&self) -> bool {
        if !self.is_authenticated() {
            self.change_state(SlotState::Authenticated);
        }
        self.is_authenticated()
    }

    /// The server waits for the client to send a request or to read a response.
    pub(super) fn mark_awaiting_client(&self) {
        self.change_state(SlotState::AwaitingClient(0));
    }

    pub(super) fn count_request(&self) {
        if self.is_authenticated() {
            return;
        }
        if self.unauthenticated_requests.fetch_add(1, Relaxed) + 1 == MAX_UNAUTHENTICATED_REQUESTS {
            self.request_limit.notify_one();
        }
    }

    /// While the connection is unauthenticated, the context's task is woken when that changes.
    pub(super) fn read_mode(&self, context: &Context<'_>) -> ReadMode {
        if self.is_authenticated() {
            return ReadMode::Full;
        }
        self.reader.register(context.waker());
        match self.unauthenticated_requests.load(Relaxed) {
            // Checked again: it may have been authenticated just before the waker was registered.
            _ if self.is_authenticated() => ReadMode::Full,
            0..MAX_UNAUTHENTICATED_REQUESTS => ReadMode::Limited,
            _ => ReadMode::Paused,
        }
    }

    /// Resolves when an unauthenticated connection has sent as many requests as it may.
    pub(super) async fn wait_request_limit(&self) {
        self.request_limit.notified().await;
    }

    fn change_state(&self, new_state: SlotState) {
        let mut inner = self.table.lock();
        let mut state = lock(&self.state);
        match (*state, new_state) {
            (SlotState::New(number), SlotState::AwaitingClient(_)) if inner.new.remove(&number).is_some() => {
                let number = inner.next_number();
                inner.awaiting_client.insert(number, Arc::clone(&self.eviction));
                *state = SlotState::AwaitingClient(number);
            }
            // A connection that was evicted a moment ago stays unauthenticated.
            (old_state, SlotState::Authenticated) if inner.remove_unauthenticated(old_state) => {
                inner.authenticated += 1;
                *state = SlotState::Authenticated;
            }
            _ => {}
        }
        self.table.changed.notify_one();
        if *state == SlotState::Authenticated {
            self.authenticated.store(true, Release);
            self.reader.wake();
        }
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Acquire)
    }

    pub(super) fn poll_count(&self) -> u32 {
        self.polls.load(Relaxed)
    }

    /// Counts the polls of `work`, by which `ReadMode::Limited` limits what is read per poll.
    pub(super) async fn count_polls<F: Future>(&self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| {
            self.polls.fetch_add(1, Relaxed);
            work.as_mut().poll(context)
        })
        .await
    }

    /// Resolves when the slot was given to another connection.
    pub(super) async fn wait_evicted(&self) {
        self.eviction.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut inner = self.table.lock();
        match *self.state.get_mut().unwrap_or_else(PoisonError::into_inner) {
            SlotState::Authenticated => inner.authenticated -= 1,
            state => drop(inner.remove_unauthenticated(state)),
        }
        self.table.changed.notify_one();
        if inner.is_empty() {
            self.table.emptied.notify_one();
        }
    }
}

/// RLIMIT_NOFILE of this process.
fn max_descriptors() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_table(max_connections: u64, max_unauthenticated: u64) -> Arc<ConnectionTable> {
        ConnectionTable::new(&ServerLimits { max_connections, max_unauthenticated, ..ServerLimits::default() })
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        use futures_util::FutureExt as _;
        slot.wait_evicted().now_or_never().is_some()
    }

    #[test]
    fn the_longest_awaited_connection_is_evicted() {
        let table = new_table(10, 2);
        let slots: Vec<_> = (0..2).map(|_| table.acquire().unwrap()).collect();
        slots[1].mark_awaiting_client();
        slots[0].mark_awaiting_client();
        let third = table.acquire().unwrap();
        assert_eq!([&slots[0], &slots[1], &third].map(|slot| is_evicted(slot)), [false, true, false]);
    }

    #[test]
    fn new_connections_are_not_evicted() {
        let table = new_table(100, 2);
        let slots: Vec<_> = (0..2 * BURST_FACTOR).map(|_| table.acquire().unwrap()).collect();
        assert!(slots.iter().all(|slot| !is_evicted(slot)));
        assert_eq!(table.acquire().err(), Some(SlotUnavailable::Burst), "a burst is limited too");
        drop(slots);
        assert!(table.acquire().is_ok());
    }

    #[test]
    fn requests_of_an_unauthenticated_connection_are_limited() {
        use futures_util::FutureExt as _;
        let table = new_table(10, 2);
        let (unauthenticated, authenticated) = (table.acquire().unwrap(), table.acquire().unwrap());
        authenticated.mark_authenticated();
        let send_requests = |slot: &ConnectionSlot, count| (0..count).for_each(|_| slot.count_request());
        let is_limited = |slot: &ConnectionSlot| slot.wait_request_limit().now_or_never().is_some();
        send_requests(&unauthenticated, MAX_UNAUTHENTICATED_REQUESTS - 1);
        assert!(!is_limited(&unauthenticated));
        send_requests(&unauthenticated, 1);
        assert!(is_limited(&unauthenticated));
        send_requests(&authenticated, 10 * MAX_UNAUTHENTICATED_REQUESTS);
        assert!(!is_limited(&authenticated));
        let context = Context::from_waker(std::task::Waker::noop());
        let modes = (unauthenticated.read_mode(&context), authenticated.read_mode(&context));
        assert_eq!(modes, (ReadMode::Paused, ReadMode::Full));
        unauthenticated.mark_authenticated();
        assert_eq!(unauthenticated.read_mode(&context), ReadMode::Full, "one of its requests had a credential");
    }

    #[test]
    fn authenticated_connections_are_not_evicted() {
        let table = new_table(2, 5);
        let first = table.acquire().unwrap();
        first.mark_authenticated();
        let second = table.acquire().unwrap();
        second.mark_awaiting_client();
        let third = table.acquire().unwrap();
        assert_eq!([&first, &second, &third].map(|slot| is_evicted(slot)), [false, true, false]);
        third.mark_authenticated();
        assert_eq!(table.acquire().err(), Some(SlotUnavailable::Full));
        assert!(!second.mark_authenticated(), "it was evicted");
        drop(first);
        assert!(table.acquire().is_ok());
    }
}
