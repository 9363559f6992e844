//! From a fresh node to a provisioned one.

use bedplate_tests::lab::machine::BOOKWORM;
use bedplate_tests::lab::{Case, Result, Scenario};

pub const SCENARIOS: &[Scenario] = &[("provision::from_zero", from_zero)];

fn from_zero(case: &mut Case) -> Result<()> {
    let node = case.node(BOOKWORM)?;
    eprintln!("{}", node.ok("bedplate plan; bedplate inspect; lspci -tv; cat /proc/cmdline; ls -R /etc/default; uptime; date; ls /sys/class/net; systemctl --failed")?);
    node.reboot()?;
    node.cold_cycle()?;
    Ok(())
}
