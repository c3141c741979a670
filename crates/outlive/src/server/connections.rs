//! How many may be connected, and who has to go when there are too many.
//!
//! A connection is a *stranger* until it has shown a token (or whatever lets it in). Strangers are few, short-lived, and
//! the oldest goes when another comes: whoever opens thousands of connections and says nothing throws out only himself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// In the order in which they came.
    strangers: BTreeMap<u64, Arc<Notify>>,
}

impl Connections {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let number = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        Arc::new(Self {
            most: number(limits.max_connections),
            most_strangers: number(limits.max_strangers),
            inner: Mutex::default(),
        })
    }

    /// A place for a newcomer, maybe at the cost of the oldest stranger; `None` if all are taken by who is known.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Arc<Place>> {
        let mut inner = self.lock();
        if inner.known >= self.most {
            return None;
        }
        let room = self.most_strangers.min(self.most - inner.known);
        while inner.strangers.len() >= room {
            let (_, leave) = inner.strangers.pop_first()?;
            leave.notify_one();
        }
        inner.last += 1;
        let leave = Arc::new(Notify::new());
        let number = inner.last;
        inner.strangers.insert(number, Arc::clone(&leave));
        Some(Arc::new(Place { all: Arc::clone(self), number, leave, known: AtomicBool::new(false) }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place; given back when it is dropped.
pub(crate) struct Place {
    all: Arc<Connections>,
    number: u64,
    leave: Arc<Notify>,
    known: AtomicBool,
}

impl Place {
    /// It has shown who it is.
    pub(crate) fn make_known(&self) {
        if self.known.load(Relaxed) {
            return;
        }
        let mut inner = self.all.lock();
        // One that was thrown out a moment ago counts no more.
        if inner.strangers.remove(&self.number).is_some() {
            inner.known += 1;
            self.known.store(true, Relaxed);
        }
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
        if *self.known.get_mut() {
            inner.known -= 1;
        } else {
            inner.strangers.remove(&self.number);
        }
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
    fn the_oldest_stranger_makes_room() {
        let all = connections(10, 2);
        let places: Vec<_> = (0..3).map(|_| all.enter().unwrap()).collect();
        assert_eq!(places.iter().map(|place| has_to_leave(place)).collect::<Vec<_>>(), [true, false, false]);
    }

    #[test]
    fn who_is_known_stays() {
        let all = connections(2, 5);
        let first = all.enter().unwrap();
        first.make_known();
        let second = all.enter().unwrap();
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
