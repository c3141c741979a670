//! `cargo xtask openapi`: writes the OpenAPI document that the binary generates to `openapi.json`.
//!
//! A Rust test checks that the file is up to date.

use std::fs;
use std::time::Duration;

use crate::Result;
use crate::repo::Repo;
use crate::run;
use crate::stages::BUILD_TIMEOUT;

const PRINT_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn write(repo: &Repo) -> Result<()> {
    run::check(&mut repo.cargo(["build", "--package", "outlive"]), BUILD_TIMEOUT)?;
    let text = run::output(repo.command(repo.debug_binary()).arg("openapi"), PRINT_TIMEOUT)?;
    if !text.trim_start().starts_with('{') {
        return Err("`outlive openapi` printed no JSON object".into());
    }
    fs::write(repo.path("openapi.json"), format!("{}\n", text.trim_end()))?;
    println!("wrote openapi.json");
    Ok(())
}
