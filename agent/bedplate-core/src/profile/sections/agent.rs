//! `[agent]`: how the daemon behaves.

use serde::{Deserialize, Serialize};

use crate::section::{DAY, Length, section};

/// Whether the daemon writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AgentMode {
    /// Makes the host what the profile says, and keeps it so.
    Enforce,
    /// Only looks and reports; never writes to the host.
    Observe,
}

/// Comparing more often than this costs more than it finds.
const SHORTEST_INTERVAL: u32 = 10;
const SHORTEST_BOOT: u32 = 5;
/// bedplate-boot.service ends what hangs itself some minutes later.
const LONGEST_BOOT: u32 = 15 * 60;

section! {
    /// `[agent]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    "agent" Agent, AgentFile {
        /// Whether the daemon makes the host what the profile says and keeps it so, or only reports.
        mode: AgentMode = AgentMode::Enforce;

        /// Time between two re-checks that no event asked for, from 10 seconds to one day. Events (a device appears, an
        /// attribute is written) are looked at as they come.
        #[schemars(example = &"10m", example = &"1h 30m")]
        interval_s ("interval"): u32 as Length<SHORTEST_INTERVAL, DAY> = 15 * 60;

        /// How long `bedplate-boot.service` may hold up a boot to put back ACS bits, VFs and modules, from 5 seconds to 15
        /// minutes. Half of it is for drivers that are not ready. Then the boot goes on, and the daemon with what is left.
        #[schemars(example = &"30s")]
        boot_timeout_s ("boot_timeout"): u32 as Length<SHORTEST_BOOT, LONGEST_BOOT> = 2 * 60;

        /// How long a boot waits for the host to converge, up to one day; then whatever is ordered after
        /// `bedplate-ready.target` starts all the same, and that is said.
        #[schemars(example = &"3m")]
        ready_timeout_s ("ready_timeout"): u32 as Length<0, DAY> = 10 * 60;
    }
}
