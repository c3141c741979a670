//! Named points at which a test can kill the server. Compiled only with debug assertions.
//!
//! `OUTLIVE_TEST_KILL_AT=spawn_requested:3` makes the server send itself SIGKILL the third time it reaches that point. The
//! kill happens once per directory `OUTLIVE_TEST_KILL_ONCE`: a marker file there keeps the next server alive.

/// Declares that execution has reached the crash point `point`.
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

    struct CrashPoint {
        name: String,
        remaining: AtomicU32,
        marker: std::path::PathBuf,
    }

    fn configured() -> Option<&'static CrashPoint> {
        static CONFIGURED: OnceLock<Option<CrashPoint>> = OnceLock::new();
        CONFIGURED
            .get_or_init(|| {
                let setting = std::env::var("OUTLIVE_TEST_KILL_AT").ok()?;
                let directory = std::env::var_os("OUTLIVE_TEST_KILL_ONCE")?;
                let (name, count) = setting.split_once(':').unwrap_or((&setting, "1"));
                let remaining = AtomicU32::new(count.parse().ok()?);
                let marker = std::path::Path::new(&directory).join("killed");
                Some(CrashPoint { name: name.to_owned(), remaining, marker })
            })
            .as_ref()
    }

    pub(super) fn reach(point: &str) {
        let Some(configured) = configured() else { return };
        let hit = configured.name == point && !configured.marker.exists();
        if hit && configured.remaining.fetch_sub(1, SeqCst) == 1 {
            let _ = std::fs::write(&configured.marker, point);
            if let Some(me) = rustix::process::Pid::from_raw(std::process::id() as i32) {
                let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
            }
        }
    }
}
