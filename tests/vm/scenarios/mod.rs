//! What is tested, one file a subject. A scenario asserts what the guest's kernel and tools say, not what bedplate says.

mod acs;
mod acs_boot;
mod boot_states;
mod cmdline;
mod crash;
mod daemon;
mod guest;
mod iommu;
mod modules;
mod provision;
mod reboot;
mod revert;
mod snapshot;
mod sriov;
mod systemd_boot;
mod upkeep;

use bedplate_tests::lab::Scenario;

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    [
        provision::SCENARIOS,
        acs::SCENARIOS,
        sriov::SCENARIOS,
        modules::SCENARIOS,
        acs_boot::SCENARIOS,
        iommu::SCENARIOS,
        revert::SCENARIOS,
        snapshot::SCENARIOS,
        cmdline::SCENARIOS,
        boot_states::SCENARIOS,
        systemd_boot::SCENARIOS,
        crash::SCENARIOS,
        daemon::SCENARIOS,
        upkeep::SCENARIOS,
        reboot::SCENARIOS,
    ]
    .concat()
}
