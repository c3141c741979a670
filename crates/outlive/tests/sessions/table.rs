//! How a case is written down and run.
//!
//! Where shells differ, the table says so, and the difference is shown by the shell itself, without outlive.

use serde_json::{Value, json};

use crate::cases;
use crate::cases_of_time;
use crate::harness::Outlive;
use crate::shells::{self, Session, Shell};

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
    others: Vec<(Vec<Shell>, Expected)>,
    shell_exits: bool,
    /// The difference is one of outlive's answer, not of the shell.
    unproved: bool,
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
    Step {
        command: command.to_owned(),
        body: json!({}),
        expected,
        others: Vec::new(),
        shell_exits: false,
        unproved: false,
    }
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
        self.others.push((shells.to_vec(), Expected { code, out: text(out), err: text(err) }));
        self
    }

    pub(crate) fn unproved(mut self) -> Self {
        self.unproved = true;
        self
    }

    fn for_shell(&self, shell: Shell) -> (Expected, bool) {
        let mut expected = self.expected.clone();
        let other = self.others.iter().find(|(shells, _)| shells.contains(&shell));
        if let Some((_, other)) = other {
            expected.code = other.code.or(expected.code);
            expected.out = other.out.clone().or(expected.out);
            expected.err = other.err.clone().or(expected.err);
        }
        (expected, other.is_some_and(|(_, other)| other.code.is_some() || other.out.is_some()))
    }
}

pub(crate) fn run(shell: Shell) {
    if !shell.is_installed() {
        println!("{} is not installed: nothing was checked", shell.name());
        return;
    }
    let outlive = shells::outlive();
    let mut failed = Vec::new();
    let mut ran = 0;
    for case in cases::all() {
        if case.only.as_ref().is_some_and(|only| !only.contains(&shell)) {
            continue;
        }
        ran += 1;
        let number = case.number;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_case(&outlive, shell, &case)));
        if outcome.is_err() {
            failed.push(number);
        }
    }
    for (number, check) in cases_of_time::ALL {
        ran += 1;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&outlive, shell)));
        if outcome.is_err() {
            failed.push(*number);
        }
    }
    println!("{}: {ran} cases", shell.name());
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
        if differs && !step.unproved {
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
