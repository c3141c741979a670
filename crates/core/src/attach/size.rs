//! Which size a terminal has when several clients look at it.
//!
//! Viewers never size. A client that merely connects does not take the size from one that works: what counts
//! is typing and resizing. When a client leaves, the choice is made anew among those who stay.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Size {
    pub cols: u16,
    pub rows: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SizePolicy {
    /// The client that typed or resized last.
    #[default]
    Latest,
    Smallest,
    Largest,
    /// Only an explicit resize call changes it.
    Fixed,
}

/// What the choice looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) size: Option<Size>,
    pub(super) is_writer: bool,
    /// Counts typing and resizing over all clients; 0 = has done neither yet.
    pub(super) active: u64,
    /// Order of arrival.
    pub(super) number: u64,
}

/// The size that these clients want; `None` leaves it as it is.
pub(super) fn choose(policy: SizePolicy, clients: &[Client]) -> Option<Size> {
    let sizing = || clients.iter().filter(|client| client.is_writer).filter_map(|client| Some((client, client.size?)));
    match policy {
        SizePolicy::Fixed => None,
        // Among clients that have done nothing the first to come stays.
        SizePolicy::Latest => {
            sizing().max_by_key(|(client, _)| (client.active, u64::MAX - client.number)).map(|(_, size)| size)
        }
        SizePolicy::Smallest => both(sizing().map(|(_, size)| size), u16::min),
        SizePolicy::Largest => both(sizing().map(|(_, size)| size), u16::max),
    }
}

fn both(sizes: impl Iterator<Item = Size>, pick: fn(u16, u16) -> u16) -> Option<Size> {
    sizes.reduce(|a, b| Size { cols: pick(a.cols, b.cols), rows: pick(a.rows, b.rows) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u64, cols: u16, rows: u16, active: u64) -> Client {
        Client { size: Some(Size { cols, rows }), is_writer: true, active, number }
    }

    #[test]
    fn each_policy_with_three_clients() {
        let viewer = Client { is_writer: false, ..client(9, 10, 10, 99) };
        let clients = [client(1, 100, 30, 2), client(2, 80, 50, 3), client(3, 120, 20, 0), viewer];
        let size = |cols, rows| Some(Size { cols, rows });
        assert_eq!(choose(SizePolicy::Latest, &clients), size(80, 50));
        assert_eq!(choose(SizePolicy::Smallest, &clients), size(80, 20));
        assert_eq!(choose(SizePolicy::Largest, &clients), size(120, 50));
        assert_eq!(choose(SizePolicy::Fixed, &clients), None);
        // The latest leaves: the one that was active before it rules again, not the idle newcomer.
        let rest = [clients[0], clients[2], viewer];
        assert_eq!(choose(SizePolicy::Latest, &rest), size(100, 30));
        // Connecting alone does not take the size away, but the only client has it.
        assert_eq!(choose(SizePolicy::Latest, &[client(1, 100, 30, 0), client(2, 80, 24, 0)]), size(100, 30));
        assert_eq!(choose(SizePolicy::Latest, &[viewer]), None);
    }
}
