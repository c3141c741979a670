//! `bench/guard.toml`: the budget of each hot path.
//!
//! Parses only the part of TOML that the file needs: tables of numbers.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::Cost;
use crate::Result;

const HEADER: &str = "\
# Budget of the server for one iteration of each hot path, counted by callgrind on dist/outlive.
# `cargo xtask bench --guard` fails when a count is above its budget by more than the tolerance (in percent).
# `cargo xtask bench --guard --update` writes the counts of this build; explain an increase in the commit message.
";

const INSTRUCTION_TOLERANCE_PERCENT: f64 = 10.0;
/// Larger, because the number of wake-ups between threads depends on their timing: ±10 % was observed.
const SYSTEM_CALL_TOLERANCE_PERCENT: f64 = 25.0;

pub struct Budget {
    pub instruction_tolerance: f64,
    pub system_call_tolerance: f64,
    /// By table and key.
    numbers: HashMap<(String, String), f64>,
}

impl Budget {
    pub fn read() -> Result<Self> {
        Self::parse(&fs::read_to_string(path()).map_err(|error| format!("cannot read guard.toml: {error}"))?)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut numbers = HashMap::new();
        let mut table = String::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.clone_into(&mut table);
                continue;
            }
            let invalid = || format!("guard.toml: invalid line `{line}`");
            let (key, value) = line.split_once('=').ok_or_else(invalid)?;
            let value: f64 = value.trim().replace('_', "").parse().map_err(|_| invalid())?;
            numbers.insert((table.clone(), key.trim().to_owned()), value);
        }
        let tolerance = |key: &str| {
            let value = numbers.get(&("tolerance".to_owned(), key.to_owned())).copied();
            value.ok_or_else(|| format!("guard.toml: [tolerance] has no {key}"))
        };
        let (instruction_tolerance, system_call_tolerance) = (tolerance("instructions")?, tolerance("system_calls")?);
        Ok(Self { instruction_tolerance, system_call_tolerance, numbers })
    }

    pub fn cost(&self, path: &str) -> Option<Cost> {
        let number = |key: &str| self.numbers.get(&(path.to_owned(), key.to_owned())).copied();
        Some(Cost { instructions: number("instructions")?, system_calls: number("system_calls")? })
    }

    pub fn write(measured: &[(&'static str, Cost)]) -> Result<()> {
        Ok(fs::write(path(), Self::render(measured)?)?)
    }

    fn render(measured: &[(&'static str, Cost)]) -> Result<String> {
        let mut text = HEADER.to_owned();
        writeln!(text, "\n[tolerance]\ninstructions = {INSTRUCTION_TOLERANCE_PERCENT:.0}")?;
        writeln!(text, "system_calls = {SYSTEM_CALL_TOLERANCE_PERCENT:.0}")?;
        for (name, cost) in measured {
            writeln!(text, "\n[{name}]\ninstructions = {:.0}", cost.instructions)?;
            writeln!(text, "system_calls = {:.2}", cost.system_calls)?;
        }
        Ok(text)
    }
}

fn path() -> PathBuf {
    crate::package_dir().join("guard.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_budget_is_read_back() {
        let text = Budget::render(&[("echo", Cost { instructions: 1234.0, system_calls: 5.25 })]).unwrap();
        let budget = Budget::parse(&text).unwrap();
        let cost = budget.cost("echo").unwrap();
        assert_eq!((cost.instructions, cost.system_calls), (1234.0, 5.25));
        assert!(budget.cost("other").is_none());
        assert!((budget.instruction_tolerance - INSTRUCTION_TOLERANCE_PERCENT).abs() < f64::EPSILON);
    }

    #[test]
    fn an_invalid_budget_is_refused() {
        assert!(Budget::parse("[tolerance]\ninstructions = many\nsystem_calls = 1").is_err());
        assert!(Budget::parse("").is_err());
    }
}
