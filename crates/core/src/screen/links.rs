//! Hyperlinks (OSC 8).

use std::collections::HashMap;

/// Links beyond this number become plain text.
const MAX_LINKS: usize = 4096;
/// Limit of an address and of an id.
const MAX_BYTES: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Link {
    /// Texts with the same id are one link.
    pub(super) id: String,
    pub(super) address: String,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    all: Vec<Link>,
    numbers: HashMap<Link, u16>,
}

impl Links {
    /// The number of a link, from 1; 0 if a limit is exceeded.
    pub(super) fn intern(&mut self, id: &str, address: &str) -> u16 {
        if address.len() > MAX_BYTES || id.len() > MAX_BYTES {
            return 0;
        }
        // Each text without an id is a link of its own.
        let id = if id.is_empty() { format!("outlive-{}", self.all.len()) } else { id.to_owned() };
        let link = Link { id, address: address.to_owned() };
        if let Some(number) = self.numbers.get(&link) {
            return *number;
        }
        if self.all.len() >= MAX_LINKS {
            return 0;
        }
        self.all.push(link.clone());
        let number = self.all.len() as u16;
        self.numbers.insert(link, number);
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
    fn a_known_link_keeps_its_number_when_the_limit_is_reached() {
        let mut links = Links::default();
        let first = links.intern("a", "http://first");
        while links.intern("", "http://another") != 0 {}
        assert_eq!(links.intern("b", "http://new"), 0);
        assert_eq!(links.intern("a", "http://first"), first);
    }
}
