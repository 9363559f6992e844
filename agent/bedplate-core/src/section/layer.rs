//! What a layer is made of: values with their places, and how an earlier and a later one become one.
//!
//! Merging is associative, and merging a layer with itself changes nothing: that is why everything here is a value on
//! which the later layer has the last word, or an ordered map of such values in which the first mention gives the place.

use crate::section::Place;

/// Joining an earlier and a later layer.
pub(crate) trait Overlay {
    /// The two as one; the later one has the last word.
    fn overlay(self, later: Self) -> Self;
}

/// A value, where it stands and why.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Leaf<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub place: Place,
    /// The profile's reason.
    pub why: Option<String>,
    /// The profile's source for the reason.
    pub source: Option<String>,
}

impl<T> Leaf<T> {
    /// A value without a reason of its own.
    pub(crate) fn bare(value: T, place: Place) -> Self {
        Leaf { value, place, why: None, source: None }
    }
}

impl<T> Overlay for Leaf<T> {
    fn overlay(self, later: Self) -> Self {
        later
    }
}

impl<T: Overlay> Overlay for Option<T> {
    fn overlay(self, later: Self) -> Self {
        match (self, later) {
            (Some(earlier), Some(later)) => Some(earlier.overlay(later)),
            (earlier, later) => later.or(earlier),
        }
    }
}

/// An ordered map: entries keep the place of their first mention.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OrderedMap<V>(pub Vec<(String, V)>);

impl<V> Default for OrderedMap<V> {
    fn default() -> Self {
        OrderedMap(Vec::new())
    }
}

impl<V> OrderedMap<V> {
    /// The entry of this name.
    pub(crate) fn get(&self, key: &str) -> Option<&V> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, value)| value)
    }

    /// The entry of this name, made when it is not there.
    pub(crate) fn entry(&mut self, key: &str) -> &mut V
    where
        V: Default,
    {
        let at = self.0.iter().position(|(own, _)| own == key).unwrap_or_else(|| {
            self.0.push((key.to_owned(), V::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// The values in order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<V: Overlay> Overlay for OrderedMap<V> {
    fn overlay(self, later: Self) -> Self {
        let mut out: Vec<(String, Option<V>)> =
            self.0.into_iter().map(|(k, v)| (k, Some(v))).collect();
        for (key, value) in later.0 {
            match out.iter_mut().find(|(own, _)| *own == key) {
                Some((_, slot)) => *slot = slot.take().overlay(Some(value)),
                None => out.push((key, Some(value))),
            }
        }
        OrderedMap(
            out.into_iter().filter_map(|(key, value)| value.map(|value| (key, value))).collect(),
        )
    }
}

/// Implements [`Overlay`] field by field.
macro_rules! overlay_fields {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::section::Overlay for $name {
            fn overlay(self, later: Self) -> Self {
                $name { $($field: $crate::section::Overlay::overlay(self.$field, later.$field)),* }
            }
        }
    };
}
pub(crate) use overlay_fields;
