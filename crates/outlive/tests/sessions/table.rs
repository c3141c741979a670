//! How a case is written down and run.
//!
//! Where shells differ, the table says so, and the difference is shown by the shell itself, without outlive.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cases;
use crate::cases_of_time;
use crate::harness::Outlive;
use crate::shells::{self, Session, Shell};

/// So many the specification has.
const CASES: u32 = 75;

/// What a shell does otherwise than bash.
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
    others: Vec<Other>,
    shell_exits: bool,
}

struct Other {
    shells: Vec<Shell>,
    expected: Expected,
    /// It is one of outlive's, told in docs/sessions.md, and not of the shell.
    is_ours: bool,
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
    pub(crate) fn only(mut self, shells: &[Shell]) -> Self {
        self.only = Some(shells.to_vec());
        self
    }
}

/// Goes well and prints nothing, unless more is said.
pub(crate) fn step(command: &str) -> Step {
    let expected = Expected { code: Some(0), out: Some(String::new()), err: None };
    Step { command: command.to_owned(), body: json!({}), expected, others: Vec::new(), shell_exits: false }
}

impl Step {
    pub(crate) fn out(mut self, text: &str) -> Self {
        self.expected.out = Some(text.to_owned());
        self
    }

    /// Whatever it prints.
    pub(crate) fn any_out(mut self) -> Self {
        self.expected.out = None;
        self
    }

    pub(crate) fn code(mut self, code: i32) -> Self {
        self.expected.code = Some(code);
        self
    }

    /// On stderr, somewhere.
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
        self.others.push(Other { shells: shells.to_vec(), expected, is_ours: false });
        self
    }

    pub(crate) fn differs_by_us(mut self, shells: &[Shell], out: &str) -> Self {
        let expected = Expected { out: Some(out.to_owned()), ..Expected::default() };
        self.others.push(Other { shells: shells.to_vec(), expected, is_ours: true });
        self
    }

    /// And whether the shell itself has to show it.
    fn for_shell(&self, shell: Shell) -> (Expected, bool) {
        let mut expected = self.expected.clone();
        let Some(Other { expected: other, is_ours, .. }) = self.others.iter().find(|one| one.shells.contains(&shell))
        else {
            return (expected, false);
        };
        expected.code = other.code.or(expected.code);
        expected.out = other.out.clone().or(expected.out);
        expected.err = other.err.clone().or(expected.err);
        (expected, !is_ours && (other.code.is_some() || other.out.is_some()))
    }
}

pub(crate) fn run(shell: Shell) {
    let outlive = shells::outlive();
    let mut failed = Vec::new();
    let mut ran = BTreeSet::new();
    for case in cases::all() {
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
    for (number, check) in cases_of_time::ALL {
        ran.insert(*number);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&outlive, shell)));
        if outcome.is_err() {
            failed.push(*number);
        }
    }
    println!("{}: {} cases", shell.name(), ran.len());
    assert!(ran.into_iter().eq(1..=CASES), "every case has to be there");
    assert!(failed.is_empty(), "{}: cases {failed:?} failed", shell.name());
}

fn run_case(outlive: &Outlive, shell: Shell, case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let session = Session::with(outlive, json!({ "shell": shell.name(), "cwd": cwd }));
    let fill = |text: &str| text.replace("{cwd}", cwd.to_str().unwrap());
    for (number, step) in case.steps.iter().enumerate() {
        let what = format!("{} case {}, {:?}", shell.name(), case.number, step.command);
        let (expected, differs) = step.for_shell(shell);
        let result = session.exec_with(step.body.clone(), &step.command);
        if let Some(code) = expected.code {
            assert_eq!(result["exitCode"], code, "{what}: {result}");
        }
        if let Some(out) = &expected.out {
            assert_eq!(result["stdout"].as_str().unwrap(), fill(out), "{what}: {result}");
        }
        if let Some(err) = &expected.err {
            assert!(result["stderr"].as_str().unwrap().contains(err.as_str()), "{what}: {result}");
        }
        assert_eq!(result["shellExited"], step.shell_exits, "{what}: {result}");
        if differs {
            let texts: Vec<&str> = case.steps[..=number].iter().map(|step| step.command.as_str()).collect();
            let alone = tempfile::tempdir().unwrap();
            let cwd_alone = alone.path().canonicalize().unwrap();
            let (code, out) = shell.without_outlive(&texts, &cwd_alone);
            if let Some(expected) = expected.code {
                assert_eq!(code, expected, "{what}: the shell itself does otherwise");
            }
            if let Some(expected) = &expected.out {
                let expected = expected.replace("{cwd}", cwd_alone.to_str().unwrap());
                assert_eq!(String::from_utf8_lossy(&out), expected, "{what}: the shell itself does otherwise");
            }
        }
    }
    assert_eq!(session.delete().status, 204);
}
