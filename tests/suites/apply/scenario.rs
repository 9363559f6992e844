//! One machine with something of every sort to change, and a small planner for it. Like the real planner it reads the
//! machine and plans only the differences.

use std::collections::BTreeMap;

use bedplate_base::value::RegisterBits;
use bedplate_core::apply::{self, Answer, ApplyReport, Executor};
use bedplate_core::ledger::Ledger;
use bedplate_core::plan::{
    Action, Change, Check, Effect, FileContent, KindId, KindPlan, NextBoot, Plan, RebootNeed,
    ToolUndo,
};
use bedplate_core::revert::{self, RevertPlan, RevertReport};
use bedplate_core::setting::{SetConfigBits, WriteAttribute};
use bedplate_host::Reader;
use bedplate_tests::fake::tools::GRUB_CFG;
use bedplate_tests::fake::{Fuse, LiveReader, Machine};

pub const DEFAULT: &str = "/etc/default/grub";
pub const DROP_IN: &str = "/etc/default/grub.d/zz-bedplate.cfg";
pub const OLD_CONF: &str = "/etc/modprobe.d/old.conf";
pub const NEW_CONF: &str = "/etc/modprobe.d/zz-bedplate.conf";
pub const NUMVFS: &str = "/sys/bus/pci/devices/0000:18:00.0/sriov_numvfs";
pub const PORT: &str = "0000:17:00.0";
/// Byte offset of the fake port's ACS control register.
pub const ACS: u16 = 0x106;
pub const TOKEN: &str = "iommu=pt";

const DEFAULT_BEFORE: &str = "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet pci=realloc\"\n";
const DEFAULT_AFTER: &str = "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n";
const DROP_IN_AFTER: &str = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt\"\n";
const NEW_CONF_AFTER: &str = "options nvidia NVreg_X=1\n";

/// Every file to change, and its desired content; `None` = absent.
pub const WANTED: [(&str, Option<&str>); 4] = [
    (DEFAULT, Some(DEFAULT_AFTER)),
    (DROP_IN, Some(DROP_IN_AFTER)),
    (OLD_CONF, None),
    (NEW_CONF, Some(NEW_CONF_AFTER)),
];

pub fn machine() -> Machine {
    let mut machine = Machine::new();
    furnish(&mut machine);
    machine
}

/// Puts everything that is to change on a machine.
pub fn furnish(machine: &mut Machine) {
    machine.put_mode(DEFAULT, DEFAULT_BEFORE, 0o640);
    machine.put_mode(OLD_CONF, "blacklist nvidia\n", 0o600);
    machine.put("/boot/grub/.keep", "");
    let made = bedplate_tests::fake::tools::grub_cfg(machine.root());
    machine.put_mode(GRUB_CFG, &made, 0o444);
    let pf = "/sys/bus/pci/devices/0000:18:00.0";
    machine.put(&format!("{pf}/uevent"), "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1021\n");
    machine.put(&format!("{pf}/sriov_totalvfs"), "16\n");
    machine.put(&format!("{pf}/sriov_drivers_autoprobe"), "1\n");
    machine.put(NUMVFS, "0\n");
    machine.put("/sys/bus/pci/drivers/mlx5_core/bind", "");
    let mut config = vec![0_u8; 4096];
    config[usize::from(ACS)] = 0x1d;
    machine.put(&format!("/sys/bus/pci/devices/{PORT}/config"), config);
    machine
        .put(&format!("/sys/bus/pci/devices/{PORT}/uevent"), "PCI_CLASS=60400\nPCI_ID=1000:C030\n");
    machine.habits.hard_wired = 0x01;
}

pub fn content(text: &str) -> Option<FileContent> {
    Some(FileContent::new(text.as_bytes().to_vec()))
}

/// A change with these actions.
pub fn change(kind: KindId, id: &str, actions: Vec<Action>) -> Change {
    Change {
        id: format!("{kind}/{id}"),
        kind,
        subject: id.into(),
        items: Vec::new(),
        effect: Effect::NextBoot,
        actions,
        disrupts: Vec::new(),
        needs: Vec::new(),
        owns: None,
        deferred: None,
    }
}

/// One write of an attribute.
pub fn write(path: &str, before: &str, after: &str) -> Action {
    Action::WriteAttribute(WriteAttribute {
        path: path.into(),
        before: before.into(),
        after: after.into(),
        limit_s: 5,
    })
}

pub fn plan_of(changes: Vec<Change>) -> Plan {
    let body = KindPlan { changes, ..KindPlan::default() };
    Plan { profile: "test".into(), body, reboot: RebootNeed::None, next_boot: NextBoot::Sound }
}

pub fn update_grub() -> Action {
    Action::RunTool {
        argv: vec!["update-grub".into()],
        purpose: "make grub.cfg again".into(),
        touches: vec![GRUB_CFG.into()],
        undo: ToolUndo::Repeat,
        limit_s: 60,
    }
}

pub fn next_boot() -> Action {
    Action::Verify(Check::NextBoot {
        present: vec![TOKEN.into()],
        absent: vec!["pci".into()],
        before: None,
    })
}

/// The replacement of one file, if its content differs from `after`.
pub fn file(reader: &dyn Reader, path: &str, after: Option<&str>) -> Option<Action> {
    let before = reader.read(path).ok().map(FileContent::new);
    let after = after.and_then(content);
    (before != after).then(|| Action::ReplaceFile { path: path.into(), before, after })
}

/// Plans the changes that the machine needs in its current state.
pub fn plan(machine: &Machine, ledger: &Ledger) -> Plan {
    let reader = machine.reader();
    let mut changes = Vec::new();
    let mut boot: Vec<Action> =
        WANTED[..2].iter().filter_map(|(path, to)| file(&reader, path, *to)).collect();
    let owed = ledger.owed.iter().any(|tool| tool.kind == KindId::Cmdline);
    if !boot.is_empty() || owed || check(&boot_check(), &reader) != Answer::Holds {
        boot.extend([update_grub(), next_boot()]);
        let owns = Some(vec![TOKEN.to_owned()]);
        changes.push(Change { owns, ..change(KindId::Cmdline, "grub", boot) });
    }
    let conf: Vec<Action> =
        WANTED[2..].iter().filter_map(|(path, to)| file(&reader, path, *to)).collect();
    if !conf.is_empty() {
        changes.push(change(KindId::Modules, "modprobe.d", conf));
    }
    let module = "nvidia_peermem".to_owned();
    if check(&Check::ModuleLive { module: module.clone() }, &reader) != Answer::Holds {
        changes.push(change(KindId::Modules, "load", vec![Action::LoadModule { module }]));
    }
    changes.extend(vfs(machine));
    let acs = register(machine);
    if acs & 0x1c != 0 {
        changes.push(change(KindId::Acs, PORT, vec![clear_acs(acs)]));
    }
    plan_of(changes)
}

fn boot_check() -> Check {
    Check::NextBoot { present: vec![TOKEN.into()], absent: vec!["pci".into()], before: None }
}

fn vfs(machine: &Machine) -> Option<Change> {
    let now = machine.text(NUMVFS).trim().to_owned();
    let write = |before: &str, after: &str| {
        Action::WriteAttribute(WriteAttribute {
            path: NUMVFS.into(),
            before: before.into(),
            after: after.into(),
            limit_s: 5,
        })
    };
    let actions = match now.as_str() {
        "8" => return None,
        "0" => vec![write("0", "8")],
        other => vec![write(other, "0"), write("0", "8")],
    };
    Some(change(KindId::Sriov, "0000:18:00.0", actions))
}

pub fn clear_acs(before: u16) -> Action {
    Action::SetConfigBits(SetConfigBits {
        address: PORT.parse().unwrap(),
        offset: ACS,
        bits: RegisterBits { mask: 0x1c, value: 0 },
        before,
        register: "ACS control".into(),
    })
}

/// The fake port's ACS control register.
pub fn register(machine: &Machine) -> u16 {
    let config = std::fs::read(machine.at(&format!("/sys/bus/pci/devices/{PORT}/config"))).unwrap();
    u16::from_le_bytes([config[usize::from(ACS)], config[usize::from(ACS) + 1]])
}

/// Evaluates checks on the output of the fake tools.
pub fn check(check: &Check, reader: &dyn Reader) -> Answer {
    let holds = |so: bool, why: &str| if so { Answer::Holds } else { Answer::Not(why.to_owned()) };
    match check {
        Check::NextBoot { present, absent, .. } => {
            let text = reader.text(GRUB_CFG).unwrap_or_default();
            let right = present.iter().all(|token| text.contains(token.as_str()))
                && !absent.iter().any(|key| text.contains(&format!("{key}=")));
            holds(right, "the default boot entry does not carry what it should")
        }
        Check::ModuleLive { module } => {
            let live = reader.attribute(&format!("/sys/module/{module}/initstate"));
            holds(live.as_deref() == Ok("live"), "the module is not loaded")
        }
    }
}

pub fn ledger(machine: &Machine) -> Ledger {
    Ledger::load(&machine.reader()).expect("the ledger can be read")
}

/// Applies a plan.
pub fn run(machine: &Machine, plan: &Plan, fuse: &Fuse) -> ApplyReport {
    run_with(machine, plan, &mut machine.writer(fuse))
}

/// Applies a plan with the given writer.
pub fn run_with(
    machine: &Machine,
    plan: &Plan,
    writer: &mut dyn bedplate_host::Writer,
) -> ApplyReport {
    let reader: LiveReader = machine.reader();
    let mut ledger = ledger(machine);
    let executor = Executor { reader: &reader, writer, checker: &check, watch: &mut |_| {} };
    apply::apply(plan, &mut ledger, executor, jiff::Timestamp::UNIX_EPOCH)
}

/// Plans and applies.
pub fn apply(machine: &Machine, fuse: &Fuse) -> ApplyReport {
    let plan = plan(machine, &ledger(machine));
    run(machine, &plan, fuse)
}

/// Plans and runs a revert.
pub fn revert(machine: &Machine, fuse: &Fuse, force: bool) -> (RevertPlan, RevertReport) {
    revert_with(machine, &mut machine.writer(fuse), force)
}

/// Plans and runs a revert with the given writer.
pub fn revert_with(
    machine: &Machine,
    writer: &mut dyn bedplate_host::Writer,
    force: bool,
) -> (RevertPlan, RevertReport) {
    let reader = machine.reader();
    let mut ledger = ledger(machine);
    let plan = revert::plan(&ledger, &reader, writer, force);
    let now = jiff::Timestamp::UNIX_EPOCH;
    let report = revert::run(&plan, &mut ledger, &reader, writer, &mut |_| {}, now);
    (plan, report)
}

/// The contents of the files in [`WANTED`].
pub fn contents(machine: &Machine) -> BTreeMap<&'static str, Option<String>> {
    WANTED.iter().map(|(path, _)| (*path, std::fs::read_to_string(machine.at(path)).ok())).collect()
}

/// Asserts that files, boot configuration and hardware have converged, without temporary files or remaining changes.
pub fn assert_done(machine: &Machine, context: &str) {
    for (path, content) in contents(machine) {
        let wanted = WANTED.iter().find(|(wanted, _)| *wanted == path).unwrap().1;
        assert_eq!(content.as_deref(), wanted, "{context}: {path}");
    }
    assert_eq!(
        machine.text(GRUB_CFG),
        bedplate_tests::fake::tools::grub_cfg(machine.root()),
        "{context}"
    );
    assert_eq!(machine.text(NUMVFS), "8\n", "{context}");
    assert_eq!(register(machine), 0x01, "{context}");
    let ledger = ledger(machine);
    assert!(
        plan(machine, &ledger).body.changes.is_empty(),
        "{context}: {:?}",
        plan(machine, &ledger)
    );
    assert!(ledger.owed.is_empty(), "{context}: {:?}", ledger.owed);
    assert_eq!(ledger.owned[&KindId::Cmdline], [TOKEN], "{context}");
    assert!(
        ledger.files.values().all(|record| record.unfinished.is_none()),
        "{context}: {:?}",
        ledger.files
    );
    assert_eq!(
        bedplate_tests::fake::tree::leftovers(machine.root()),
        Vec::<String>::new(),
        "{context}"
    );
}
