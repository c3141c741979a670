//! The user's terminal: raw mode, size, keys, and the modes that a program leaves set.
//!
//! The original settings are restored on return, error, signal and panic.

pub(crate) mod detach;
pub(crate) mod keys;
pub(crate) mod modes;
pub(crate) mod replay;

use std::io::{self, IsTerminal};
use std::sync::{Mutex, Once};

use outlive_core::lock;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Settings before raw mode. Global, so that the panic hook can restore them.
static ORIGINAL_TERMIOS: Mutex<Option<Termios>> = Mutex::new(None);
static PANIC_HOOK: Once = Once::new();

/// Guard: the terminal is in raw mode until it is dropped.
pub(crate) struct RawMode(());

impl RawMode {
    pub(crate) fn enter() -> io::Result<Self> {
        PANIC_HOOK.call_once(|| {
            let previous_hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                previous_hook(panic);
            }));
        });
        let original = tcgetattr(io::stdin())?;
        let mut raw = original.clone();
        raw.make_raw();
        *lock(&ORIGINAL_TERMIOS) = Some(original);
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self(()))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if let Some(original) = lock(&ORIGINAL_TERMIOS).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &original);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// Size of the terminal at stdout, or else at stdin.
pub(crate) fn size() -> Option<Size> {
    let sizes = [tcgetwinsize(io::stdout()), tcgetwinsize(io::stdin())];
    let size = sizes.into_iter().flatten().find(|size| size.ws_col > 0 && size.ws_row > 0)?;
    Some(Size { cols: size.ws_col, rows: size.ws_row })
}

/// Width for tables: of the terminal, or else `COLUMNS`. `None` if stdout is not a terminal.
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let from_env = || std::env::var("COLUMNS").ok()?.parse().ok();
    tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|cols| *cols > 0).or_else(from_env)
}

/// <https://no-color.org>
pub(crate) fn use_colours() -> bool {
    let is_disabled = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stdout().is_terminal() && !is_disabled && !is_dumb
}
