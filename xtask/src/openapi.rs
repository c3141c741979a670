//! `cargo xtask openapi`: writes the description of the API, as the binary knows it, to
//! `openapi.json`.
//!
//! That the file is up to date is checked by a Rust test, not here.

use std::fs;
use std::time::Duration;

use crate::Result;
use crate::repo::Repo;
use crate::run;
use crate::stages::BUILD_LIMIT;

const PRINT_LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn write(repo: &Repo) -> Result<()> {
    run::check(&mut repo.cargo(["build", "--package", "outlive"]), BUILD_LIMIT)?;
    let text = run::output(repo.command(repo.debug_binary()).arg("openapi"), PRINT_LIMIT)?;
    if !text.trim_start().starts_with('{') {
        return Err("`outlive openapi` printed no JSON object".into());
    }
    fs::write(repo.path("openapi.json"), format!("{}\n", text.trim_end()))?;
    println!("wrote openapi.json");
    Ok(())
}
