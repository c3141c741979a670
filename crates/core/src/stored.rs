//! Small named values of other parts of outlive (tokens, sessions, dialects) that survive the server in the journal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::journal::{Change, Journal, Kept};
use crate::{Error, Result, lock};

/// Names in the journal begin like this.
const PREFIX: &str = "stored/";

pub(crate) struct Stored {
    values: Mutex<BTreeMap<String, Vec<u8>>>,
    journal: Arc<Journal>,
}

impl Stored {
    /// Takes its part of what an earlier server left.
    pub(crate) fn take_from(records: &mut BTreeMap<String, Vec<u8>>, journal: Arc<Journal>) -> Self {
        let is_ours = |name: &String| name.starts_with(PREFIX);
        let names: Vec<String> = records.keys().filter(|name| is_ours(name)).cloned().collect();
        let values = names.into_iter().filter_map(|name| {
            let value = records.remove(&name)?;
            Some((name[PREFIX.len()..].to_owned(), value))
        });
        Self { values: Mutex::new(values.collect()), journal }
    }

    pub(crate) fn all(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let values = lock(&self.values);
        let found = values.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        found.map(|(name, value)| (name[prefix.len()..].to_owned(), value.clone())).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        lock(&self.values).get(name).cloned()
    }

    pub(crate) fn put(&self, name: &str, value: Option<Vec<u8>>) -> Result<()> {
        // The lock over both: the journal must know them in the order in which they count here.
        let mut values = lock(&self.values);
        let key = format!("{PREFIX}{name}");
        let change = match &value {
            Some(value) => Change::Put { name: key, value: value.clone() },
            None => Change::Delete { name: key },
        };
        match self.journal.append(&[change]) {
            Kept::Yes => {}
            Kept::ByAnother => return Err(Error::server_replaced()),
            Kept::Not => {
                let message = "there is no memory to keep this for the next server: nothing was changed".to_owned();
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
