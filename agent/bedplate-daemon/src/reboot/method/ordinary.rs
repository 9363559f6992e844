//! The `ordinary` method: logind's reboot, without preparation.

use super::{Next, Row};

/// Registry entry.
pub(super) const ROW: Row = Row {
    subject: "an ordinary reboot",
    next: Next::LogindReboot,
    probe: |_| Ok("an ordinary reboot through logind; firmware runs, the power stays on".to_owned()),
    find_undo: |_| Ok(Vec::new()),
    prepare: |_| Ok(()),
    undoes: |_| false,
    survives_boot: false,
};
