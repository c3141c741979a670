//! All of it is in the library, so that fuzz targets reach the parsers.

fn main() -> std::process::ExitCode {
    outlive::main()
}
