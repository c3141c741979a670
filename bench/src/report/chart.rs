//! The results as a bar chart: an SVG that follows the reader's light or dark theme.
//!
//! Two panels with a logarithmic axis each. The first shows which part of the raw baseline outlive reaches (1 is all of
//! it), the second by which factor outlive is better than the peer. In both a longer bar is better.

use std::fmt::Write as _;

use super::{Row, RunInfo};
use crate::measure::Unit;

const LABEL_WIDTH: f64 = 330.0;
const PANEL_WIDTH: f64 = 270.0;
const GAP: f64 = 40.0;
const LINE: f64 = 22.0;
const TOP: f64 = 84.0;

struct Panel {
    title: String,
    left: f64,
    min: f64,
    max: f64,
    ticks: &'static [f64],
}

impl Panel {
    fn x(&self, value: f64) -> f64 {
        let clamped = value.clamp(self.min, self.max);
        self.left + PANEL_WIDTH * (clamped / self.min).ln() / (self.max / self.min).ln()
    }
}

pub fn draw(info: &RunInfo, rows: &[Row]) -> String {
    let shown: Vec<&Row> = rows.iter().filter(|row| is_comparable(row)).collect();
    let peer = info.contenders.get(1).copied().unwrap_or("no peer");
    let panels = [
        Panel {
            title: "part of the raw baseline".to_owned(),
            left: LABEL_WIDTH,
            min: 0.1,
            max: 2.0,
            ticks: &[0.1, 0.25, 0.5, 1.0, 2.0],
        },
        Panel {
            title: format!("times better than {peer}"),
            left: LABEL_WIDTH + PANEL_WIDTH + GAP,
            min: 0.25,
            max: 32.0,
            ticks: &[0.25, 1.0, 2.0, 4.0, 8.0, 32.0],
        },
    ];
    let height = TOP + LINE * shown.len() as f64 + 40.0;
    let width = LABEL_WIDTH + 2.0 * PANEL_WIDTH + GAP + 70.0;
    let mut svg = header(info, peer, width, height);
    for panel in &panels {
        draw_axis(&mut svg, panel, height);
    }
    for (number, row) in shown.iter().enumerate() {
        draw_row(&mut svg, &panels, TOP + LINE * number as f64, row);
    }
    svg.push_str("</svg>\n");
    svg
}

fn header(info: &RunInfo, peer: &str, width: f64, height: f64) -> String {
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="outlive compared with the raw kernel and with {peer}">
<style>
svg {{ --ink: #1f2328; --faint: #8c959f; --paper: #ffffff; --raw: #0969da; --peer: #1a7f37; --less: #bf8700; font: 12px system-ui, sans-serif; }}
@media (prefers-color-scheme: dark) {{ svg {{ --ink: #e6edf3; --faint: #6e7681; --paper: #0d1117; --raw: #4493f8; --peer: #3fb950; --less: #d29922; }} }}
text {{ fill: var(--ink); }} .faint {{ fill: var(--faint); }} .paper {{ fill: var(--paper); }} .title {{ font-size: 15px; font-weight: 600; }}
.raw {{ fill: var(--raw); }} .peer {{ fill: var(--peer); }} .less {{ fill: var(--less); }} line {{ stroke: var(--faint); stroke-width: .5; }} .one {{ stroke: var(--ink); stroke-width: 1; }}
</style>
<rect class="paper" width="{width}" height="{height}" rx="6"/>
<text class="title" x="16" y="28">outlive, measured against the kernel and {peer}</text>
<text class="faint" x="16" y="46">medians of {rounds} interleaved rounds; {cores} cores, load average {before:.1} to {after:.1}; longer is better</text>
"#,
        rounds = info.rounds,
        cores = info.cores,
        before = info.load_before,
        after = info.load_after,
    )
}

fn draw_row(svg: &mut String, panels: &[Panel; 2], y: f64, row: &Row) {
    let (x, baseline, name) = (LABEL_WIDTH - 10.0, y + 14.0, &row.measure.name);
    let _ = writeln!(svg, r#"<text x="{x}" y="{baseline}" text-anchor="end">{name}</text>"#);
    let to_raw = row.to_raw.map(|ratio| row.measure.advantage(ratio, 1.0));
    let to_peer = row.to_peers.first().copied().flatten().map(|ratio| row.measure.advantage(ratio, 1.0));
    draw_bar(svg, &panels[0], y, to_raw, "raw", panels[0].min);
    draw_bar(svg, &panels[1], y, to_peer, "peer", 1.0);
}

fn is_comparable(row: &Row) -> bool {
    let has_ratio = row.to_raw.is_some() || row.to_peers.iter().any(Option::is_some);
    has_ratio && !matches!(row.measure.unit, Unit::Percent | Unit::Times | Unit::Ticks)
}

fn draw_axis(svg: &mut String, panel: &Panel, height: f64) {
    let bottom = height - 30.0;
    let _ = writeln!(svg, r#"<text x="{}" y="{}">{}</text>"#, panel.left, TOP - 12.0, panel.title);
    for &tick in panel.ticks {
        let x = panel.x(tick);
        let class = if (tick - 1.0).abs() < f64::EPSILON { r#" class="one""# } else { "" };
        let _ = writeln!(svg, r#"<line{class} x1="{x:.1}" y1="{}" x2="{x:.1}" y2="{bottom}"/>"#, TOP - 4.0);
        let _ =
            writeln!(svg, r#"<text class="faint" x="{x:.1}" y="{}" text-anchor="middle">{tick}</text>"#, bottom + 16.0);
    }
}

/// Draws a bar from `origin` to the value, followed by the value as text.
fn draw_bar(svg: &mut String, panel: &Panel, y: f64, value: Option<f64>, class: &str, origin: f64) {
    let Some(value) = value else {
        let _ = writeln!(svg, r#"<text class="faint" x="{:.1}" y="{:.1}">–</text>"#, panel.x(origin) + 4.0, y + 14.0);
        return;
    };
    let (from, to) = (panel.x(origin), panel.x(value));
    let (x, width) = (from.min(to), (to - from).abs().max(1.0));
    let class = if value < origin { "less" } else { class };
    let _ =
        writeln!(svg, r#"<rect class="{class}" x="{x:.1}" y="{:.1}" width="{width:.1}" height="14" rx="2"/>"#, y + 3.0);
    let _ = writeln!(svg, r#"<text x="{:.1}" y="{:.1}">{value:.2}</text>"#, from.max(to) + 4.0, y + 14.0);
}
