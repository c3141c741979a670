//! A screen as data and as text, for clients without a terminal.

use serde::Serialize;

use super::model::{Model, Mouse, MouseEncoding};

/// The screen of a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub cols: u16,
    pub rows: u16,
    pub cursor: CursorView,
    pub title: String,
    /// Whether the alternate screen is active, which full-screen programs use.
    pub alternate: bool,
    pub modes: ModesView,
    /// The rows from top to bottom, without trailing blanks.
    pub lines: Vec<String>,
    /// Log offset up to which output is included.
    pub offset: u64,
    /// Output that may matter was overwritten before it was read.
    pub approximate: bool,
}

impl Snapshot {
    pub fn text(&self) -> String {
        let used = self.lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        self.lines[..used].iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

/// Rows and columns are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CursorView {
    pub row: u16,
    pub col: u16,
    pub visible: bool,
    pub shape: CursorShape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum CursorShape {
    Default,
    Block,
    Underline,
    Bar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModesView {
    pub application_cursor: bool,
    pub application_keypad: bool,
    pub bracketed_paste: bool,
    pub focus: bool,
    pub insert: bool,
    pub origin: bool,
    pub wraparound: bool,
    pub synchronized: bool,
    pub mouse: MouseView,
    pub mouse_encoding: MouseEncodingView,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum MouseView {
    None,
    X10,
    Vt200,
    Drag,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MouseEncodingView {
    Default,
    Sgr,
    SgrPixels,
}

pub(super) fn snapshot(model: &Model, offset: u64, approximate: bool) -> Snapshot {
    let buffer = model.active();
    let size = model.size();
    let to_u16 = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    let modes = &model.modes;
    Snapshot {
        cols: size.cols,
        rows: size.rows,
        cursor: CursorView {
            row: to_u16(buffer.y),
            col: to_u16(buffer.x.min(model.cols - 1)),
            visible: modes.cursor_visible,
            shape: match modes.cursor_shape {
                0 => CursorShape::Default,
                1 | 2 => CursorShape::Block,
                3 | 4 => CursorShape::Underline,
                _ => CursorShape::Bar,
            },
        },
        title: model.title.clone(),
        alternate: model.alternate_active,
        modes: ModesView {
            application_cursor: modes.application_cursor,
            application_keypad: modes.application_keypad,
            bracketed_paste: modes.bracketed_paste,
            focus: modes.focus,
            insert: modes.insert_mode,
            origin: modes.origin,
            wraparound: modes.autowrap,
            synchronized: modes.synchronized,
            mouse: match modes.mouse {
                Mouse::Off => MouseView::None,
                Mouse::Press => MouseView::X10,
                Mouse::PressAndRelease => MouseView::Vt200,
                Mouse::Drag => MouseView::Drag,
                Mouse::Any => MouseView::Any,
            },
            mouse_encoding: match modes.mouse_encoding {
                MouseEncoding::Bytes => MouseEncodingView::Default,
                MouseEncoding::Sgr => MouseEncodingView::Sgr,
                MouseEncoding::SgrPixels => MouseEncodingView::SgrPixels,
            },
        },
        lines: (0..model.rows)
            .map(|row| buffer.row(row).map_or_else(String::new, |line| line.text(model.cols)))
            .collect(),
        offset,
        approximate,
    }
}
