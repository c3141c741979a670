//! The program is in the library, so that fuzz targets can call its parsers.

fn main() -> std::process::ExitCode {
    outlive::main()
}
