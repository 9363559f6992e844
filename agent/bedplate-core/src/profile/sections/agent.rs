//! `[agent]`: settings of the daemon.

use serde::{Deserialize, Serialize};

use crate::section::{DAY, Length, section};

/// Whether the daemon writes to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AgentMode {
    /// Applies the profile and keeps the host converged.
    Enforce,
    /// Only observes and reports; never writes to the host.
    Observe,
}

/// More frequent comparisons cost more than they find.
const SHORTEST_INTERVAL: u32 = 10;
const SHORTEST_BOOT: u32 = 5;
/// bedplate-boot.service terminates hung work itself some minutes later.
const LONGEST_BOOT: u32 = 15 * 60;

section! {
    /// `[agent]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    "agent" Agent, AgentFile {
        /// Whether the daemon applies the profile and keeps the host converged, or only reports.
        mode: AgentMode = AgentMode::Enforce;

        /// Time between two periodic re-checks, from 10 seconds to one day. Events (a device appears, an attribute is
        /// written) are handled immediately.
        #[schemars(example = &"10m", example = &"1h 30m")]
        interval_s ("interval"): u32 as Length<SHORTEST_INTERVAL, DAY> = 15 * 60;

        /// How long `bedplate-boot.service` may delay a boot to restore ACS bits, VFs, and modules, from 5 seconds to
        /// 15 minutes. Half of the time is for drivers that are not ready. Then the boot continues, and the daemon does
        /// the rest.
        #[schemars(example = &"30s")]
        boot_timeout_s ("boot_timeout"): u32 as Length<SHORTEST_BOOT, LONGEST_BOOT> = 2 * 60;

        /// How long a boot waits for the host to converge, up to one day. Then units ordered after
        /// `bedplate-ready.target` start anyway, and the timeout is reported.
        #[schemars(example = &"3m")]
        ready_timeout_s ("ready_timeout"): u32 as Length<0, DAY> = 10 * 60;
    }
}
