//! Small named values that survive the server in the journal: tokens, sessions, screen checkpoints, state of dialects.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use super::journal::{AppendOutcome, Change, Journal};
use crate::events::PendingEvent;
use crate::{Error, Result, lock};

/// Prefix of all these values among the journal's records.
const JOURNAL_PREFIX: &str = "stored/";

pub(crate) struct ValueStore {
    values: Mutex<BTreeMap<String, Vec<u8>>>,
    journal: Arc<Journal>,
}

impl ValueStore {
    /// Reads the values that an earlier server left in the journal.
    pub(crate) fn load(journal: Arc<Journal>) -> io::Result<Self> {
        let values = journal.records_with_prefix(JOURNAL_PREFIX);
        let values = values.map(|(name, value)| Ok((name[JOURNAL_PREFIX.len()..].to_owned(), value?)));
        let values = Mutex::new(values.collect::<io::Result<_>>()?);
        Ok(Self { values, journal })
    }

    /// All values whose names start with `prefix`, by the rest of their names.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let values = lock(&self.values);
        let found = values.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        found.map(|(name, value)| (name[prefix.len()..].to_owned(), value.clone())).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        lock(&self.values).get(name).cloned()
    }

    /// Sets a value, or deletes it (`None`). After an error nothing has changed.
    pub(crate) fn set(&self, name: &str, value: Option<Vec<u8>>) -> Result<()> {
        self.set_with_event(name, value, None)
    }

    /// Like `set`; the change and the event about it are one change of the journal.
    pub(crate) fn set_with_event(
        &self,
        name: &str,
        value: Option<Vec<u8>>,
        event: Option<PendingEvent<'_>>,
    ) -> Result<()> {
        // One lock around both: the journal must get the changes in the order in which they take effect here.
        let mut values = lock(&self.values);
        let journal_name = format!("{JOURNAL_PREFIX}{name}");
        let change = match &value {
            Some(value) => Change::Put { name: journal_name, value: value.clone() },
            None => Change::Delete { name: journal_name },
        };
        let appended = match event {
            Some(event) => event.emit(vec![change]),
            None => self.journal.append(&[change]),
        };
        match appended {
            AppendOutcome::Written => {}
            AppendOutcome::Closed => return Err(Error::server_replaced()),
            AppendOutcome::OutOfMemory => {
                let message = "cannot save the change: memory is exhausted; nothing was changed".to_owned();
                return Err(Error::Exhausted { code: "memory_exhausted", message });
            }
        }
        match value {
            Some(value) => drop(values.insert(name.to_owned(), value)),
            None => drop(values.remove(name)),
        }
        Ok(())
    }
}
