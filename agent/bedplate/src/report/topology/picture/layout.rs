//! Tree with coordinates. Sockets and NUMA nodes are side by side (`grid`); within each node, root ports, switches and
//! devices from left to right, one device per row. A box is as high as everything below it, so that every link is a
//! straight line with space for its label.

use super::super::TopologyView;
use super::super::labels::cell;
use super::arcs;
use super::boxes::{self, DEVICE, HALF, HEAD, MARGIN, PORT};
use super::grid::{Block, Grid, blocks};
use super::labels;
use super::legend;
use super::marks::{Ports, State};
use super::scene::{Anchor, CHAR, Group, Scene};
use super::tally::Tally;
use super::tree::{Branch, Host, Panel, tree};
use bedplate_base::value::PciAddress;

/// Height of a device, including the gap below it.
const ROW: i32 = 42;
/// Length of a link. Its label has at most 14 characters.
const LINK: i32 = 14 * CHAR + 8;
/// Width of the line that joins the host bridges of a node, at their left.
const TRUNK: i32 = 34;

/// Positions of all parts.
pub(super) struct Layout<'s, 'a> {
    pub shown: &'s TopologyView<'a>,
    ports: Ports,
    scene: Scene,
    /// Number of levels of root ports and switches.
    depth: i32,
    /// Positions of devices in this node, for the lines of pairs.
    places: Vec<(PciAddress, i32)>,
    pub tally: Tally,
}

/// Returns the drawing.
pub(super) fn scene(shown: &TopologyView) -> Scene {
    let (panels, left_out) = tree(shown);
    let depth = panels.iter().flat_map(|panel| &panel.hosts).flat_map(|host| &host.below);
    let depth = depth.map(Branch::depth).max().unwrap_or(0);
    let mut layout = Layout {
        shown,
        ports: Ports::new(shown),
        scene: Scene::default(),
        depth: i32::try_from(depth).unwrap_or(0),
        places: Vec::new(),
        tally: Tally { left_out, ..Tally::default() },
    };
    let sockets = blocks(shown, panels);
    let columns =
        if sockets.iter().map(|block| block.panels.len()).sum::<usize>() > 1 { 2 } else { 1 };
    let mut grid =
        Grid::new(sockets.iter().any(|block| block.socket.is_some()), layout.panel_width());
    let between = layout.blocks(&sockets, columns, &mut grid);
    // Drawn below the nodes that they contain or join.
    layout.scene.groups.splice(0..0, between);
    let Layout { mut scene, tally, .. } = layout;
    scene.width = grid.width(columns).max(legend::LEAST);
    scene.height = grid.bottoms[0].max(grid.bottoms[1]);
    legend::add(shown, &tally, &mut scene);
    scene
}

impl<'s, 'a> Layout<'s, 'a> {
    /// Returns the left edge of the boxes of a level within a node.
    fn column(&self, level: i32) -> i32 {
        MARGIN + TRUNK + level * (PORT + LINK)
    }

    fn panel_width(&self) -> i32 {
        self.column(self.depth) + DEVICE + arcs::ROOM + MARGIN
    }

    /// Draws all sockets, side by side if there are several. Returns frames and the links between nodes.
    fn blocks(&mut self, blocks: &[Block], columns: usize, grid: &mut Grid) -> Vec<Group> {
        let several = blocks.len() > 1;
        // A single socket spans both columns.
        let sockets = blocks.iter().filter(|block| block.socket.is_some()).count();
        let mut frames = Vec::new();
        let mut heads = Vec::new();
        for (nth, block) in blocks.iter().enumerate() {
            let is_wide = sockets == 1 && block.socket.is_some() && block.panels.len() > 1;
            let first = if several && !is_wide { nth % columns } else { 0 };
            let last = if is_wide { columns - 1 } else { first };
            let top = grid.begin(block, first..=last);
            for (nth, panel) in block.panels.iter().enumerate() {
                let column = if is_wide { nth % columns } else { first };
                let y = grid.bottoms[column];
                heads.push((column, y + HEAD / 2, panel.node.is_some()));
                grid.bottoms[column] = self.panel(panel, (grid.left_edge(column), y)) + MARGIN;
            }
            frames.extend(grid.end(block, first..=last, top));
        }
        frames.extend(grid.between(&heads, &mut self.tally));
        frames
    }

    /// Draws a node and returns its bottom edge.
    fn panel(&mut self, panel: &Panel, (x, top): (i32, i32)) -> i32 {
        let at = self.scene.groups.len();
        self.places.clear();
        let mut y = top + HEAD + MARGIN;
        let first = top + HEAD;
        let mut last = first;
        let mut trunks = Vec::new();
        for host in &panel.hosts {
            let center = self.host(host, x, &mut y);
            trunks.push(center);
            last = last.max(center);
        }
        let mut trunk = Group::new(vec![format!(
            "host bridges of this NUMA node; nearest traffic between them: {}",
            cell(panel.class)
        )]);
        let left = x + MARGIN;
        let class = format!("wire {}", labels::class(panel.class));
        trunk.line(&[(left, first), (left, last)], class.clone());
        trunks.iter().for_each(|y| trunk.line(&[(left, *y), (left + 12, *y)], class.clone()));
        self.tally.distances.push(panel.class);
        let wide = self.panel_width();
        let mut back = Group::default();
        back.rect((x, top, wide, y - top), "panel");
        self.scene
            .groups
            .splice(at..at, [back, boxes::heading(self.shown, panel, (x, top, wide)), trunk]);
        let places = std::mem::take(&mut self.places);
        let right = x + self.column(self.depth) + DEVICE;
        self.scene.groups.extend(arcs::draw(self.shown, &places, right, &mut self.tally));
        y
    }

    /// Draws everything below a host bridge. Returns the point where its line meets that of the node.
    fn host(&mut self, host: &Host, x: i32, y: &mut i32) -> i32 {
        let (at, left) = (self.scene.groups.len(), x + MARGIN + 12);
        let mut centers = Vec::new();
        for branch in &host.below {
            centers.push(self.branch(branch, (x, 0), y));
            *y += 6;
        }
        let (first, last) = (centers.first().copied(), centers.last().copied());
        let (first, last) = (first.unwrap_or(*y), last.unwrap_or(*y));
        let mut group = Group::new(vec![
            format!("host bridge {}", if host.root.is_empty() { "unknown" } else { host.root }),
            format!("nearest traffic: {}", cell(host.class)),
        ]);
        let class = format!("wire {}", labels::class(host.class));
        group.line(&[(left, first), (left, last)], class.clone());
        for y in centers {
            group.line(&[(left, y), (x + self.column(0), y)], class.clone());
        }
        self.tally.distances.push(host.class);
        self.scene.groups.insert(at, group);
        (first + last) / 2
    }

    /// Draws a box with everything below it, and returns the middle of the box.
    fn branch(&mut self, branch: &Branch, (x, level): (i32, i32), y: &mut i32) -> i32 {
        let mut centers = Vec::new();
        let own = self.scene.groups.len();
        for below in &branch.below {
            let center = self.branch(below, (x, level + 1), y);
            let end = if below.below.is_empty() { self.depth } else { level + 1 };
            let ends = (x + self.column(level) + PORT, x + self.column(end));
            let wire = self.wire(below, ends, center);
            self.scene.groups.push(wire);
            centers.push(center);
        }
        let left = x + self.column(level);
        let (group, center) = match (centers.first(), centers.last()) {
            (Some(first), Some(last)) => {
                let middle = (first + last) / 2;
                let at = (left, first - HALF, PORT, last - first + 2 * HALF);
                (boxes::port(self.shown, branch, at), middle)
            }
            _ => {
                let middle = *y + ROW / 2;
                *y += ROW;
                self.places.push((branch.function.address, middle));
                (boxes::device(self.shown, branch, (x + self.column(self.depth), middle)), middle)
            }
        };
        self.scene.groups.insert(own, group);
        center
    }

    /// Draws the link to a box.
    fn wire(&mut self, branch: &Branch, (from, to): (i32, i32), y: i32) -> Group {
        let mark = self.ports.mark(self.shown, branch.function);
        self.tally.states.push(mark.state);
        self.tally.redirects.extend(mark.redirect);
        self.tally.distances.push(branch.class);
        let mut group = Group::new(labels::wire(branch, &mark));
        let line = [(from, y), (to, y)];
        group.line(&line, "hit");
        let state = match mark.state {
            State::Best => "",
            State::Idle => " idle",
            State::Degraded => " degraded",
            State::Unknown => " unread",
        };
        if mark.state == State::Degraded {
            group.line(&line, "halo");
        }
        group.line(&line, format!("wire {}{state}", labels::class(branch.class)));
        let class = if mark.state == State::Degraded { "bad" } else { "faint" };
        let middle = from + LINK / 2;
        let (above, below) = labels::labels(&mark);
        for (text, y) in [(above, y - 11), (below, y + 18)] {
            if !text.is_empty() {
                group.text((middle, y), Anchor::Middle, class, text);
            }
        }
        if let Some(redirect) = mark.redirect {
            legend::pill(&mut group, redirect, (middle, y));
        }
        group
    }
}
