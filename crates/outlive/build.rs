//! Compresses the web console, which the binary embeds.

use std::io::Write as _;
use std::path::Path;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let source = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../web/console/dist");
    let packed = Path::new(&env::var("OUT_DIR")?).to_owned();
    for name in ["index.html", "app.js", "app.css"] {
        let file = source.join(name);
        println!("cargo::rerun-if-changed={}", file.display());
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&fs::read(file)?)?;
        fs::write(packed.join(format!("{name}.gz")), encoder.finish()?)?;
    }
    Ok(())
}
