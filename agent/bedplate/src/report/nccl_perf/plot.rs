//! Bar chart of bandwidth by size, with a mark at the expected rate.

use std::fmt::Write as _;

use bedplate_nccl::perf::judge::{Judged, size};

/// Maximum width of a bar in columns; wider bars are not more readable.
const WIDEST: usize = 72;

/// Draws the plot for a width; empty if there is nothing to draw.
pub(super) fn draw(judged: &Judged, width: usize, ascii: bool) -> String {
    let run = &judged.run;
    let expected = judged.expectation.as_ref().map(|expectation| expectation.good);
    let top = run.peak().map_or(0.0, |peak| peak.best()).max(expected.unwrap_or(0.0));
    if top <= 0.0 || run.points.len() < 2 {
        return String::new();
    }
    let room = width.saturating_sub(26).clamp(10, WIDEST);
    let mut out = String::new();
    for point in &run.points {
        let eighths = (share(point.best(), top) * room as f64 * 8.0).round() as usize;
        let bar = bar(eighths, room, ascii);
        let mark = if expected.is_some() { if ascii { "|" } else { "▏" } } else { "" };
        let at = expected.map_or(room, |value| (share(value, top) * room as f64).round() as usize);
        let gap = at.saturating_sub(bar.chars().count());
        let _ = writeln!(
            out,
            "  {:>10} {:>10} {bar}{:gap$}{mark}",
            size(point.bytes),
            figure(point.best()),
            ""
        );
    }
    let _ = writeln!(
        out,
        "  {:>10} {:>10} {}",
        "size",
        "GB/s",
        if expected.is_some() { "the line: expected" } else { "" }
    );
    out
}

/// Formats a value, with more digits if it is small.
fn figure(value: f64) -> String {
    if value < 1.0 { format!("{value:.4}") } else { format!("{value:.2}") }
}

/// Returns the position of a value between zero and the top, from 0 to 1.
pub(super) fn share(value: f64, top: f64) -> f64 {
    if value <= 0.0 || top <= 0.0 {
        return 0.0;
    }
    (value / top).clamp(0.0, 1.0)
}

fn bar(eighths: usize, room: usize, ascii: bool) -> String {
    let eighths = eighths.min(room * 8);
    if ascii {
        return "#".repeat((eighths + 4) / 8);
    }
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    format!("{}{}", "█".repeat(eighths / 8), rest[eighths % 8])
}
