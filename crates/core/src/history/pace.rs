//! Decides when the history slows a program down too much.
//!
//! The writer's lease stops a program that prints faster than the disk writes. That may halve the program's rate, not
//! more. The free rate of the program is measured while the lease does not stop it, the rate of the writer while it does.
//! If the second is under half of the first, the writer gives the lease up and pauses. The pause is as long as it takes
//! for the program to reach three quarters of its free rate on average: the rest is for what the measured free rate does
//! not show, since the writer and the program share processors.

use std::time::Duration;

/// The writer's rate is judged over this much time in which the program was stopped.
const JUDGED_TIME: Duration = Duration::from_millis(250);
/// Between two turns that are further apart than this the program was probably idle: no measure of its free rate.
const MAX_FREE_INTERVAL: Duration = Duration::from_millis(100);
/// A free rate is measured over at least this many bytes, or a quarter of a smaller window.
const MAX_MEASURED_BYTES: u64 = 1 << 20;
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The part of its free rate that a program reaches by pauses.
const KEPT_RATE: f64 = 0.75;
/// A measured free rate counts half after this time: the program may have become slower.
const RATE_HALF_LIFE: Duration = Duration::from_secs(10);
/// A program that ran this many times as long as it was stopped is not slowed down too much.
const MAX_RUNNING_FACTOR: u32 = 3;

/// A log at the beginning of a turn of the writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// Time since any fixed moment.
    pub(super) at: Duration,
    pub(super) head: u64,
    /// Everything before is stored.
    pub(super) stored: u64,
    /// The writer's lease stops the program.
    pub(super) is_stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Continue,
    /// Give the lease up, and continue after this time with what is then in the ring.
    GiveUp {
        pause: Duration,
    },
}

#[derive(Debug)]
pub(super) struct Pace {
    measured_bytes: u64,
    last: Option<Observation>,
    /// Consecutive intervals in which the program ran freely.
    free: Amount,
    /// The highest rate that was measured, and when. Every measurement is the least that the program can do.
    free_rate: Option<(f64, Duration)>,
    /// Intervals in which the program was stopped, since the last verdict.
    stopped: Amount,
    /// How long it was not stopped since then.
    running: Duration,
    /// The log at the beginning of the pause, until its end has been observed.
    paused: Option<Observation>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    bytes: u64,
    time: Duration,
}

impl Amount {
    fn add(&mut self, bytes: u64, time: Duration) {
        self.bytes += bytes;
        self.time += time;
    }

    fn rate(self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64().max(1e-6)
    }
}

impl Pace {
    pub(super) fn new(window: u64) -> Self {
        Self {
            measured_bytes: MAX_MEASURED_BYTES.min(window / 4).max(1),
            last: None,
            free: Amount::default(),
            free_rate: None,
            stopped: Amount::default(),
            running: Duration::ZERO,
            paused: None,
        }
    }

    pub(super) fn observe(&mut self, now: Observation) -> Verdict {
        if let Some(paused) = self.paused.take() {
            self.measure_pause(paused, now);
        }
        let Some(last) = self.last.replace(now) else { return Verdict::Continue };
        let time = now.at.saturating_sub(last.at);
        if last.is_stopped {
            self.stopped.add(now.stored.saturating_sub(last.stored), time);
            self.free = Amount::default();
            return self.judge();
        }
        self.running += time;
        if self.running >= self.stopped.time * MAX_RUNNING_FACTOR {
            (self.stopped, self.running) = (Amount::default(), Duration::ZERO);
        }
        if time > MAX_FREE_INTERVAL {
            self.free = Amount::default();
            return Verdict::Continue;
        }
        self.free.add(now.head.saturating_sub(last.head), time);
        if self.free.bytes >= self.measured_bytes {
            let rate = std::mem::take(&mut self.free).rate();
            self.raise_free_rate(rate, now.at);
        }
        Verdict::Continue
    }

    fn raise_free_rate(&mut self, rate: f64, at: Duration) {
        let old = self.free_rate.map_or(0.0, |(old, measured_at)| {
            let age = at.saturating_sub(measured_at).as_secs_f64() / RATE_HALF_LIFE.as_secs_f64();
            old * 0.5_f64.powf(age)
        });
        self.free_rate = Some((rate.max(old), at));
    }

    /// The program ran without the writer in the pause.
    fn measure_pause(&mut self, start: Observation, end: Observation) {
        let pause = Amount { bytes: end.head.saturating_sub(start.head), time: end.at.saturating_sub(start.at) };
        self.raise_free_rate(pause.rate(), end.at);
    }

    fn judge(&mut self) -> Verdict {
        if self.stopped.time < JUDGED_TIME {
            return Verdict::Continue;
        }
        let stopped = std::mem::take(&mut self.stopped);
        self.running = Duration::ZERO;
        match self.free_rate {
            Some((free_rate, _)) if stopped.rate() < free_rate / 2.0 => {
                Verdict::GiveUp { pause: self.give_up(stopped) }
            }
            _ => Verdict::Continue,
        }
    }

    /// Returns the pause after the program was stopped.
    fn give_up(&mut self, stopped: Amount) -> Duration {
        self.paused = self.last.take();
        self.free = Amount::default();
        let written = self.free_rate.map_or(0.0, |(free_rate, _)| stopped.rate() / free_rate.max(1.0)).min(KEPT_RATE);
        stopped.time.mul_f64((KEPT_RATE - written) / (1.0 - KEPT_RATE)).clamp(MIN_PAUSE, MAX_PAUSE)
    }

    /// The holder has revoked the lease, because the writer made no progress. Returns the pause before the next one.
    pub(super) fn revoked(&mut self) -> Duration {
        let stopped = std::mem::take(&mut self.stopped);
        self.give_up(stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 10 << 20;
    const MB: u64 = 1_000_000;

    /// A program and a disk with fixed rates in bytes per millisecond, simulated in steps of a millisecond.
    struct Simulation {
        pace: Pace,
        now_ms: u64,
        head: u64,
        stored: u64,
        /// Without a lease until then.
        paused_until_ms: u64,
        gaps: u64,
    }

    impl Simulation {
        fn new() -> Self {
            Self { pace: Pace::new(WINDOW), now_ms: 0, head: 0, stored: 0, paused_until_ms: 0, gaps: 0 }
        }

        fn run(&mut self, ms: u64, program: u64, disk: u64) {
            for _ in 0..ms {
                self.now_ms += 1;
                if self.now_ms < self.paused_until_ms {
                    self.head += program;
                    self.stored = self.head;
                    continue;
                }
                self.head = (self.head + program).min(self.stored + WINDOW);
                let is_stopped = self.head == self.stored + WINDOW;
                let at = Duration::from_millis(self.now_ms);
                match self.pace.observe(Observation { at, head: self.head, stored: self.stored, is_stopped }) {
                    Verdict::Continue => self.stored = (self.stored + disk).min(self.head),
                    Verdict::GiveUp { pause } => {
                        self.gaps += 1;
                        self.paused_until_ms = self.now_ms + pause.as_millis() as u64;
                        self.stored = self.head;
                    }
                }
            }
        }
    }

    #[test]
    fn a_disk_of_more_than_half_the_rate_never_gives_up() {
        let mut simulation = Simulation::new();
        simulation.run(20_000, MB, MB * 6 / 10);
        assert_eq!(simulation.gaps, 0);
        assert!(simulation.head >= 20_000 * MB * 6 / 10);
    }

    #[test]
    fn a_slower_disk_leaves_the_program_more_than_half_of_its_rate() {
        for disk in [0, MB / 100, MB / 10, MB * 4 / 10] {
            let mut simulation = Simulation::new();
            simulation.run(20_000, MB, disk);
            assert!(simulation.gaps > 0, "disk {disk}");
            assert!(simulation.head >= 20_000 * MB * 7 / 10, "disk {disk}: {}", simulation.head);
            assert!(simulation.head <= 20_000 * MB * 8 / 10, "disk {disk}: {}", simulation.head);
        }
    }

    #[test]
    fn a_program_that_the_disk_keeps_up_with_is_never_left() {
        let mut simulation = Simulation::new();
        for _ in 0..10 {
            simulation.run(100, MB, MB * 2);
            simulation.run(2_000, 0, MB * 2);
        }
        assert_eq!((simulation.gaps, simulation.head), (0, 1_000 * MB));
    }

    #[test]
    fn idle_time_does_not_lower_the_free_rate() {
        let mut simulation = Simulation::new();
        simulation.run(5_000, 10, MB);
        simulation.run(1_000, MB, MB / 10);
        assert!(simulation.gaps > 0);
    }

    // Regression: short stops added up until a program that was hardly slowed down got a gap.
    #[test]
    fn a_program_with_rare_bursts_is_never_left() {
        let mut simulation = Simulation::new();
        for _ in 0..100 {
            simulation.run(50, MB, MB / 4);
            simulation.run(1_000, 0, MB / 4);
        }
        assert_eq!(simulation.gaps, 0);
    }

    #[test]
    fn a_pause_after_a_revoked_lease_is_three_times_as_long_as_the_stop() {
        let mut pace = Pace::new(WINDOW);
        let observe = |pace: &mut Pace, ms| {
            let at = Duration::from_millis(ms);
            pace.observe(Observation { at, head: WINDOW, stored: 0, is_stopped: true })
        };
        assert_eq!(observe(&mut pace, 0), Verdict::Continue);
        assert_eq!(observe(&mut pace, 200), Verdict::Continue);
        assert_eq!(pace.revoked(), Duration::from_millis(600));
        assert_eq!(pace.revoked(), MIN_PAUSE);
    }
}
