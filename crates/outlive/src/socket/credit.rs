//! How much a client can take.

use super::FRAME_BYTES;

/// How much more may be sent to a client that says how much it can take. A browser takes everything from its connection, however much it
/// has not shown yet.
pub(super) struct Credit {
    pub(super) window: Option<u64>,
    pub(super) acknowledged: u64,
}

impl Credit {
    pub(super) fn room(&self, offset: u64) -> usize {
        let Some(window) = self.window else { return FRAME_BYTES };
        let under_way = offset.saturating_sub(self.acknowledged);
        usize::try_from(window.saturating_sub(under_way)).unwrap_or(FRAME_BYTES).min(FRAME_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_under_way_than_a_client_can_take() {
        let mut credit = Credit { window: Some(100_000), acknowledged: 5 };
        assert_eq!(credit.room(5), FRAME_BYTES);
        assert_eq!(credit.room(100_000), 5);
        assert_eq!(credit.room(100_005), 0);
        assert_eq!(credit.room(100_006), 0);
        credit.acknowledged = 1_000;
        assert_eq!(credit.room(100_005), 995);
        credit.window = None;
        assert_eq!(credit.room(u64::MAX), FRAME_BYTES);
    }
}
