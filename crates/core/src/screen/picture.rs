//! A screen as an SVG image.

use std::fmt::Write as _;

use super::model::{Attributes, Cell, Color, ColorKind, Model, Style};

/// For a font whose characters are about three fifths as wide as high.
const CELL_WIDTH: f32 = 8.4;
const CELL_HEIGHT: usize = 17;
const MARGIN: usize = 8;
const FOREGROUND: &str = "#d8dee9";
const BACKGROUND: &str = "#1d2129";

const NAMED: [&str; 16] = [
    "#2e3440", "#d0606a", "#7fb069", "#d9a84e", "#5f93d1", "#b07cc6", "#53b0b5", "#d8dee9", "#5a6375", "#e98089",
    "#a3d18d", "#f2cc7a", "#89b6ec", "#d0a1e2", "#7fd4d8", "#ffffff",
];

pub(super) fn svg(model: &Model) -> String {
    let width = MARGIN * 2 + (model.cols as f32 * CELL_WIDTH).ceil() as usize;
    let height = MARGIN * 2 + model.rows * CELL_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>"
    );
    let buffer = model.active();
    for row in 0..model.rows {
        if let Some(line) = buffer.row(row) {
            let cells: Vec<&Cell> = line.cells().take(model.cols).collect();
            draw_row(&mut svg, &cells, MARGIN + row * CELL_HEIGHT);
        }
    }
    if model.modes.cursor_visible {
        let (x, y) = (left(buffer.x.min(model.cols - 1)), MARGIN + buffer.y * CELL_HEIGHT);
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{CELL_WIDTH}\" height=\"{CELL_HEIGHT}\" fill=\"{FOREGROUND}\" opacity=\"0.5\"/>"
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn left(col: usize) -> f32 {
    MARGIN as f32 + col as f32 * CELL_WIDTH
}

fn draw_row(svg: &mut String, cells: &[&Cell], y: usize) {
    let mut col = 0;
    while col < cells.len() {
        let attrs = cells[col].attrs;
        let count = cells[col..].iter().take_while(|cell| cell.attrs == attrs).count();
        let (fg, bg) = colors(attrs);
        if bg != BACKGROUND {
            let (x, width) = (left(col), count as f32 * CELL_WIDTH);
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{CELL_HEIGHT}\" fill=\"{bg}\"/>"
            );
        }
        draw_text(svg, &cells[col..col + count], col, y, attrs, &fg);
        col += count;
    }
}

fn draw_text(svg: &mut String, cells: &[&Cell], first: usize, y: usize, attrs: Attributes, fg: &str) {
    let mut text = String::new();
    for cell in cells.iter().filter(|cell| !cell.is_tail()) {
        let before = text.len();
        cell.push_to(&mut text);
        if text.len() == before {
            text.push(' ');
        }
    }
    if text.trim().is_empty() || attrs.style.has(Style::INVISIBLE) {
        return;
    }
    let _ = write!(
        svg,
        "<text xml:space=\"preserve\" x=\"{:.1}\" y=\"{}\" textLength=\"{:.1}\" fill=\"{fg}\"",
        left(first),
        y + CELL_HEIGHT - 4,
        cells.len() as f32 * CELL_WIDTH
    );
    for (style, attribute) in [
        (Style::BOLD, " font-weight=\"bold\""),
        (Style::ITALIC, " font-style=\"italic\""),
        (Style::DIM, " opacity=\"0.6\""),
    ] {
        if attrs.style.has(style) {
            svg.push_str(attribute);
        }
    }
    let lines =
        [(Style::UNDERLINE, "underline"), (Style::STRIKETHROUGH, "line-through"), (Style::OVERLINE, "overline")];
    let lines: Vec<&str> = lines.iter().filter(|(style, _)| attrs.style.has(*style)).map(|(_, name)| *name).collect();
    if !lines.is_empty() {
        let _ = write!(svg, " text-decoration=\"{}\"", lines.join(" "));
    }
    svg.push('>');
    for character in text.chars() {
        match character {
            '<' => svg.push_str("&lt;"),
            '>' => svg.push_str("&gt;"),
            '&' => svg.push_str("&amp;"),
            // Not allowed in XML.
            '\u{fffe}' | '\u{ffff}' => svg.push('\u{fffd}'),
            _ => svg.push(character),
        }
    }
    svg.push_str("</text>");
}

/// Foreground and background.
fn colors(attrs: Attributes) -> (String, String) {
    let (fg, bg) = (color(attrs.fg, FOREGROUND), color(attrs.bg, BACKGROUND));
    if attrs.style.has(Style::INVERSE) { (bg, fg) } else { (fg, bg) }
}

fn color(color: Color, default: &str) -> String {
    match color.kind() {
        ColorKind::Default => default.to_owned(),
        ColorKind::Named(number) | ColorKind::Indexed(number @ 0..16) => NAMED[usize::from(number) & 15].to_owned(),
        ColorKind::Indexed(number @ 16..232) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let number = number - 16;
            format!("#{:02x}{:02x}{:02x}", level(number / 36), level(number / 6 % 6), level(number % 6))
        }
        ColorKind::Indexed(number) => {
            let grey = 8 + 10 * (number - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
        ColorKind::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    }
}
