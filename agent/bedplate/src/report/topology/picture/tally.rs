//! What the legend says of all links together.

use super::marks::{Redirect, State};
use bedplate_facts::topology::Distance;

/// What is to be said of all links together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub states: Vec<State>,
    pub redirects: Vec<Redirect>,
    pub distances: Vec<Distance>,
    /// Devices that are not drawn.
    pub left_out: usize,
    /// Whether lines join pairs.
    pub pairs: bool,
}
