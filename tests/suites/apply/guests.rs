//! `revert` does not disable redirect again on ports with a VM-assigned function below them, and uses the current
//! assignment.

use std::collections::BTreeMap;

use bedplate_core::apply::{self, Executor};
use bedplate_core::engine::{self, observe};
use bedplate_core::ledger::Ledger;
use bedplate_core::plan::Check;
use bedplate_core::profile::{LayerText, load, shipped};
use bedplate_facts::Depth;
use bedplate_testhosts::{HostSpec, write_tree};
use bedplate_tests::fake::{Fuse, Machine};

use crate::scenario::{ledger, revert};

/// A GPU and a NIC with ATS below one switch, redirect disabled on its ports. For a guest, bedplate enables it.
const HOST: &str = r#"
machine = "bare"
acs = false
pci = [
  { at = "0000:16:00.0", is = "root-port" },
  { at = "0000:17:00.0", is = "upstream", under = "0000:16:00.0" },
  { at = "0000:18:00.0", is = "downstream", under = "0000:17:00.0" },
  { at = "0000:18:01.0", is = "downstream", under = "0000:17:00.0" },
  { at = "0000:19:00.0", is = "gpu", under = "0000:18:00.0" },
  { at = "0000:1a:00.0", is = "nic", under = "0000:18:01.0", ats = true },
]
"#;
const PROFILE: &str = "schema = 1\nname = \"t\"\n[acs]\npolicy = \"direct-p2p\"\nguests = true\npersistence = \"live\"\n";
const GPU: &str = "/sys/bus/pci/devices/0000:19:00.0";
const ABOVE_THE_GPU: [&str; 2] = ["0000:16:00.0", "0000:18:00.0"];

/// The machine, and the ACS control of its ports before bedplate changed it.
fn closed() -> (Machine, BTreeMap<String, u16>) {
    let machine = Machine::new();
    write_tree(&HostSpec::from_toml(HOST).unwrap().build(), machine.root()).unwrap();
    let open = ports(&machine);
    let profile =
        load(&[LayerText { path: "profile.toml", text: PROFILE }], shipped()).unwrap().profile;
    let (reader, mut writer) = (machine.reader(), machine.writer(&Fuse::none()));
    let facts = observe(&reader, Depth::Plan);
    let mut ledger = Ledger::load(&reader).unwrap();
    let plan = engine::plan(&profile, &facts, &reader, &ledger).plan;
    let check = |check: &Check, reader: &dyn bedplate_host::Reader| {
        bedplate_core::readback::check(reader, &facts, check)
    };
    let executor =
        Executor { reader: &reader, writer: &mut writer, checker: &check, watch: &mut |_| {} };
    let report = apply::apply(&plan, &mut ledger, executor, jiff::Timestamp::UNIX_EPOCH);
    assert!(report.succeeded() && plan.body.blockers.is_empty(), "{plan:?} {report:?}");
    assert!(ports(&machine).values().all(|control| control & 0x1d == 0x1d), "{plan:?}");
    (machine, open)
}

/// ACS control of the ports that have it.
fn ports(machine: &Machine) -> BTreeMap<String, u16> {
    let facts = observe(&machine.reader(), Depth::Plan);
    let tree = facts.pci.known().unwrap();
    let control = |f: &bedplate_facts::pci::Function| Some(f.acs.known()?.control.0);
    tree.functions.iter().filter_map(|(at, f)| Some((at.to_string(), control(f)?))).collect()
}

fn bind(machine: &Machine, driver: &str) {
    machine.put(
        &format!("{GPU}/uevent"),
        format!("DRIVER={driver}\nPCI_CLASS=30200\nPCI_ID=10DE:2330\n"),
    );
}

#[test]
fn ports_above_a_guests_function_are_reverted_only_by_force() {
    let (machine, open) = closed();
    let closed = ports(&machine);
    bind(&machine, "vfio-pci");
    let (plan, report) = revert(&machine, &Fuse::none(), false);
    assert!(report.succeeded(), "{report:?}");
    let refused: Vec<&str> = plan.refused.iter().map(|refused| refused.subject.as_str()).collect();
    assert_eq!(refused, ABOVE_THE_GPU.map(|port| format!("ACS control of {port}")));
    for refused in &plan.refused {
        assert!(refused.reason.contains("VFIO uses 0000:19:00.0 below it"), "{refused:?}");
        assert!(refused.fix.contains("stop the VM"), "{refused:?}");
    }
    let now = ports(&machine);
    for port in ABOVE_THE_GPU {
        assert_eq!(now[port], closed[port], "{port}");
    }
    assert_eq!(now["0000:18:01.0"], open["0000:18:01.0"], "no guest below that one");
    assert_eq!(ledger(&machine).registers.len(), ABOVE_THE_GPU.len(), "they are still to go back");

    let (plan, _) = revert(&machine, &Fuse::none(), true);
    assert!(plan.refused.is_empty(), "{plan:?}");
    assert_eq!(ports(&machine), open);
}

#[test]
fn ports_are_reverted_once_the_guest_is_gone() {
    let (machine, open) = closed();
    bind(&machine, "vfio-pci");
    assert_eq!(revert(&machine, &Fuse::none(), false).0.refused.len(), ABOVE_THE_GPU.len());
    bind(&machine, "nvidia");
    assert!(revert(&machine, &Fuse::none(), false).0.refused.is_empty());
    assert_eq!(ports(&machine), open);
}
