//! The user's own terminal: raw mode and back, its size, what the program leaves switched on in it.
//!
//! Whatever happens (return, error, signal, panic) the terminal is given back as it was found.

pub(crate) mod keys;
pub(crate) mod modes;
pub(crate) mod replay;
pub(crate) mod scanner;

use std::io::{self, IsTerminal};
use std::sync::{Mutex, Once, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// How the terminal was before raw mode; here and not in the guard, so that a panic finds it too.
static FOUND: Mutex<Option<Termios>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Raw mode for as long as this lives.
pub(crate) struct Raw(());

impl Raw {
    pub(crate) fn enter() -> io::Result<Self> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        let found = tcgetattr(io::stdin())?;
        let mut raw = found.clone();
        raw.make_raw();
        *FOUND.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self(()))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if let Some(found) = FOUND.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &found);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// Of the terminal that we print to, else of the one that we read from.
pub(crate) fn size() -> Option<Size> {
    let asked = [tcgetwinsize(io::stdout()), tcgetwinsize(io::stdin())];
    let known = asked.into_iter().flatten().find(|size| size.ws_col > 0 && size.ws_row > 0)?;
    Some(Size { cols: known.ws_col, rows: known.ws_row })
}

/// How wide a table may be: as the terminal, `COLUMNS`, or without end into a pipe.
pub(crate) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|cols| *cols > 0).or_else(told)
}

/// <https://no-color.org>
pub(crate) fn wants_colours() -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stdout().is_terminal() && !forbidden && !dumb
}
