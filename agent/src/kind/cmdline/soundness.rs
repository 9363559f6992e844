//! Whether the default boot entry can be expected to boot.

use super::next_boot;
use crate::facts::Facts;
use crate::host::{HostKind, Reader, Reading};
use crate::plan::NextBoot;

/// Judges the default boot entry of a host. An image is not rebooted, so its entry counts as sound.
pub fn soundness(reader: &dyn Reader, facts: &Facts) -> NextBoot {
    if facts.host == HostKind::Image {
        return NextBoot::Sound;
    }
    match next_boot(reader, facts) {
        Reading::Known(_) => NextBoot::Sound,
        Reading::Absent => unknown("no boot entry was found; check that /boot is mounted"),
        Reading::Unknown(reason) => unknown(&reason.to_string()),
    }
}

fn unknown(reason: &str) -> NextBoot {
    NextBoot::Unknown { reasons: vec![reason.to_owned()] }
}
