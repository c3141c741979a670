//! The addresses behind text that can be clicked on.

use std::collections::HashMap;

/// So many; others that come later are plain text.
const MOST: usize = 4096;
/// Of an address, and of an id, in bytes.
const LONGEST: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Link {
    /// Text in several places is one link if it has the same one.
    pub(super) id: String,
    pub(super) address: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    all: Vec<Link>,
    by_name: HashMap<Link, u16>,
}

impl Links {
    /// The number of a link, from 1; 0 if there can be none.
    pub(super) fn number(&mut self, id: &str, address: &str) -> u16 {
        if address.len() > LONGEST || id.len() > LONGEST {
            return 0;
        }
        // Text that has no id is a link of its own every time.
        let id = if id.is_empty() { format!("outlive-{}", self.all.len()) } else { id.to_owned() };
        let link = Link { id, address: address.to_owned() };
        if let Some(number) = self.by_name.get(&link) {
            return *number;
        }
        if self.all.len() >= MOST {
            return 0;
        }
        self.all.push(link.clone());
        let number = self.all.len() as u16;
        self.by_name.insert(link, number);
        number
    }

    pub(super) fn get(&self, number: u16) -> Option<&Link> {
        usize::from(number).checked_sub(1).and_then(|at| self.all.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_is_known_was_no_link_any_more_when_there_were_too_many() {
        let mut links = Links::default();
        let first = links.number("a", "http://first");
        while links.number("", "http://another") != 0 {}
        assert_eq!(links.number("b", "http://new"), 0);
        assert_eq!(links.number("a", "http://first"), first);
    }
}
