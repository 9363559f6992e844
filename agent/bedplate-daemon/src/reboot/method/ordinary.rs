//! The `ordinary` method: logind's reboot, for which nothing is prepared.

use super::{Next, Row};

/// Its entry in the table.
pub(super) const ROW: Row = Row {
    subject: "an ordinary reboot",
    next: Next::LogindReboot,
    probe: |_| Ok("an ordinary reboot through logind; firmware runs, the power stays on".to_owned()),
    find_undo: |_| Ok(Vec::new()),
    prepare: |_| Ok(()),
    undoes: |_| false,
    survives_boot: false,
};
