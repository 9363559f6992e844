//! Where NUMA nodes stand: in two columns, those of a socket together in a frame, where it is known whose they are.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::super::TopologyView;
use super::boxes::MARGIN;
use super::labels;
use super::scene::{Anchor, Group};
use super::tally::Tally;
use super::tree::Panel;
use bedplate_facts::topology::Distance;

/// Between columns.
const GUTTER: i32 = 36;
/// Between a socket and its NUMA nodes.
const PAD: i32 = 9;
/// Height of the name of a socket.
const NAME: i32 = 24;
/// Below the name of the host.
const TOP: i32 = MARGIN + 50;

/// NUMA nodes that are one socket, or one of which that is not known.
pub(super) struct Block<'s, 'a> {
    /// The socket's number.
    pub socket: Option<u32>,
    /// Its NUMA nodes.
    pub panels: Vec<Panel<'s, 'a>>,
}

/// Sockets by number; then, each by itself, the nodes of which none is known.
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

/// The columns, as far as they are filled.
pub(super) struct Grid {
    /// Lower edges.
    pub bottoms: [i32; 2],
    /// Width of a node.
    wide: i32,
    /// Beside and below the nodes of a socket; 0: no frame is drawn.
    pad: i32,
}

impl Grid {
    pub(super) fn new(frames: bool, wide: i32) -> Self {
        Grid { bottoms: [TOP; 2], wide, pad: if frames { PAD } else { 0 } }
    }

    /// Left edge of the nodes of a column.
    pub(super) fn left_edge(&self, column: usize) -> i32 {
        let column = if column == 0 { 0 } else { self.wide + self.gap() };
        MARGIN + self.pad + column
    }

    /// Between the nodes of one column and those of the next.
    fn gap(&self) -> i32 {
        GUTTER + 2 * self.pad
    }

    /// Of the whole picture.
    pub(super) fn width(&self, columns: usize) -> i32 {
        self.left_edge(columns - 1) + self.wide + self.pad + MARGIN
    }

    /// Where a block begins in these columns: its upper edge.
    pub(super) fn begin(&mut self, block: &Block, columns: RangeInclusive<usize>) -> i32 {
        let top = self.lowest(columns.clone());
        let name = if block.socket.is_some() { NAME } else { 0 };
        columns.for_each(|column| self.bottoms[column] = top + name);
        top
    }

    /// Ends a block that began at `top`: the frame around it.
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

    /// The links between NUMA nodes: from each heading to a line between the columns. `heads`: column, height, and whether the
    /// node has a number.
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

    /// A frame holds its nodes, and the next begins below it.
    #[test]
    fn frames_stand_below_one_another() {
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
