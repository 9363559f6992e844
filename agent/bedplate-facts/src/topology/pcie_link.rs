//! A link by both of its ends: either may say what it is now, the weaker one says what it can be. Pure.

use crate::pci::{Function, Link};

/// Speed or width of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Property {
    /// As it is; `None`: neither end says.
    pub now: Option<u32>,
    /// The best that both ends can; `None`: one of them does not say.
    pub best: Option<u32>,
}

impl Property {
    /// Whether it can be judged.
    pub fn is_known(self) -> bool {
        self.now.is_some() && self.best.is_some()
    }

    /// Whether it is less than both ends can.
    pub fn is_degraded(self) -> bool {
        matches!((self.now, self.best), (Some(now), Some(best)) if now < best)
    }
}

/// Lanes of the link between a function and the port above it.
pub fn width(below: &Function, above: &Function) -> Property {
    property([below, above], |link| link.width.map(u32::from), |link| link.max_width.map(u32::from))
}

/// Its speed, in tenths of a GT/s.
pub fn speed(below: &Function, above: &Function) -> Property {
    property([below, above], |link| tenths(&link.speed), |link| tenths(&link.max_speed))
}

/// A speed in words.
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
        // Both ends have one link; where they say two things the worse one is believed.
        now: ends.iter().filter_map(|end| end.and_then(now)).min(),
        best: own.zip(ports).map(|(one, other)| one.min(other)),
    }
}

/// `32.0 GT/s PCIe` in tenths of a GT/s.
pub fn tenths(text: &Option<String>) -> Option<u32> {
    let number: f64 = text.as_ref()?.split(' ').next()?.parse().ok()?;
    // For 2.5.
    (number > 0.0 && number < 10_000.0).then_some((number * 10.0) as u32)
}
