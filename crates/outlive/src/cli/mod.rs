#[derive(clap::Args)]
pub(crate) struct Connection { #[arg(long, global = true)] pub(crate) state_dir: Option<std::path::PathBuf> }
#[derive(clap::Subcommand)]
pub(crate) enum Command { Ps }
pub(crate) async fn execute(_c: Command, _n: Connection) -> i32 { 0 }
