//! `bedplate topology --svg`: sockets, NUMA nodes, root ports, switches and what hangs from them, as boxes and lines. From the topology a
//! tree of what is drawn (`tree`), of it shapes with coordinates (`layout`, `grid`), of these SVG (`svg`). Pure.

mod arcs;
mod boxes;
mod grid;
mod labels;
mod layout;
mod legend;
mod marks;
pub(in crate::report) mod scene;
pub(in crate::report) mod svg;
mod tally;
#[cfg(test)]
mod tests;
mod tree;

use super::TopologyView;
use crate::report::markup::Markup;

/// The picture as a document of its own.
pub fn svg(shown: &TopologyView) -> String {
    let mut markup = Markup::default();
    svg::write(&layout::scene(shown), false, &mut markup);
    // A declaration has to be the first thing in a file, and UTF-8 needs none.
    markup.finish().trim_start().to_owned()
}

/// The picture as a part of a page, in which a click on a box leads to what was read of it: by id and lines.
pub(super) fn draw_with_links(
    shown: &TopologyView,
    markup: &mut Markup,
) -> Vec<(String, Vec<String>)> {
    let scene = layout::scene(shown);
    svg::write(&scene, true, markup);
    let read = scene.groups.into_iter().filter_map(|group| Some((group.id?, group.hover)));
    read.collect()
}
