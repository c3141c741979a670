//! What must survive the server, besides logs: named records and the latest events, in one memfd that the
//! holder keeps.
//!
//! ```text
//! | magic | published length | entry | entry | ... | (garbage of a write that never finished)
//! entry = kind u8, name length u32, value length u32, name, value
//! ```
//!
//! Only the serving server writes. A batch becomes visible by one 8-byte store of the published length, so a
//! death in the middle leaves the batch before it. When garbage prevails, the live records are written into a
//! fresh memfd that takes the old one's place at the holder.

mod file;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use self::file::File;
use crate::holder_link::HolderLink;

pub(crate) const KEPT_AS: &str = "journal";

/// Below this much garbage a rewrite is not worth it.
const SMALL_BYTES: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Put = 1,
    Delete = 2,
    Event = 3,
}

/// What became of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Yes,
    /// There is no memory: they count, but only as long as this server lives.
    Not,
    /// Another server writes by now, so they never happened.
    ByAnother,
}

/// One change. A batch of them is seen whole or not at all.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put {
        name: String,
        value: Vec<u8>,
    },
    Delete {
        name: String,
    },
    /// The number of an event and its text.
    Event {
        sequence: u64,
        value: Vec<u8>,
    },
}

/// What an earlier server left.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) records: BTreeMap<String, Vec<u8>>,
    pub(crate) events: VecDeque<(u64, Vec<u8>)>,
}

pub(crate) struct Journal {
    link: HolderLink,
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    /// Where each live record's entry lies.
    live: BTreeMap<String, Place>,
    events: VecDeque<Place>,
    live_bytes: u64,
    max_events: usize,
    closed: bool,
}

#[derive(Clone, Copy)]
struct Place {
    at: u64,
    len: u64,
}

impl Journal {
    /// Takes up the journal that the holder kept, or begins one.
    pub(crate) fn open(
        link: HolderLink,
        kept: Option<OwnedFd>,
        max_events: usize,
    ) -> std::io::Result<(Self, Contents)> {
        let (file, is_new) = match kept {
            Some(fd) => (File::open(fd)?, false),
            None => (File::create()?, true),
        };
        let mut inner =
            Inner { file, live: BTreeMap::new(), events: VecDeque::new(), live_bytes: 0, max_events, closed: false };
        let contents = inner.load()?;
        if is_new {
            link.keep(KEPT_AS, inner.file.fd());
        }
        Ok((Self { link, inner: Mutex::new(inner) }, contents))
    }

    /// As many events are kept for the next server.
    pub(crate) fn set_max_events(&self, most: usize) {
        crate::lock(&self.inner).max_events = most;
    }

    /// Another server writes from now on.
    pub(crate) fn close(&self) {
        crate::lock(&self.inner).closed = true;
    }

    /// Publishes all of `changes` at once.
    pub(crate) fn append(&self, changes: &[Change]) -> Kept {
        let mut inner = crate::lock(&self.inner);
        if inner.closed {
            return Kept::ByAnother;
        }
        if let Err(error) = inner.append(changes) {
            // Memory is exhausted: what runs goes on, but would not be known to the next server.
            tracing::error!(%error, "a record could not be kept");
            return Kept::Not;
        }
        if inner.file.published() > SMALL_BYTES && inner.live_bytes * 2 < inner.file.published() {
            match inner.rewrite() {
                Ok(()) => self.link.keep(KEPT_AS, inner.file.fd()),
                Err(error) => tracing::warn!(%error, "the journal could not be rewritten"),
            }
        }
        Kept::Yes
    }
}

impl Inner {
    fn load(&mut self) -> std::io::Result<Contents> {
        let mut contents = Contents::default();
        let mut at = file::FIRST;
        while at < self.file.published() {
            let entry = self.file.read(at)?;
            let place = Place { at, len: entry.len };
            at += entry.len;
            match entry.kind {
                1 => {
                    let name = String::from_utf8_lossy(&entry.name).into_owned();
                    self.note_put(&name, place);
                    contents.records.insert(name, entry.value);
                }
                2 => {
                    let name = String::from_utf8_lossy(&entry.name);
                    self.note_delete(&name);
                    contents.records.remove(name.as_ref());
                }
                3 => {
                    let sequence = entry.name.as_slice().try_into().map_or(0, u64::from_le_bytes);
                    self.note_event(place);
                    contents.events.push_back((sequence, entry.value));
                    while contents.events.len() > self.events.len() {
                        contents.events.pop_front();
                    }
                }
                // Written by a later version.
                _ => {}
            }
        }
        Ok(contents)
    }

    fn append(&mut self, changes: &[Change]) -> std::io::Result<()> {
        let mut bytes = Vec::with_capacity(512);
        let mut places = Vec::with_capacity(changes.len());
        let start = self.file.published();
        for change in changes {
            let before = bytes.len();
            match change {
                Change::Put { name, value } => file::encode(&mut bytes, Kind::Put as u8, name.as_bytes(), value),
                Change::Delete { name } => file::encode(&mut bytes, Kind::Delete as u8, name.as_bytes(), &[]),
                Change::Event { sequence, value } => {
                    file::encode(&mut bytes, Kind::Event as u8, &sequence.to_le_bytes(), value);
                }
            }
            let len = (bytes.len() - before) as u64;
            if len > file::MAX_ENTRY {
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is too large for the journal"));
            }
            places.push(Place { at: start + before as u64, len });
        }
        self.file.append(&bytes)?;
        for (change, place) in changes.iter().zip(places) {
            match change {
                Change::Put { name, .. } => self.note_put(name, place),
                Change::Delete { name } => self.note_delete(name),
                Change::Event { .. } => self.note_event(place),
            }
        }
        Ok(())
    }

    fn note_put(&mut self, name: &str, place: Place) {
        self.live_bytes += place.len;
        if let Some(old) = self.live.insert(name.to_owned(), place) {
            self.live_bytes -= old.len;
        }
    }

    fn note_delete(&mut self, name: &str) {
        if let Some(old) = self.live.remove(name) {
            self.live_bytes -= old.len;
        }
    }

    fn note_event(&mut self, place: Place) {
        self.live_bytes += place.len;
        self.events.push_back(place);
        while self.events.len() > self.max_events {
            self.live_bytes -= self.events.pop_front().map_or(0, |old| old.len);
        }
    }

    fn rewrite(&mut self) -> std::io::Result<()> {
        let mut fresh = File::create()?;
        let mut bytes = Vec::with_capacity(1 << 16);
        let (mut live, mut events) = (BTreeMap::new(), VecDeque::new());
        let mut at = file::FIRST;
        let mut moved = |place: &Place, bytes: &mut Vec<u8>, file: &File| -> std::io::Result<Place> {
            file.copy(place.at, place.len, bytes)?;
            let new = Place { at, len: place.len };
            at += place.len;
            Ok(new)
        };
        for (name, place) in &self.live {
            live.insert(name.clone(), moved(place, &mut bytes, &self.file)?);
        }
        for place in &self.events {
            events.push_back(moved(place, &mut bytes, &self.file)?);
        }
        fresh.append(&bytes)?;
        (self.file, self.live, self.events) = (fresh, live, events);
        Ok(())
    }
}
