//! Tables with aligned columns that fit the terminal.

use std::fmt::Write;

/// Blanks between two columns.
const COLUMN_GAP: usize = 2;
/// The last column is never cut below this; lines are too long then.
const MIN_LAST_COLUMN: usize = 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    colour: Option<Colour>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Green,
    Red,
    Yellow,
    Faint,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Green => "32",
            Self::Red => "31",
            Self::Yellow => "33",
            Self::Faint => "2",
        }
    }
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: printable(text.as_ref()), colour: None }
    }

    pub(crate) fn coloured(text: impl AsRef<str>, colour: Colour) -> Self {
        Self { colour: Some(colour), ..Self::new(text) }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// Replaces control characters: a tag or command set by another user must not control the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Renders `rows` below the header `head`. The last column is cut to fit `width`.
pub(crate) fn render(head: &[&str], rows: &[Vec<Cell>], width: Option<usize>, colours: bool) -> String {
    let head: Vec<Cell> = head.iter().map(Cell::new).collect();
    let all = || std::iter::once(&head).chain(rows);
    let last = head.len().saturating_sub(1);
    let widths: Vec<usize> = (0..head.len())
        .map(|column| all().filter_map(|row| row.get(column)).map(Cell::width).max().unwrap_or(0))
        .collect();
    let before: usize = widths.iter().take(last).map(|width| width + COLUMN_GAP).sum();
    let last_width = width.map(|width| width.saturating_sub(before).max(MIN_LAST_COLUMN));
    let mut out = String::new();
    for row in all() {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate().take(head.len()) {
            let text = if column == last { shorten(&cell.text, last_width) } else { cell.text.clone() };
            let padding = if column == last { 0 } else { widths[column] + COLUMN_GAP - cell.width() };
            match cell.colour.filter(|_| colours) {
                Some(colour) => {
                    let _ = write!(line, "\x1b[{}m{text}\x1b[0m", colour.code());
                }
                None => line.push_str(&text),
            }
            line.extend(std::iter::repeat_n(' ', padding));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Cuts text to `width` characters, the last one an ellipsis.
pub(crate) fn shorten(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if text.chars().count() > width => {
            text.chars().take(width.saturating_sub(1)).chain(std::iter::once('…')).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<Cell>> {
        vec![
            vec![Cell::new("a"), Cell::coloured("running", Colour::Green), Cell::new("sleep 100")],
            vec![Cell::new("longer"), Cell::new("x"), Cell::new("a very long command line that does not fit")],
        ]
    }

    #[test]
    fn columns_are_aligned() {
        let text = render(&["ID", "STATUS", "COMMAND"], &rows(), None, false);
        let expected = "ID      STATUS   COMMAND\n\
                      a       running  sleep 100\n\
                      longer  x        a very long command line that does not fit\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_last_column_is_cut_to_the_width() {
        for width in 30..60 {
            let text = render(&["ID", "STATUS", "COMMAND"], &rows(), Some(width), false);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
        let text = render(&["ID", "STATUS", "COMMAND"], &rows(), Some(30), false);
        assert!(text.ends_with("a very long …\n"), "{text}");
        // The other columns are never cut.
        let text = render(&["ID", "STATUS", "COMMAND"], &rows(), Some(3), false);
        assert!(text.ends_with("a very lo…\n"), "{text}");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let plain = render(&["ID", "STATUS", "COMMAND"], &rows(), Some(40), false);
        let coloured = render(&["ID", "STATUS", "COMMAND"], &rows(), Some(40), true);
        assert_eq!(coloured.replace("\x1b[32m", "").replace("\x1b[0m", ""), plain);
        assert_ne!(coloured, plain);
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(Cell::new("a\x1b[2Jb\nc"), Cell::new("a\u{fffd}[2Jb\u{fffd}c"));
        assert!(render(&["A"], &[vec![Cell::new("é\r")]], None, false).ends_with("é\u{fffd}\n"));
    }
}
