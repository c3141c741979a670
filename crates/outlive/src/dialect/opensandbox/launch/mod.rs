//! How programs are started, for commands, sessions and terminals alike: the program itself, its working directory and
//! its variables.

pub(super) mod directory;
pub(super) mod env_file;
pub(super) mod program;

pub(super) use self::env_file::Variables;
