//! What a figure is: its unit, which direction is better, and what is demanded of outlive.

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
    /// At most so many times the raw figure.
    AtMostRaw(f64),
    /// At least this part of the raw figure.
    AtLeastRaw(f64),
    /// So many times better than every peer.
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
    pub fn less(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, better: Better::Less, targets: Vec::new() }
    }

    pub fn more(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, better: Better::More, targets: Vec::new() }
    }

    pub fn targets(mut self, targets: &[Target]) -> Self {
        self.targets.extend_from_slice(targets);
        self
    }

    /// How many times better the first is than the second.
    pub fn advantage(&self, ours: f64, theirs: f64) -> f64 {
        match self.better {
            Better::Less => theirs / ours,
            Better::More => ours / theirs,
        }
    }
}
