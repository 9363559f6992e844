//! Speed and width of a link, from both of its ends: either end may report the current value; the weaker end limits the
//! maximum. Pure.

use crate::pci::{Function, Link};

/// Speed or width of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Property {
    /// Current value, if an end reports it.
    pub now: Option<u32>,
    /// Maximum that both ends support; known only if both report it.
    pub best: Option<u32>,
}

impl Property {
    /// Whether both values are known.
    pub fn is_known(self) -> bool {
        self.now.is_some() && self.best.is_some()
    }

    /// Whether the current value is below the maximum.
    pub fn is_degraded(self) -> bool {
        matches!((self.now, self.best), (Some(now), Some(best)) if now < best)
    }
}

/// Returns the width of the link between a function and the port above it, in lanes.
pub fn width(below: &Function, above: &Function) -> Property {
    property([below, above], |link| link.width.map(u32::from), |link| link.max_width.map(u32::from))
}

/// Returns the speed of the link, in tenths of a GT/s.
pub fn speed(below: &Function, above: &Function) -> Property {
    property([below, above], |link| tenths(&link.speed), |link| tenths(&link.max_speed))
}

/// Returns the human-readable speed.
pub fn in_words(tenths: u32) -> String {
    match tenths % 10 {
        0 => format!("{} GT/s", tenths / 10),
        rest => format!("{}.{rest} GT/s", tenths / 10),
    }
}

fn property(
    ends: [&Function; 2],
    now: fn(&Link) -> Option<u32>,
    best: fn(&Link) -> Option<u32>,
) -> Property {
    let ends = ends.map(|end| end.detail.as_ref().map(|detail| &detail.link));
    let [own, ports] = ends.map(|end| end.and_then(best));
    Property {
        // Both ends share one link. If they disagree, the lower value is used.
        now: ends.iter().filter_map(|end| end.and_then(now)).min(),
        best: own.zip(ports).map(|(one, other)| one.min(other)),
    }
}

/// Parses `32.0 GT/s PCIe` into tenths of a GT/s.
pub fn tenths(text: &Option<String>) -> Option<u32> {
    let number: f64 = text.as_ref()?.split(' ').next()?.parse().ok()?;
    // The fraction is needed for 2.5.
    (number > 0.0 && number < 10_000.0).then_some((number * 10.0) as u32)
}
