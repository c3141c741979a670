//! The results as a table on the terminal.

use std::fmt::Write as _;

use super::{Row, RunInfo};
use crate::measure::Unit;
use crate::statistics::Spread;

pub fn header(contenders: &[&str]) -> String {
    let mut line = format!("{:<46} {:>6} {:>9}", "", "unit", "raw");
    for name in contenders {
        let _ = write!(line, " {name:>13}");
    }
    let _ = write!(line, " {:>7}", "/raw");
    for name in &contenders[1..] {
        let _ = write!(line, " {:>8}", format!("/{}", name.chars().take(7).collect::<String>()));
    }
    line + "  target (✓ met, ✗ missed) and spread of outlive"
}

pub fn line(row: &Row) -> String {
    let median = |spread: &Option<Spread>| spread.as_ref().map_or("-".to_owned(), |spread| figure(spread.median));
    let mut line = format!("{:<46} {:>6} {:>9}", row.measure.name, row.measure.unit.name(), median(&row.raw));
    for side in &row.sides {
        let _ = write!(line, " {:>13}", median(side));
    }
    // A ratio of percentages or of ratios has no meaning.
    let has_ratio = !matches!(row.measure.unit, Unit::Percent | Unit::Times);
    let ratio = |ratio: Option<f64>| match ratio {
        Some(ratio) if has_ratio => format!("{ratio:.2}"),
        _ => "-".to_owned(),
    };
    let _ = write!(line, " {:>7}", ratio(row.to_raw));
    for to_peer in &row.to_peers {
        let _ = write!(line, " {:>8}", ratio(*to_peer));
    }
    line += "  ";
    for verdict in &row.verdicts {
        let mark = match verdict.is_met {
            Some(true) => "✓",
            Some(false) => "✗",
            None => "?",
        };
        let _ = write!(line, "{} {mark}  ", verdict.text);
    }
    if let Some(ours) = &row.sides[0]
        && ours.count > 1
    {
        let _ = write!(line, "[{}–{}]", figure(ours.min), figure(ours.max));
    }
    line
}

pub fn footer(info: &RunInfo, rows: &[Row]) -> String {
    let verdicts = || rows.iter().flat_map(|row| &row.verdicts);
    let met = verdicts().filter(|verdict| verdict.is_met == Some(true)).count();
    let missed = verdicts().filter(|verdict| verdict.is_met == Some(false)).count();
    format!(
        "{met} targets met, {missed} missed; {} cores, load average {:.2} before, {:.2} after; {} rounds, {:.0} s",
        info.cores, info.load_before, info.load_after, info.rounds, info.seconds
    )
}

/// Formats a value with about three significant digits.
pub fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 10.0 => format!("{value:.2}"),
        middle if middle < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
