//! What a program has switched on and off.

use std::collections::BTreeMap;

use super::Model;
use super::charset::Charset;

/// Modes that we only pass on; more of them nobody sends who means it.
const MOST_OTHERS: usize = 64;
const MOST_KEYBOARDS: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mouse {
    #[default]
    Off,
    Press,
    PressAndRelease,
    Drag,
    Any,
}

impl Mouse {
    pub(crate) fn number(self) -> Option<u16> {
        match self {
            Self::Off => None,
            Self::Press => Some(9),
            Self::PressAndRelease => Some(1000),
            Self::Drag => Some(1002),
            Self::Any => Some(1003),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MouseEncoding {
    #[default]
    Bytes,
    Sgr,
    SgrPixels,
}

impl MouseEncoding {
    pub(crate) fn number(self) -> Option<u16> {
        match self {
            Self::Bytes => None,
            Self::Sgr => Some(1006),
            Self::SgrPixels => Some(1016),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) application_cursor: bool,
    pub(crate) application_keypad: bool,
    pub(crate) origin: bool,
    pub(crate) wraps: bool,
    pub(crate) wraps_back: bool,
    pub(crate) inserts: bool,
    /// A line feed also returns; `None`: nobody has said so.
    pub(crate) feeds_return: Option<bool>,
    pub(crate) cursor_blinks: Option<bool>,
    pub(crate) cursor_visible: bool,
    /// As DECSCUSR numbers them; 0: as the user likes it.
    pub(crate) cursor_shape: u8,
    pub(crate) mouse: Mouse,
    pub(crate) mouse_encoding: MouseEncoding,
    pub(crate) focus: bool,
    pub(crate) bracketed_paste: bool,
    pub(crate) synchronized: bool,
    /// Private modes that change nothing here, but may do so in somebody's terminal.
    pub(crate) others: BTreeMap<u16, bool>,
    /// What kitty's keyboard protocol was told, newest last.
    pub(crate) keyboards: Vec<u16>,
    /// xterm's modifyOtherKeys.
    pub(crate) modified_keys: Option<u16>,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            application_cursor: false,
            application_keypad: false,
            origin: false,
            wraps: true,
            wraps_back: false,
            inserts: false,
            feeds_return: None,
            cursor_blinks: None,
            cursor_visible: true,
            cursor_shape: 0,
            mouse: Mouse::Off,
            mouse_encoding: MouseEncoding::Bytes,
            focus: false,
            bracketed_paste: false,
            synchronized: false,
            others: BTreeMap::new(),
            keyboards: Vec::new(),
            modified_keys: None,
        }
    }
}

impl Modes {
    pub(super) fn reset(&mut self) {
        let Self { feeds_return, cursor_blinks, cursor_visible, .. } = *self;
        *self = Self { feeds_return, cursor_blinks, cursor_visible, ..Self::default() };
    }

    /// The mouse is left alone.
    pub(super) fn soft_reset(&mut self) {
        let Self { mouse, mouse_encoding, feeds_return, cursor_blinks, .. } = *self;
        let (others, keyboards) = (std::mem::take(&mut self.others), std::mem::take(&mut self.keyboards));
        let modified_keys = self.modified_keys;
        *self = Self {
            feeds_return,
            cursor_blinks,
            mouse,
            mouse_encoding,
            others,
            keyboards,
            modified_keys,
            ..Self::default()
        };
    }

    /// kitty's keyboard protocol: `CSI > flags u`, `CSI < count u`, `CSI = flags ; how u`.
    pub(super) fn change_keyboard(&mut self, private: u8, first: u16, second: u16) {
        match private {
            b'>' if self.keyboards.len() < MOST_KEYBOARDS => self.keyboards.push(first),
            b'<' => self.keyboards.truncate(self.keyboards.len().saturating_sub(usize::from(first.max(1)))),
            b'=' => {
                let before = self.keyboards.pop().unwrap_or(0);
                self.keyboards.push(match second {
                    2 => before | first,
                    3 => before & !first,
                    _ => first,
                });
            }
            _ => {}
        }
    }
}

impl Model {
    pub(super) fn set_mode(&mut self, number: usize, on: bool) {
        match number {
            4 => self.modes.inserts = on,
            20 => self.modes.feeds_return = Some(on),
            _ => {}
        }
    }

    pub(super) fn set_private_mode(&mut self, number: usize, on: bool) {
        let modes = &mut self.modes;
        match number {
            1 => modes.application_cursor = on,
            2 if on => (0..4).for_each(|level| self.charsets.designate(level, Charset::Ascii)),
            6 => {
                modes.origin = on;
                self.go_to(0, 0);
            }
            7 => modes.wraps = on,
            12 => modes.cursor_blinks = Some(on),
            25 => modes.cursor_visible = on,
            45 => modes.wraps_back = on,
            66 => modes.application_keypad = on,
            9 | 1000 | 1002 | 1003 => {
                modes.mouse = match number {
                    _ if !on => Mouse::Off,
                    9 => Mouse::Press,
                    1000 => Mouse::PressAndRelease,
                    1002 => Mouse::Drag,
                    _ => Mouse::Any,
                };
            }
            1004 => modes.focus = on,
            1006 | 1016 => {
                modes.mouse_encoding = match number {
                    _ if !on => MouseEncoding::Bytes,
                    1006 => MouseEncoding::Sgr,
                    _ => MouseEncoding::SgrPixels,
                };
            }
            2004 => modes.bracketed_paste = on,
            2026 => modes.synchronized = on,
            1048 if on => self.save_cursor(),
            1048 => self.restore_cursor(),
            47 | 1047 | 1049 => {
                if on {
                    if number == 1049 {
                        self.save_cursor();
                    }
                    self.show_alternate();
                } else {
                    self.show_main();
                    if number == 1049 {
                        self.restore_cursor();
                    }
                }
            }
            // Another width would need a window that obeys.
            2 | 3 => {}
            _ => {
                if let Ok(number) = u16::try_from(number)
                    && (modes.others.len() < MOST_OTHERS || modes.others.contains_key(&number))
                {
                    modes.others.insert(number, on);
                }
            }
        }
    }
}
