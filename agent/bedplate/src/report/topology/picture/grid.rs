//! Placement of NUMA nodes: two columns, with a frame around the nodes of a known socket.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::super::TopologyView;
use super::boxes::MARGIN;
use super::labels;
use super::scene::{Anchor, Group};
use super::tally::Tally;
use super::tree::Panel;
use bedplate_facts::topology::Distance;

/// Space between columns.
const GUTTER: i32 = 36;
/// Space between a socket's frame and its NUMA nodes.
const PAD: i32 = 9;
/// Height of the name of a socket.
const NAME: i32 = 24;
/// Top edge of the nodes, below the name of the host.
const TOP: i32 = MARGIN + 50;

/// NUMA nodes of one socket, or one node with an unknown socket.
pub(super) struct Block<'s, 'a> {
    /// Number of the socket.
    pub socket: Option<u32>,
    /// NUMA nodes of the socket.
    pub panels: Vec<Panel<'s, 'a>>,
}

/// Groups nodes by socket number. Each node with an unknown socket follows by itself.
pub(super) fn blocks<'s, 'a>(
    shown: &TopologyView,
    panels: Vec<Panel<'s, 'a>>,
) -> Vec<Block<'s, 'a>> {
    let mut sockets: BTreeMap<u32, Vec<Panel>> = BTreeMap::new();
    let mut others = Vec::new();
    for panel in panels {
        match panel.node.and_then(|node| shown.placement.sockets.get(&node)) {
            Some(socket) => sockets.entry(*socket).or_default().push(panel),
            None => others.push(Block { socket: None, panels: vec![panel] }),
        }
    }
    let known = sockets.into_iter().map(|(socket, panels)| Block { socket: Some(socket), panels });
    known.chain(others).collect()
}

/// The columns with their current fill.
pub(super) struct Grid {
    /// Lower edges.
    pub bottoms: [i32; 2],
    /// Width of a node.
    wide: i32,
    /// Space around the nodes of a socket; 0 if no frame is drawn.
    pad: i32,
}

impl Grid {
    pub(super) fn new(frames: bool, wide: i32) -> Self {
        Grid { bottoms: [TOP; 2], wide, pad: if frames { PAD } else { 0 } }
    }

    /// Returns the left edge of the nodes in a column.
    pub(super) fn left_edge(&self, column: usize) -> i32 {
        let column = if column == 0 { 0 } else { self.wide + self.gap() };
        MARGIN + self.pad + column
    }

    /// Returns the space between the nodes of two columns.
    fn gap(&self) -> i32 {
        GUTTER + 2 * self.pad
    }

    /// Returns the width of the whole picture.
    pub(super) fn width(&self, columns: usize) -> i32 {
        self.left_edge(columns - 1) + self.wide + self.pad + MARGIN
    }

    /// Starts a block in these columns and returns its top edge.
    pub(super) fn begin(&mut self, block: &Block, columns: RangeInclusive<usize>) -> i32 {
        let top = self.lowest(columns.clone());
        let name = if block.socket.is_some() { NAME } else { 0 };
        columns.for_each(|column| self.bottoms[column] = top + name);
        top
    }

    /// Ends a block that started at `top`, and returns its frame.
    pub(super) fn end(
        &mut self,
        block: &Block,
        columns: RangeInclusive<usize>,
        top: i32,
    ) -> Option<Group> {
        let name = format!("socket {}", block.socket?);
        let bottom = self.lowest(columns.clone()) - MARGIN + self.pad;
        let left = self.left_edge(*columns.start()) - self.pad;
        let right = self.left_edge(*columns.end()) + self.wide + self.pad;
        let nodes: Vec<String> =
            block.panels.iter().filter_map(|panel| Some(panel.node?.to_string())).collect();
        let nodes = format!("NUMA nodes with devices: {}", nodes.join(", "));
        let mut group = Group::new(vec![name.clone(), nodes]);
        group.rect((left, top, right - left, bottom - top), "socket");
        group.text((left + MARGIN, top + NAME / 2 + 5), Anchor::Start, "strong", name);
        columns.for_each(|column| self.bottoms[column] = bottom + MARGIN);
        Some(group)
    }

    fn lowest(&self, columns: RangeInclusive<usize>) -> i32 {
        columns.map(|column| self.bottoms[column]).max().unwrap_or(TOP)
    }

    /// Draws the links between NUMA nodes: from each heading to a line between the columns. `heads`: column, height,
    /// and whether the node has a number.
    pub(super) fn between(&self, heads: &[(usize, i32, bool)], tally: &mut Tally) -> Option<Group> {
        let middles = heads.iter().map(|(_, y, _)| *y);
        let (first, last) = (middles.clone().min()?, middles.max()?);
        if heads.len() < 2 {
            return None;
        }
        let mut group = Group::new(vec!["between NUMA nodes: SYS".to_owned()]);
        let right = self.left_edge(0) + self.wide;
        let middle = right + self.gap() / 2;
        group.line(&[(middle, first), (middle, last)], "wire sys");
        for (column, y, is_named) in heads {
            let end = if *column == 0 { right } else { self.left_edge(1) };
            let class = if *is_named { Distance::Sys } else { Distance::Unknown };
            group.line(&[(middle, *y), (end, *y)], format!("wire {}", labels::class(class)));
            tally.distances.push(class);
        }
        Some(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(socket: Option<u32>) -> Block<'static, 'static> {
        Block { socket, panels: Vec::new() }
    }

    /// A frame encloses its nodes, and the next frame starts below it.
    #[test]
    fn frames_are_placed_below_each_other() {
        let mut grid = Grid::new(true, 100);
        let top = grid.begin(&block(Some(0)), 0..=1);
        let begun = grid.bottoms;
        assert_eq!(begun, [top + NAME; 2]);
        grid.bottoms = [begun[0] + 200 + MARGIN, begun[1] + 50 + MARGIN];
        let frame = grid.end(&block(Some(0)), 0..=1, top).unwrap();
        let super::super::scene::Part::Rect { at: (left, at, wide, high), .. } = frame.parts[0]
        else {
            panic!("{frame:?}")
        };
        assert_eq!((left, at, high), (MARGIN, top, NAME + 200 + PAD));
        assert_eq!(left + wide, grid.left_edge(1) + 100 + PAD);
        assert_eq!(grid.width(2), left + wide + MARGIN);
        assert_eq!(grid.begin(&block(None), 0..=0), top + high + MARGIN);
    }
}
