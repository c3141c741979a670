//! The size of what is shipped: the static binary in dist/ if there is one, else the one that is measured.

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
        let which = if shipped().is_file() { "static" } else { "release build, not static" };
        vec![Measure::less(format!("binary ({which})"), Unit::Megabytes).targets(&[Target::AtMost(16.0)])]
    }

    fn rounds(&self, _: Effort) -> usize {
        1
    }

    fn server(&mut self, _: Effort, side: &Side<'_>) -> Result<Sample> {
        let is_ours = side.contender.name() == Outlive.name();
        let file = if is_ours && shipped().is_file() { shipped() } else { side.contender.program()? };
        Ok(vec![Some(std::fs::metadata(file)?.len() as f64 / 1e6)])
    }
}

fn shipped() -> std::path::PathBuf {
    crate::package_folder().join("../dist/outlive")
}
