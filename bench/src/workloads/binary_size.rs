//! The size of the static binary in dist/ if it exists, else of the measured binary.

use super::{Effort, Sample, Side, Workload};
use crate::Result;
use crate::contenders::{Contender, Outlive};
use crate::measure::{Measure, Target, Unit};

pub struct BinarySize;

impl Workload for BinarySize {
    fn name(&self) -> &'static str {
        "binary-size"
    }

    fn measures(&self) -> Vec<Measure> {
        let build = if static_binary().is_file() { "static" } else { "release build, not static" };
        vec![Measure::lower_is_better(format!("binary ({build})"), Unit::Megabytes).targets(&[Target::AtMost(16.0)])]
    }

    fn rounds(&self, _: Effort) -> usize {
        1
    }

    fn server(&mut self, _: Effort, side: &Side<'_>) -> Result<Sample> {
        let is_outlive = side.contender.name() == Outlive.name();
        let file = if is_outlive && static_binary().is_file() { static_binary() } else { side.contender.program()? };
        Ok(vec![Some(std::fs::metadata(file)?.len() as f64 / 1e6)])
    }
}

fn static_binary() -> std::path::PathBuf {
    crate::package_dir().join("../dist/outlive")
}
