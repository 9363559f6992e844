//! `bedplate topology --svg`: sockets, NUMA nodes, root ports, switches and devices below them, as boxes and lines.
//! Converts the topology to a tree (`tree`), the tree to shapes with coordinates (`layout`, `grid`), and these to SVG
//! (`svg`). Pure.

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

/// Returns the picture as a standalone document.
pub fn svg(shown: &TopologyView) -> String {
    let mut markup = Markup::default();
    svg::write(&layout::scene(shown), false, &mut markup);
    // A declaration must be the first thing in a file, and UTF-8 needs none.
    markup.finish().trim_start().to_owned()
}

/// Adds the picture to a page, with a link from each box to its details. Returns the details by id.
pub(super) fn draw_with_links(
    shown: &TopologyView,
    markup: &mut Markup,
) -> Vec<(String, Vec<String>)> {
    let scene = layout::scene(shown);
    svg::write(&scene, true, markup);
    let read = scene.groups.into_iter().filter_map(|group| Some((group.id?, group.hover)));
    read.collect()
}
