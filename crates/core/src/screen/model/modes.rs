//! Terminal modes.

use std::collections::BTreeMap;

use super::Model;
use super::charset::Charset;

/// Limit of the private modes that are only recorded for a repaint.
const MAX_OTHER_MODES: usize = 64;
const MAX_KEYBOARD_STACK: usize = 16;

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
    pub(crate) autowrap: bool,
    pub(crate) reverse_wrap: bool,
    pub(crate) insert_mode: bool,
    /// LNM: a line feed also returns the carriage. `None`: never set or reset.
    pub(crate) newline_mode: Option<bool>,
    pub(crate) cursor_blinks: Option<bool>,
    pub(crate) cursor_visible: bool,
    /// Number of DECSCUSR; 0: the user's default.
    pub(crate) cursor_shape: u8,
    pub(crate) mouse: Mouse,
    pub(crate) mouse_encoding: MouseEncoding,
    pub(crate) focus: bool,
    pub(crate) bracketed_paste: bool,
    pub(crate) synchronized: bool,
    /// Private modes without an effect on the model. A repaint passes them on to the client's terminal.
    pub(crate) other_private: BTreeMap<u16, bool>,
    /// Stack of flags of kitty's keyboard protocol, newest last.
    pub(crate) kitty_keyboard_flags: Vec<u16>,
    /// xterm's modifyOtherKeys.
    pub(crate) modify_other_keys: Option<u16>,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            application_cursor: false,
            application_keypad: false,
            origin: false,
            autowrap: true,
            reverse_wrap: false,
            insert_mode: false,
            newline_mode: None,
            cursor_blinks: None,
            cursor_visible: true,
            cursor_shape: 0,
            mouse: Mouse::Off,
            mouse_encoding: MouseEncoding::Bytes,
            focus: false,
            bracketed_paste: false,
            synchronized: false,
            other_private: BTreeMap::new(),
            kitty_keyboard_flags: Vec::new(),
            modify_other_keys: None,
        }
    }
}

impl Modes {
    pub(super) fn reset(&mut self) {
        let Self { newline_mode, cursor_blinks, cursor_visible, .. } = *self;
        *self = Self { newline_mode, cursor_blinks, cursor_visible, ..Self::default() };
    }

    /// DECSTR; the mouse modes stay.
    pub(super) fn soft_reset(&mut self) {
        let Self { mouse, mouse_encoding, newline_mode, cursor_blinks, .. } = *self;
        let (other_private, kitty_keyboard_flags) =
            (std::mem::take(&mut self.other_private), std::mem::take(&mut self.kitty_keyboard_flags));
        let modify_other_keys = self.modify_other_keys;
        *self = Self {
            newline_mode,
            cursor_blinks,
            mouse,
            mouse_encoding,
            other_private,
            kitty_keyboard_flags,
            modify_other_keys,
            ..Self::default()
        };
    }

    /// kitty's keyboard protocol: `CSI > flags u`, `CSI < count u`, `CSI = flags ; mode u`.
    pub(super) fn change_kitty_keyboard(&mut self, private: u8, first: u16, second: u16) {
        match private {
            b'>' if self.kitty_keyboard_flags.len() < MAX_KEYBOARD_STACK => self.kitty_keyboard_flags.push(first),
            b'<' => self
                .kitty_keyboard_flags
                .truncate(self.kitty_keyboard_flags.len().saturating_sub(usize::from(first.max(1)))),
            b'=' => {
                let before = self.kitty_keyboard_flags.pop().unwrap_or(0);
                self.kitty_keyboard_flags.push(match second {
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
            4 => self.modes.insert_mode = on,
            20 => self.modes.newline_mode = Some(on),
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
                self.move_to(0, 0);
            }
            7 => modes.autowrap = on,
            12 => modes.cursor_blinks = Some(on),
            25 => modes.cursor_visible = on,
            45 => modes.reverse_wrap = on,
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
            // 80 or 132 columns would need a window that changes its size.
            2 | 3 => {}
            _ => {
                if let Ok(number) = u16::try_from(number)
                    && (modes.other_private.len() < MAX_OTHER_MODES || modes.other_private.contains_key(&number))
                {
                    modes.other_private.insert(number, on);
                }
            }
        }
    }
}
