//! SVG output: no script, font, image or external content. Colors by the viewer's preference, light when printed.

use super::scene::{Anchor, Group, Part, Scene};
use crate::report::markup::Markup;

/// Style rules. The hues of distances are those of Okabe and Ito, distinguishable with any color vision, and darkened
/// for legible text on every box.
const STYLE: &str = include_str!("picture.css");

/// Writes the drawing. With `links`, a box links to the element of the page with its id.
pub(in crate::report) fn write(scene: &Scene, links: bool, markup: &mut Markup) {
    let (width, height) = (scene.width, scene.height);
    let view = format!("0 0 {width} {height}");
    markup.open(
        "svg",
        &[
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("class", &"topology"),
            ("viewBox", &view),
            ("role", &"img"),
        ],
    );
    markup.element("title", &[], &scene.title);
    markup.style(STYLE);
    markup.empty("rect", &[("class", &"paper"), ("width", &width), ("height", &height)]);
    for group in &scene.groups {
        write_group(group, links, markup);
    }
    markup.close();
}

fn write_group(group: &Group, links: bool, markup: &mut Markup) {
    match group.id.as_ref().filter(|_| links) {
        Some(id) => markup.open("a", &[("href", &format_args!("#{id}"))]),
        None => markup.open("g", &[]),
    }
    if !group.hover.is_empty() {
        markup.open("title", &[]);
        markup.lines(group.hover.iter().map(String::as_str));
        markup.close();
    }
    for part in &group.parts {
        write_part(part, markup);
    }
    markup.close();
}

fn write_part(part: &Part, markup: &mut Markup) {
    match part {
        Part::Rect { at: (x, y, width, height), class } => markup.empty(
            "rect",
            &[("class", class), ("x", x), ("y", y), ("width", width), ("height", height)],
        ),
        Part::Line { points, class } => {
            let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
            markup.empty("polyline", &[("class", class), ("points", &points.join(" "))]);
        }
        Part::Text { at: (x, y), anchor, class, text } => {
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " middle",
                Anchor::End => " end",
            };
            let class = format!("{class}{anchor}");
            match class.trim() {
                "" => markup.element("text", &[("x", x), ("y", y)], text),
                class => markup.element("text", &[("class", &class), ("x", x), ("y", y)], text),
            }
        }
    }
}
