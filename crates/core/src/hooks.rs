//! Named points at which a test can kill the server. Only in builds with debug assertions.
//!
//! `OUTLIVE_TEST_KILL_AT=spawn_asked:3` makes the server send itself SIGKILL the third time that it gets there,
//! once per folder `OUTLIVE_TEST_KILL_ONCE` (a marker file there keeps the next server alive).

/// Marks a point of the code by name.
#[inline]
pub fn reach(point: &str) {
    #[cfg(debug_assertions)]
    armed::reach(point);
    #[cfg(not(debug_assertions))]
    let _ = point;
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    struct Trap {
        point: String,
        left: AtomicU32,
        marker: std::path::PathBuf,
    }

    fn trap() -> Option<&'static Trap> {
        static TRAP: OnceLock<Option<Trap>> = OnceLock::new();
        TRAP.get_or_init(|| {
            let wanted = std::env::var("OUTLIVE_TEST_KILL_AT").ok()?;
            let folder = std::env::var_os("OUTLIVE_TEST_KILL_ONCE")?;
            let (point, count) = wanted.split_once(':').unwrap_or((&wanted, "1"));
            let left = AtomicU32::new(count.parse().ok()?);
            Some(Trap { point: point.to_owned(), left, marker: std::path::Path::new(&folder).join("killed") })
        })
        .as_ref()
    }

    pub(super) fn reach(point: &str) {
        let Some(trap) = trap() else { return };
        if trap.point == point && !trap.marker.exists() && trap.left.fetch_sub(1, SeqCst) == 1 {
            let _ = std::fs::write(&trap.marker, point);
            if let Some(me) = rustix::process::Pid::from_raw(std::process::id() as i32) {
                let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
            }
        }
    }
}
