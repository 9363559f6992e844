//! Totals of all links, for the legend.

use super::marks::{Redirect, State};
use bedplate_facts::topology::Distance;

/// Totals of all links.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub states: Vec<State>,
    pub redirects: Vec<Redirect>,
    pub distances: Vec<Distance>,
    /// Number of devices that are not drawn.
    pub left_out: usize,
    /// Whether lines of pairs are drawn.
    pub pairs: bool,
}
