//! How many may be connected, and who has to go when there are too many.
//!
//! A connection is a *stranger* until it has shown a token (or whatever lets it in). Strangers are few and short-lived, and
//! when another one comes, the one goes for which we have waited longest: whoever opens thousands of connections and
//! says nothing throws out only himself. Somebody whose request has arrived, but whose turn has not come yet, is not
//! waited for.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::settings::Limits;

pub(crate) struct Connections {
    most: usize,
    most_strangers: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last: u64,
    known: usize,
    /// Strangers for which we do not wait (yet).
    unheard: usize,
    /// Strangers for which we wait, in the order in which that began.
    awaited: BTreeMap<u64, Arc<Notify>>,
}

/// A crowd that comes all at once is let in this many times over before newcomers are turned away: as long as nothing was
/// read from them, they cost little.
const CROWD: usize = 4;

impl Connections {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let number = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        Arc::new(Self {
            most: number(limits.max_connections),
            most_strangers: number(limits.max_strangers),
            inner: Mutex::default(),
        })
    }

    /// A place for a newcomer, maybe at the cost of a stranger; `None` if there is none.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Arc<Place>> {
        let mut inner = self.lock();
        let room = self.most_strangers.min(self.most.saturating_sub(inner.known));
        while inner.unheard + inner.awaited.len() >= room {
            match inner.awaited.pop_first() {
                Some((_, leave)) => leave.notify_one(),
                None if inner.unheard >= room.saturating_mul(CROWD) => return None,
                None => break,
            }
        }
        inner.unheard += 1;
        let leave = Arc::new(Notify::new());
        Some(Arc::new(Place {
            all: Arc::clone(self),
            leave,
            state: Mutex::new(State::Unheard),
            known: AtomicBool::new(false),
        }))
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unheard,
    /// With its number in the line.
    Awaited(u64),
    Known,
}

impl Place {
    /// It has shown who it is.
    pub(crate) fn make_known(&self) {
        if self.known.load(Relaxed) {
            return;
        }
        self.change(State::Known);
    }

    /// It has sent nothing that we could read.
    fn is_awaited(&self) {
        self.change(State::Awaited(0));
    }

    fn change(&self, to: State) {
        let mut inner = self.all.lock();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (*state, to) {
            (State::Unheard, State::Awaited(_)) => {
                inner.last += 1;
                let number = inner.last;
                inner.unheard -= 1;
                inner.awaited.insert(number, Arc::clone(&self.leave));
                *state = State::Awaited(number);
            }
            (State::Unheard, State::Known) => {
                inner.unheard -= 1;
                inner.known += 1;
                *state = State::Known;
            }
            // One that was thrown out a moment ago counts no more.
            (State::Awaited(number), State::Known) if inner.awaited.remove(&number).is_some() => {
                inner.known += 1;
                *state = State::Known;
            }
            _ => {}
        }
        self.known.store(*state == State::Known, Relaxed);
    }

    pub(super) fn is_known(&self) -> bool {
        self.known.load(Relaxed)
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
            State::Unheard => inner.unheard -= 1,
            State::Awaited(number) => drop(inner.awaited.remove(&number)),
            State::Known => inner.known -= 1,
        }
    }
}

/// A connection that tells its place when it makes us wait.
pub(super) struct Heard<T> {
    line: T,
    place: Arc<Place>,
    told: bool,
}

impl<T> Heard<T> {
    pub(super) fn new(line: T, place: Arc<Place>) -> Self {
        Self { line, place, told: false }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Heard<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.line).poll_read(context, room);
        if read.is_pending() && !self.told {
            self.told = true;
            self.place.is_awaited();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Heard<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.line.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(context)
    }
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
        places[1].is_awaited();
        places[0].is_awaited();
        let third = all.enter().unwrap();
        assert_eq!([&places[0], &places[1], &third].map(|place| has_to_leave(place)), [false, true, false]);
    }

    #[test]
    fn who_has_not_had_a_turn_does_not_have_to_go() {
        let all = connections(100, 2);
        let places: Vec<_> = (0..2 * CROWD).map(|_| all.enter().unwrap()).collect();
        assert!(places.iter().all(|place| !has_to_leave(place)));
        assert!(all.enter().is_none(), "a crowd has an end too");
        drop(places);
        assert!(all.enter().is_some());
    }

    #[test]
    fn who_is_known_stays() {
        let all = connections(2, 5);
        let first = all.enter().unwrap();
        first.make_known();
        let second = all.enter().unwrap();
        second.is_awaited();
        let third = all.enter().unwrap();
        assert_eq!([&first, &second, &third].map(|place| has_to_leave(place)), [false, true, false]);
        third.make_known();
        assert!(all.enter().is_none(), "all places are taken");
        second.make_known();
        assert!(!second.is_known(), "it had to leave");
        drop(first);
        assert!(all.enter().is_some());
    }
}
