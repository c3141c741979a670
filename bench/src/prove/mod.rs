//! `prove NAME`: measurements that take minutes, printed beside their targets. `cargo xtask prove` runs them with the
//! shipped binary.
//!
//! Everything is measured on the disk that holds the build directory: history is off on a tmpfs, and the numbers of a
//! memory disk would say nothing.

mod flood;
mod large_log;
mod memory;
mod server;
mod short_processes;
mod steady;

use crate::Result;

/// One line of the result.
pub struct Finding {
    name: String,
    value: String,
    /// The target in words, and whether it is met.
    target: Option<(String, bool)>,
}

impl Finding {
    /// A number without a target.
    pub fn note(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), target: None }
    }

    pub fn at_least(name: impl Into<String>, value: f64, limit: f64, unit: &str) -> Self {
        let target = (format!("≥ {limit}{unit}"), value >= limit);
        Self { name: name.into(), value: format!("{}{unit}", round(value)), target: Some(target) }
    }

    pub fn at_most(name: impl Into<String>, value: f64, limit: f64, unit: &str) -> Self {
        let target = (format!("≤ {limit}{unit}"), value <= limit);
        Self { name: name.into(), value: format!("{}{unit}", round(value)), target: Some(target) }
    }
}

/// Three significant digits are more than these measurements have.
fn round(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Prints the findings. Returns whether all targets are met.
pub fn run(arguments: &[String]) -> Result<bool> {
    let findings = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["history-speed"] => {
            let mut all = steady::measure()?;
            all.extend(memory::measure()?);
            all.extend(large_log::measure()?);
            all.extend(short_processes::measure()?);
            all
        }
        ["history-flood"] => flood::measure()?,
        _ => return Err("`prove` needs history-speed or history-flood".into()),
    };
    println!("\n{:<62} {:>16}   {:<12}", "", "measured", "target");
    let mut is_proved = true;
    for Finding { name, value, target } in findings {
        let (target, is_met) = target.unwrap_or_else(|| (String::new(), true));
        println!("{name:<62} {value:>16}   {target:<12}{}", if is_met { "" } else { "  MISSED" });
        is_proved &= is_met;
    }
    println!("{}", if is_proved { "all targets are met" } else { "a target is missed" });
    Ok(is_proved)
}
