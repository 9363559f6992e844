//! A map in order of insertion.

/// Values by name, in the order of the first insertion of each name.
#[derive(Debug)]
pub(crate) struct OrderedMap<V>(pub Vec<(String, V)>);

impl<V> Default for OrderedMap<V> {
    fn default() -> Self {
        OrderedMap(Vec::new())
    }
}

impl<V: Default> OrderedMap<V> {
    /// Returns the entry of this name; inserts it if absent.
    pub(crate) fn entry(&mut self, name: &str) -> &mut V {
        let at = self.0.iter().position(|(own, _)| own == name).unwrap_or_else(|| {
            self.0.push((name.to_owned(), V::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Returns the values in order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }
}
