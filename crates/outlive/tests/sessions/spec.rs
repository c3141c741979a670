//! The cases of the specification: how a case is described and run.
//!
//! A case names the shells that differ from bash. The runner verifies each difference in the plain shell, without
//! outlive.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::Outlive;
use crate::shells::{self, Session, Shell};
use crate::{spec_commands, spec_concurrency};

/// The number of cases in the specification.
const CASE_COUNT: u32 = 75;

/// The expected result of a step; `None` is not checked.
#[derive(Clone, Default)]
pub(crate) struct Expected {
    pub(crate) code: Option<i32>,
    pub(crate) out: Option<String>,
    pub(crate) err: Option<String>,
}

pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) body: Value,
    expected: Expected,
    differences: Vec<Difference>,
    shell_exits: bool,
}

/// The result in shells that differ from bash.
struct Difference {
    shells: Vec<Shell>,
    expected: Expected,
    /// The difference is caused by outlive and documented in docs/sessions.md.
    by_outlive: bool,
}

pub(crate) struct Case {
    pub(crate) number: u32,
    pub(crate) steps: Vec<Step>,
    pub(crate) only: Option<Vec<Shell>>,
}

pub(crate) fn case(number: u32, steps: Vec<Step>) -> Case {
    Case { number, steps, only: None }
}

impl Case {
    /// Restricts the case to these shells.
    pub(crate) fn only(mut self, shells: &[Shell]) -> Self {
        self.only = Some(shells.to_vec());
        self
    }
}

/// A command that is expected to exit with 0 and to print nothing, unless changed by the methods of [`Step`].
pub(crate) fn step(command: &str) -> Step {
    let expected = Expected { code: Some(0), out: Some(String::new()), err: None };
    Step { command: command.to_owned(), body: json!({}), expected, differences: Vec::new(), shell_exits: false }
}

impl Step {
    pub(crate) fn out(mut self, text: &str) -> Self {
        self.expected.out = Some(text.to_owned());
        self
    }

    /// Does not check stdout.
    pub(crate) fn any_out(mut self) -> Self {
        self.expected.out = None;
        self
    }

    pub(crate) fn code(mut self, code: i32) -> Self {
        self.expected.code = Some(code);
        self
    }

    /// Expects `text` somewhere in stderr.
    pub(crate) fn err(mut self, text: &str) -> Self {
        self.expected.err = Some(text.to_owned());
        self
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = body;
        self
    }

    pub(crate) fn shell_exits(mut self) -> Self {
        self.shell_exits = true;
        self
    }

    pub(crate) fn differs(mut self, shells: &[Shell], code: Option<i32>, out: Option<&str>, err: Option<&str>) -> Self {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let expected = Expected { code, out: text(out), err: text(err) };
        self.differences.push(Difference { shells: shells.to_vec(), expected, by_outlive: false });
        self
    }

    pub(crate) fn differs_by_outlive(mut self, shells: &[Shell], out: &str) -> Self {
        let expected = Expected { out: Some(out.to_owned()), ..Expected::default() };
        self.differences.push(Difference { shells: shells.to_vec(), expected, by_outlive: true });
        self
    }

    /// Returns the expected result, and whether the plain shell must have the same difference from bash.
    fn for_shell(&self, shell: Shell) -> (Expected, bool) {
        let mut expected = self.expected.clone();
        let Some(Difference { expected: other, by_outlive, .. }) =
            self.differences.iter().find(|difference| difference.shells.contains(&shell))
        else {
            return (expected, false);
        };
        expected.code = other.code.or(expected.code);
        expected.out = other.out.clone().or(expected.out);
        expected.err = other.err.clone().or(expected.err);
        (expected, !by_outlive && (other.code.is_some() || other.out.is_some()))
    }
}

pub(crate) fn run(shell: Shell) {
    let outlive = shells::start_outlive();
    let mut failed = Vec::new();
    let mut ran = BTreeSet::new();
    for case in spec_commands::all_cases() {
        if case.only.as_ref().is_some_and(|only| !only.contains(&shell)) {
            continue;
        }
        let number = case.number;
        ran.insert(number);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_case(&outlive, shell, &case)));
        if outcome.is_err() {
            failed.push(number);
        }
    }
    for (number, check) in spec_concurrency::CASES {
        ran.insert(*number);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&outlive, shell)));
        if outcome.is_err() {
            failed.push(*number);
        }
    }
    println!("{}: {} cases", shell.name(), ran.len());
    assert!(ran.into_iter().eq(1..=CASE_COUNT), "a case of the specification is missing");
    assert!(failed.is_empty(), "{}: cases {failed:?} failed", shell.name());
}

fn run_case(outlive: &Outlive, shell: Shell, case: &Case) {
    let directory = tempfile::tempdir().unwrap();
    let cwd = directory.path().canonicalize().unwrap();
    let session = Session::with_spec(outlive, json!({ "shell": shell.name(), "cwd": cwd }));
    let expand = |text: &str| text.replace("{cwd}", cwd.to_str().unwrap());
    for (number, step) in case.steps.iter().enumerate() {
        let what = format!("{} case {}, {:?}", shell.name(), case.number, step.command);
        let (expected, differs) = step.for_shell(shell);
        let result = session.exec_with(step.body.clone(), &step.command);
        if let Some(code) = expected.code {
            assert_eq!(result["exitCode"], code, "{what}: {result}");
        }
        if let Some(out) = &expected.out {
            assert_eq!(result["stdout"].as_str().unwrap(), expand(out), "{what}: {result}");
        }
        if let Some(err) = &expected.err {
            assert!(result["stderr"].as_str().unwrap().contains(err.as_str()), "{what}: {result}");
        }
        assert_eq!(result["shellExited"], step.shell_exits, "{what}: {result}");
        if differs {
            let commands: Vec<&str> = case.steps[..=number].iter().map(|step| step.command.as_str()).collect();
            let plain = tempfile::tempdir().unwrap();
            let plain_cwd = plain.path().canonicalize().unwrap();
            let (code, out) = shell.run_plain(&commands, &plain_cwd);
            if let Some(expected) = expected.code {
                assert_eq!(code, expected, "{what}: the plain shell differs");
            }
            if let Some(expected) = &expected.out {
                let expected = expected.replace("{cwd}", plain_cwd.to_str().unwrap());
                assert_eq!(String::from_utf8_lossy(&out), expected, "{what}: the plain shell differs");
            }
        }
    }
    assert_eq!(session.delete().status, 204);
}
