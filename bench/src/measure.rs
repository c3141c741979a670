//! A measure: its name, unit, better direction, and outlive's targets.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    Less,
    More,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Microseconds,
    Milliseconds,
    PerSecond,
    MegabytesPerSecond,
    Megabytes,
    Kilobytes,
    Percent,
    Ticks,
    Times,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::PerSecond => "/s",
            Self::MegabytesPerSecond => "MB/s",
            Self::Megabytes => "MB",
            Self::Kilobytes => "KB",
            Self::Percent => "%",
            Self::Ticks => "ticks",
            Self::Times => "×",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At most this multiple of the raw value.
    AtMostRaw(f64),
    /// At least this fraction of the raw value.
    AtLeastRaw(f64),
    /// Better than every peer by this factor.
    BeatsPeers(f64),
    AtMost(f64),
    AtLeast(f64),
}

#[derive(Clone, Debug)]
pub struct Measure {
    pub name: String,
    pub unit: Unit,
    pub better: Better,
    pub targets: Vec<Target>,
}

impl Measure {
    pub fn lower_is_better(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, better: Better::Less, targets: Vec::new() }
    }

    pub fn higher_is_better(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, better: Better::More, targets: Vec::new() }
    }

    pub fn targets(mut self, targets: &[Target]) -> Self {
        self.targets.extend_from_slice(targets);
        self
    }

    /// The factor by which `ours` is better than `theirs`.
    pub fn advantage(&self, ours: f64, theirs: f64) -> f64 {
        match self.better {
            Better::Less => theirs / ours,
            Better::More => ours / theirs,
        }
    }
}
