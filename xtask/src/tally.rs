//! The result of a stage: how many checks passed and failed, and notes.
//!
//! Also parses the counts that other programs print. A count that cannot be found is a failure, never a
//! zero.

use std::ops::AddAssign;
use std::process::ExitStatus;

use crate::run::Finished;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) notes: Vec<String>,
    pub(crate) skipped: bool,
}

impl Tally {
    /// For a stage that has no count of its own.
    pub(crate) fn passed() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self { failed: 1, ..Self::default() }.note(why)
    }

    /// Neither passed nor failed: nothing was checked, and the table says so.
    pub(crate) fn skipped(why: impl Into<String>) -> Self {
        Self { skipped: true, ..Self::default() }.note(format!("skipped: {}", why.into()))
    }

    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match (self.skipped, self.failed) {
            (true, _) => "skipped",
            (false, 0) => "passed",
            (false, _) => "FAILED",
        }
    }

    /// Reads the `test result:` lines of `cargo test`, one per test binary.
    pub(crate) fn from_cargo_test(finished: &Finished) -> Self {
        let mut tally = Self::default();
        let mut ignored = 0;
        let results = finished.lines.iter().filter(|line| line.starts_with("test result: "));
        for line in results {
            tally.passed += number_before(line, " passed;").unwrap_or(0);
            tally.failed += number_before(line, " failed;").unwrap_or(0);
            ignored += number_before(line, " ignored;").unwrap_or(0);
        }
        if ignored > 0 {
            tally = tally.note(format!("{ignored} ignored"));
        }
        if finished.left_behind {
            tally = tally.note("a process left behind still holds the output open");
        }
        tally.settle(finished.status)
    }

    /// Reads the last line of a suite: `N passed, M failed`.
    pub(crate) fn from_suite(finished: &Finished) -> Self {
        let last = finished.lines.iter().rev().find(|line| !line.trim().is_empty());
        let Some(tally) = last.and_then(|line| Self::from_line(line)) else {
            return Self::failed("its last line is not `N passed, M failed`");
        };
        tally.settle(finished.status)
    }

    fn from_line(line: &str) -> Option<Self> {
        let (passed, rest) = line.trim().split_once(" passed, ")?;
        let failed = rest.strip_suffix(" failed")?;
        Some(Self { passed: passed.parse().ok()?, failed: failed.parse().ok()?, ..Self::default() })
    }

    /// A bad exit status fails the stage whatever it counted: a compile error or an abort prints no count.
    fn settle(mut self, status: ExitStatus) -> Self {
        if self.failed > 0 {
            return self;
        }
        if !status.success() {
            self.failed = 1;
            return self.note(format!("no failure counted, but it ended with {status}"));
        }
        if self.passed == 0 {
            self.failed = 1;
            return self.note("it checked nothing");
        }
        self
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.notes.extend(other.notes);
    }
}

fn number_before(line: &str, label: &str) -> Option<u32> {
    let (before, _) = line.split_once(label)?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn finished(code: i32, text: &str) -> Finished {
        Finished {
            status: ExitStatus::from_raw(code << 8),
            lines: text.lines().map(str::to_owned).collect(),
            left_behind: false,
        }
    }

    fn counts(tally: &Tally) -> (u32, u32) {
        (tally.passed, tally.failed)
    }

    #[test]
    fn all_test_binaries_are_summed() {
        let text = "\
running 3 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 12 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        let tally = Tally::from_cargo_test(&finished(101, text));
        assert_eq!(counts(&tally), (15, 2));
        assert_eq!(tally.notes, ["1 ignored"]);
    }

    #[test]
    fn a_compile_error_is_one_failure() {
        assert_eq!(counts(&Tally::from_cargo_test(&finished(101, ""))), (0, 1));
    }

    #[test]
    fn an_aborted_binary_is_a_failure_beside_passing_ones() {
        let text = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured";
        assert_eq!(counts(&Tally::from_cargo_test(&finished(101, text))), (3, 1));
    }

    #[test]
    fn a_suite_is_read_by_its_last_line() {
        let text = "ok one\nnot ok two\n3 passed, 0 failed\n12 passed, 1 failed\n\n";
        assert_eq!(counts(&Tally::from_suite(&finished(1, text))), (12, 1));
        assert_eq!(counts(&Tally::from_suite(&finished(0, "7 passed, 0 failed"))), (7, 0));
    }

    #[test]
    fn a_suite_without_a_count_or_without_checks_fails() {
        for text in ["", "done", "7 passed", "x passed, 0 failed", "0 passed, 0 failed"] {
            assert_eq!(Tally::from_suite(&finished(0, text)).failed, 1, "{text:?}");
        }
    }

    #[test]
    fn a_suite_with_a_bad_exit_code_fails_whatever_it_counts() {
        assert_eq!(counts(&Tally::from_suite(&finished(1, "7 passed, 0 failed"))), (7, 1));
    }
}
