//! Scenarios, one file per subject. A scenario asserts the state that the guest's kernel and tools report, not
//! bedplate's reports.

mod acs;
mod acs_boot;
mod arm;
mod boot_entry;
mod boot_states;
mod cmdline;
mod confined;
mod container;
mod crash;
mod daemon;
mod fat;
mod guest;
mod hold;
mod hugepages;
mod image;
mod iommu;
mod limits;
mod modules;
mod packages;
mod pcie;
mod provision;
mod reboot;
mod revert;
mod services;
mod session;
mod snapshot;
mod sriov;
mod systemd_boot;
mod upkeep;
mod verify;
mod vf;

use bedplate_tests::lab::Scenario;

/// Scenarios for CI and `./tests/run --vm-core`: the most telling one of each area.
const CORE: [&str; 8] = [
    "provision::from_zero",
    "cmdline::values_duplicates_and_removal",
    "acs_boot::config_acs",
    "sriov::counts_and_users",
    "crash::three_power_cuts",
    "revert::after_two_changes",
    "daemon::life",
    "confined::promises",
];

/// Returns the scenarios to run: all, or [`CORE`] if `BEDPLATE_VM_CORE` is set.
///
/// # Errors
/// [`CORE`] names a missing scenario: a renamed one would silently drop out of CI.
pub fn chosen() -> Result<Vec<Scenario>, String> {
    let mut scenarios = all();
    if let Some(unknown) = CORE.iter().find(|name| !scenarios.iter().any(|row| row.0 == **name)) {
        return Err(format!("{unknown}, one of the core, is no scenario: see CORE in {}", file!()));
    }
    if std::env::var_os("BEDPLATE_VM_CORE").is_some() {
        scenarios.retain(|row| CORE.contains(&row.0));
    }
    Ok(scenarios)
}

fn all() -> Vec<Scenario> {
    [
        provision::SCENARIOS,
        image::SCENARIOS,
        acs::SCENARIOS,
        hugepages::SCENARIOS,
        limits::SCENARIOS,
        pcie::SCENARIOS,
        sriov::SCENARIOS,
        vf::SCENARIOS,
        modules::SCENARIOS,
        acs_boot::SCENARIOS,
        iommu::SCENARIOS,
        revert::SCENARIOS,
        snapshot::SCENARIOS,
        verify::SCENARIOS,
        container::SCENARIOS,
        cmdline::SCENARIOS,
        boot_states::SCENARIOS,
        boot_entry::SCENARIOS,
        systemd_boot::SCENARIOS,
        crash::SCENARIOS,
        fat::SCENARIOS,
        daemon::SCENARIOS,
        confined::SCENARIOS,
        upkeep::SCENARIOS,
        reboot::SCENARIOS,
        hold::SCENARIOS,
        services::SCENARIOS,
        session::SCENARIOS,
        packages::SCENARIOS,
        arm::SCENARIOS,
    ]
    .concat()
}
