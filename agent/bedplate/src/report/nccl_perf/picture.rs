//! `bedplate nccl perf --svg`: bandwidth by size, with lines at the expected rate and the limit. Uses the drawing code
//! of topologies.

use super::plot::share;
use crate::report::markup::Markup;
use crate::report::topology::picture::scene::{Anchor, Group, Scene};
use crate::report::topology::picture::svg as drawing;
use bedplate_nccl::perf::Point;
use bedplate_nccl::perf::judge::{Judged, Report, size};

/// Geometry of one run in pixels: left and top edge of the field, its width and height, and the total height per run.
const LEFT: i32 = 90;
const TOP: i32 = 50;
const WIDE: i32 = 640;
const HIGH: i32 = 260;
const EACH: i32 = TOP + HIGH + 60;

/// Returns the picture as a standalone document.
pub fn svg(report: &Report, file: &str) -> String {
    let mut scene = Scene {
        width: LEFT + WIDE + 40,
        height: 20,
        title: format!("Bandwidth: {file}"),
        groups: Vec::new(),
    };
    for judged in report.runs.iter().filter(|judged| !judged.run.points.is_empty()) {
        let top = scene.height - 20;
        scene.groups.extend(run(judged, top));
        scene.height += EACH;
    }
    let mut markup = Markup::default();
    drawing::write(&scene, false, &mut markup);
    markup.finish().trim_start().to_owned()
}

fn run(judged: &Judged, offset: i32) -> Vec<Group> {
    let run = &judged.run;
    let limit = judged.limit.as_ref().map(|limit| limit.most);
    let expected = judged.expectation.as_ref().map(|expectation| expectation.good);
    let top = run.peak().map_or(0.0, Point::best).max(limit.or(expected).unwrap_or(0.0));
    let edge = offset + TOP;
    let y = |value: f64| edge + HIGH - (share(value, top) * f64::from(HIGH)).round() as i32;
    let sizes = || run.points.iter().map(|point| (point.bytes.max(1) as f64).log2());
    let (least, most) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
    let span = if most > least { most - least } else { 1.0 };
    let x = |bytes: u64| {
        LEFT + (((bytes.max(1) as f64).log2() - least) / span * f64::from(WIDE)).round() as i32
    };

    let mut frame = Group::default();
    frame.text((LEFT, offset + 28), Anchor::Start, "title", super::title(run));
    frame.rect((LEFT, edge, WIDE, HIGH), "panel");
    for quarter in 0..=4 {
        let value = top * f64::from(quarter) / 4.0;
        frame.text((LEFT - 6, y(value) + 4), Anchor::End, "faint", format!("{value:.2}"));
    }
    frame.text((LEFT - 6, edge - 8), Anchor::End, "faint", "GB/s");
    let step = run.points.len().div_ceil(8).max(1);
    for point in run.points.iter().step_by(step) {
        frame.text((x(point.bytes), edge + HIGH + 16), Anchor::Middle, "faint", size(point.bytes));
    }
    let mut groups = vec![frame];
    for (name, class, pick) in [("out of place", "arc pxb", 0), ("in place", "arc sys", 1)] {
        let measured =
            |point: &Point| if pick == 0 { point.out.clone() } else { point.within.clone() };
        let points: Vec<(i32, i32)> = run
            .points
            .iter()
            .filter_map(|point| Some((x(point.bytes), y(measured(point)?.bandwidth))))
            .collect();
        if points.is_empty() {
            continue;
        }
        let name = if run.device.is_some() { "measured" } else { name };
        let mut group = Group::new(vec![name.to_owned()]);
        group.line(&points, class);
        let ink = if pick == 0 { "ink-pxb" } else { "ink-sys" };
        group.text((LEFT + 10 + 110 * pick, edge + HIGH + 36), Anchor::Start, ink, name);
        groups.push(group);
    }
    for (name, value) in [("limit", limit), ("expected", expected)] {
        let Some(value) = value else { continue };
        let text = format!("{name} {value:.2} GB/s");
        let mut group = Group::new(vec![text.clone()]);
        group.line(&[(LEFT, y(value)), (LEFT + WIDE, y(value))], "arc degraded pix");
        group.text((LEFT + WIDE, y(value) - 6), Anchor::End, "ink-pix", text);
        groups.push(group);
    }
    groups
}
