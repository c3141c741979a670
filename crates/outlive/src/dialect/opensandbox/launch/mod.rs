//! What a program is started with, the same for commands, sessions and terminals: the program itself, its folder, its variables.

pub(super) mod env_file;
pub(super) mod folder;
pub(super) mod program;

pub(super) use self::env_file::Variables;
