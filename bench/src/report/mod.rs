//! Results from series: medians, ratios, and whether the targets are met.

pub mod chart;
pub mod json;
pub mod table;

use crate::interleave::Series;
use crate::measure::{Measure, Target};
use crate::statistics::Spread;

pub struct Row {
    pub measure: Measure,
    pub raw: Option<Spread>,
    pub sides: Vec<Option<Spread>>,
    /// outlive's value divided by the raw one: the median of the rounds' ratios. Load during a round slows both values
    /// down and cancels out.
    pub to_raw: Option<f64>,
    /// outlive's value divided by each peer's, likewise.
    pub to_peers: Vec<Option<f64>>,
    pub verdicts: Vec<Verdict>,
}

pub struct Verdict {
    pub text: String,
    /// `None` without a value to compare with.
    pub is_met: Option<bool>,
}

/// The circumstances of the whole run.
pub struct RunInfo {
    pub cores: usize,
    pub load_before: f64,
    pub load_after: f64,
    pub quick: bool,
    pub rounds: usize,
    pub seconds: f64,
    pub contenders: Vec<&'static str>,
    pub taken_at: u64,
}

impl Row {
    pub fn from_series(series: &Series) -> Self {
        let spread =
            |values: &[Option<f64>]| Spread::from_values(&values.iter().copied().flatten().collect::<Vec<f64>>());
        let ours = &series.sides[0];
        let to_raw = ratio(ours, &series.raw);
        let to_peers: Vec<_> = series.sides[1..].iter().map(|theirs| ratio(ours, theirs)).collect();
        let sides: Vec<_> = series.sides.iter().map(|values| spread(values)).collect();
        let verdict = |target: &Target| {
            judge(&series.measure, *target, sides[0].as_ref().map(|ours| ours.median), to_raw, &to_peers)
        };
        let verdicts = series.measure.targets.iter().map(verdict).collect();
        Self { measure: series.measure.clone(), raw: spread(&series.raw), sides, to_raw, to_peers, verdicts }
    }
}

fn ratio(ours: &[Option<f64>], theirs: &[Option<f64>]) -> Option<f64> {
    let pairs = ours.iter().zip(theirs).filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?));
    let ratios: Vec<f64> = pairs.filter(|ratio| ratio.is_finite()).collect();
    Spread::from_values(&ratios).map(|spread| spread.median)
}

fn judge(
    measure: &Measure,
    target: Target,
    ours: Option<f64>,
    to_raw: Option<f64>,
    to_peers: &[Option<f64>],
) -> Verdict {
    let unit = measure.unit.name();
    let (text, is_met) = match target {
        Target::AtMostRaw(max) => (format!("≤ {max} × raw"), to_raw.map(|ratio| ratio <= max)),
        Target::AtLeastRaw(min) => (format!("≥ {min} × raw"), to_raw.map(|ratio| ratio >= min)),
        Target::BeatsPeers(times) => {
            let advantages = to_peers.iter().flatten().map(|ratio| measure.advantage(*ratio, 1.0));
            let min = advantages.reduce(f64::min);
            (format!("{times} × peer"), min.map(|min| min >= times))
        }
        Target::AtMost(max) => (format!("≤ {max} {unit}"), ours.map(|ours| ours <= max)),
        Target::AtLeast(min) => (format!("≥ {min} {unit}"), ours.map(|ours| ours >= min)),
    };
    Verdict { text, is_met }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Unit;

    #[test]
    fn ratios_compare_values_of_the_same_round() {
        let measure = Measure::lower_is_better("x", Unit::Microseconds).targets(&[
            Target::AtMostRaw(2.0),
            Target::BeatsPeers(3.0),
            Target::AtMost(15.0),
        ]);
        let series = Series {
            measure,
            raw: vec![Some(10.0), Some(100.0), Some(5.0)],
            sides: vec![vec![Some(20.0), Some(200.0), Some(10.0)], vec![Some(50.0), Some(500.0), None]],
        };
        let row = Row::from_series(&series);
        assert_eq!((row.to_raw, row.to_peers[0]), (Some(2.0), Some(0.4)));
        let met: Vec<_> = row.verdicts.iter().map(|verdict| verdict.is_met).collect();
        assert_eq!(met, [Some(true), Some(false), Some(false)]);
    }
}
