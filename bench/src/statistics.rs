//! Medians, ranges and quantiles.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub count: usize,
}

impl Spread {
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { median: quantile(&sorted, 0.5), min, max, count: sorted.len() })
    }
}

/// `sorted` must be sorted and not empty.
fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + (above - below) * position.fract()
}

/// A quantile of times, in microseconds.
pub fn quantile_us(times: &[Duration], fraction: f64) -> f64 {
    let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() { f64::NAN } else { quantile(&sorted, fraction) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_between_the_middle_values() {
        let spread = Spread::from_values(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max, spread.count), (2.5, 1.0, 4.0, 4));
        assert!(Spread::from_values(&[]).is_none());
    }
}
