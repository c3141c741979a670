//! How many may be connected, and who has to go when there are too many.
//!
//! A connection is a *stranger* until it has shown a token (or whatever lets it in). Strangers are few and short-lived, and
//! when another one comes, the one goes for which we have waited longest: whoever opens thousands of connections and
//! says nothing, or asks and does not read, throws out only himself. Somebody who has just come, and whose turn has not
//! come yet, is not waited for.

use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use crate::settings::Limits;

pub(crate) struct Connections {
    most: usize,
    most_strangers: usize,
    inner: Mutex<Inner>,
    nobody: Notify,
    heard: Notify,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// All are known, and stay.
    AllTaken,
    /// Many have come at once, and each is heard in a moment.
    Crowded,
}

#[derive(Default)]
struct Inner {
    last: u64,
    known: usize,
    /// Strangers for which we do not wait (yet), in the order in which they came.
    unheard: BTreeMap<u64, (Instant, Arc<Notify>)>,
    /// Strangers for which we wait, in the order in which that began.
    awaited: BTreeMap<u64, Arc<Notify>>,
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn strangers(&self) -> usize {
        self.unheard.len() + self.awaited.len()
    }

    /// False if it was not there any more.
    fn forget(&mut self, stranger: State) -> bool {
        match stranger {
            State::Unheard(number) => self.unheard.remove(&number).is_some(),
            State::Awaited(number) => self.awaited.remove(&number).is_some(),
            State::Known => false,
        }
    }

    /// The stranger that has to go first, if there is one that may be sent away.
    fn first_to_go(&mut self) -> Option<Arc<Notify>> {
        if let Some((_, leave)) = self.awaited.pop_first() {
            return Some(leave);
        }
        let oldest = self.unheard.first_entry()?;
        (oldest.get().0.elapsed() >= PATIENCE).then(|| oldest.remove().1)
    }
}

/// A crowd that comes all at once is let in this many times over before newcomers are turned away: as long as nothing was
/// read from them, they cost little.
const CROWD: usize = 2;
/// Everybody has had a turn by then, and who is still a stranger does not want anything else to be known.
const PATIENCE: Duration = Duration::from_secs(5);
/// A stranger that has asked this often is not listened to any more, unless one of its requests shows who it is: what it
/// does not read of the answers is ours to keep.
const ASKS_OF_A_STRANGER: u32 = 8;

impl Connections {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let number = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        // Logs, terminals and files need descriptors too.
        let most = number(limits.max_connections).min(number(descriptors() / 2)).max(1);
        Arc::new(Self {
            most,
            most_strangers: number(limits.max_strangers).min(most),
            inner: Mutex::default(),
            heard: Notify::new(),
            nobody: Notify::new(),
        })
    }

    /// A place for a newcomer, maybe at the cost of a stranger.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Arc<Place>, NoPlace> {
        let mut inner = self.lock();
        let left = self.most.saturating_sub(inner.known);
        let room = self.most_strangers.min(left);
        let crowd = room.saturating_mul(CROWD).min(left);
        while inner.strangers() >= room {
            match inner.first_to_go() {
                Some(leave) => leave.notify_one(),
                None if crowd == 0 => return Err(NoPlace::AllTaken),
                None if inner.strangers() >= crowd => return Err(NoPlace::Crowded),
                None => break,
            }
        }
        let number = inner.number();
        let leave = Arc::new(Notify::new());
        inner.unheard.insert(number, (Instant::now(), Arc::clone(&leave)));
        Ok(Arc::new(Place {
            all: Arc::clone(self),
            leave,
            state: Mutex::new(State::Unheard(number)),
            known: AtomicBool::new(false),
            asked: AtomicU32::new(0),
            enough: Notify::new(),
            turn: AtomicU32::new(0),
            listens: AtomicWaker::new(),
        }))
    }

    pub(super) fn is_empty(&self) -> bool {
        let inner = self.lock();
        inner.known + inner.strangers() == 0
    }

    /// Resolves when one more of a crowd was heard, or has had its time.
    pub(super) async fn until_one_was_heard(&self) {
        const LOOK_AGAIN: Duration = Duration::from_millis(500);
        let _ = tokio::time::timeout(LOOK_AGAIN, self.heard.notified()).await;
    }

    /// Resolves once each time the last one has gone.
    pub(super) async fn until_nobody_is_there(&self) {
        self.nobody.notified().await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place; given back when it is dropped.
pub(crate) struct Place {
    all: Arc<Connections>,
    leave: Arc<Notify>,
    state: Mutex<State>,
    /// `State::Known`, without a lock: this is asked with every request.
    known: AtomicBool,
    /// Requests of a stranger.
    asked: AtomicU32,
    enough: Notify,
    /// How often the connection has had the processor.
    turn: AtomicU32,
    /// Wakes who does not listen to a stranger.
    listens: AtomicWaker,
}

/// How much is read from a connection at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bite {
    Whole,
    Small,
    None,
}

/// With its number in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unheard(u64),
    Awaited(u64),
    Known,
}

impl Place {
    /// It has shown who it is.
    /// False: its place was given to another a moment ago.
    pub(crate) fn make_known(&self) -> bool {
        if !self.is_known() {
            self.change(State::Known);
        }
        self.is_known()
    }

    /// It has sent nothing that we could read, or does not read what we have sent.
    pub(super) fn make_awaited(&self) {
        self.change(State::Awaited(0));
    }

    /// It has sent a request.
    pub(super) fn asks(&self) {
        if self.is_known() {
            return;
        }
        if self.asked.fetch_add(1, Relaxed) + 1 == ASKS_OF_A_STRANGER {
            self.enough.notify_one();
        }
    }

    pub(super) fn bite(&self, context: &Context<'_>) -> Bite {
        if self.is_known() {
            return Bite::Whole;
        }
        self.listens.register(context.waker());
        // It may have become known just before the waker was there.
        match self.asked.load(Relaxed) {
            _ if self.is_known() => Bite::Whole,
            0..ASKS_OF_A_STRANGER => Bite::Small,
            _ => Bite::None,
        }
    }

    /// Resolves when a stranger has asked often enough.
    pub(super) async fn has_asked_enough(&self) {
        self.enough.notified().await;
    }

    fn change(&self, to: State) {
        let mut inner = self.all.lock();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (*state, to) {
            (State::Unheard(number), State::Awaited(_)) if inner.unheard.remove(&number).is_some() => {
                let number = inner.number();
                inner.awaited.insert(number, Arc::clone(&self.leave));
                *state = State::Awaited(number);
            }
            // One that was thrown out a moment ago counts no more.
            (stranger, State::Known) if inner.forget(stranger) => {
                inner.known += 1;
                *state = State::Known;
            }
            _ => {}
        }
        self.all.heard.notify_one();
        if *state == State::Known {
            self.known.store(true, Release);
            self.listens.wake();
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.known.load(Acquire)
    }

    /// The number of the turn.
    pub(super) fn turn(&self) -> u32 {
        self.turn.load(Relaxed)
    }

    /// Whoever reads from the connection does it in turns: one bite of a stranger in each.
    pub(super) async fn in_turns<F: Future>(&self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| {
            self.turn.fetch_add(1, Relaxed);
            work.as_mut().poll(context)
        })
        .await
    }

    /// Resolves when somebody else needs the place.
    pub(super) async fn must_leave(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.all.lock();
        match *self.state.get_mut().unwrap_or_else(PoisonError::into_inner) {
            State::Known => inner.known -= 1,
            stranger => drop(inner.forget(stranger)),
        }
        self.all.heard.notify_one();
        if inner.known + inner.strangers() == 0 {
            self.all.nobody.notify_one();
        }
    }
}

/// How many this process may have open.
fn descriptors() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(most: u64, strangers: u64) -> Arc<Connections> {
        Connections::new(&Limits { max_connections: most, max_strangers: strangers, ..Limits::default() })
    }

    fn has_to_leave(place: &Place) -> bool {
        use futures_util::FutureExt as _;
        place.must_leave().now_or_never().is_some()
    }

    #[test]
    fn who_keeps_us_waiting_longest_makes_room() {
        let all = connections(10, 2);
        let places: Vec<_> = (0..2).map(|_| all.enter().unwrap()).collect();
        places[1].make_awaited();
        places[0].make_awaited();
        let third = all.enter().unwrap();
        assert_eq!([&places[0], &places[1], &third].map(|place| has_to_leave(place)), [false, true, false]);
    }

    #[test]
    fn who_has_not_had_a_turn_does_not_have_to_go() {
        let all = connections(100, 2);
        let places: Vec<_> = (0..2 * CROWD).map(|_| all.enter().unwrap()).collect();
        assert!(places.iter().all(|place| !has_to_leave(place)));
        assert_eq!(all.enter().err(), Some(NoPlace::Crowded), "a crowd has an end too");
        drop(places);
        assert!(all.enter().is_ok());
    }

    #[test]
    fn a_stranger_may_ask_only_so_often() {
        use futures_util::FutureExt as _;
        let all = connections(10, 2);
        let (stranger, known) = (all.enter().unwrap(), all.enter().unwrap());
        known.make_known();
        let ask = |place: &Place, times| (0..times).for_each(|_| place.asks());
        let enough = |place: &Place| place.has_asked_enough().now_or_never().is_some();
        ask(&stranger, ASKS_OF_A_STRANGER - 1);
        assert!(!enough(&stranger));
        ask(&stranger, 1);
        assert!(enough(&stranger));
        ask(&known, 10 * ASKS_OF_A_STRANGER);
        assert!(!enough(&known));
        let context = Context::from_waker(std::task::Waker::noop());
        assert_eq!((stranger.bite(&context), known.bite(&context)), (Bite::None, Bite::Whole));
        stranger.make_known();
        assert_eq!(stranger.bite(&context), Bite::Whole, "one of its requests has shown who it is");
    }

    #[test]
    fn who_is_known_stays() {
        let all = connections(2, 5);
        let first = all.enter().unwrap();
        first.make_known();
        let second = all.enter().unwrap();
        second.make_awaited();
        let third = all.enter().unwrap();
        assert_eq!([&first, &second, &third].map(|place| has_to_leave(place)), [false, true, false]);
        third.make_known();
        assert_eq!(all.enter().err(), Some(NoPlace::AllTaken));
        assert!(!second.make_known(), "it had to leave");
        drop(first);
        assert!(all.enter().is_ok());
    }
}
