//! Arguments that only the default entry has are never lost silently.

use crate::engine;
use crate::plan::KindPlan;
use crate::profile::{LayerText, load, shipped};
use bedplate_host::snapshot::{Node, Snapshot};
use bedplate_testhosts::HostSpec;

const NEEDED: &str = "rootwait ip=dhcp netroot=iscsi:10.0.0.1::::iqn luks.uuid=luks-5";
const ROOT: &str = "root=UUID=6a4d3b2c-1f0e-4d5c-8b7a-990011223344 ro";

fn host(loader: &str, cmdline: &str, configuration: (&str, &str)) -> Snapshot {
    let text = format!(
        "machine = 'plain'\nkernel = '6.8.0-45-generic'\nloader = '{loader}'\ncmdline = '{cmdline}'"
    );
    let mut host = HostSpec::from_toml(&text).unwrap().build();
    let (path, text) = configuration;
    host.insert(path, Node::File(text.into()));
    host.complete();
    host
}

fn plan(host: &Snapshot, cmdline: &str) -> KindPlan {
    let text = format!("schema = 1\nname = 'case'\n[cmdline]\n{cmdline}\n");
    let loaded = load(&[LayerText { path: "p.toml", text: &text }], shipped()).unwrap();
    engine::prepare_loaded(host, loaded).unwrap().plan.body
}

fn assert_blocked(plan: &KindPlan, lost: &str) {
    assert!(plan.changes.is_empty(), "{plan:?}");
    let blocker = plan.blockers.iter().find(|one| one.reason.contains(lost)).expect(lost);
    assert!(blocker.fix.contains("these arguments"), "{blocker:?}");
}

fn assert_planned(plan: &KindPlan) {
    assert_eq!(plan.changes.len(), 1, "{plan:?}");
    assert!(plan.blockers.is_empty(), "{plan:?}");
}

/// Drop-in of Debian's cloud images with these arguments.
fn grub(arguments: &str) -> (&'static str, String) {
    let text = format!("GRUB_CMDLINE_LINUX_DEFAULT=\"{arguments}\"\n");
    ("/etc/default/grub.d/50-cloudimg-settings.cfg", text)
}

#[test]
fn systemd_boot_entry_keeps_arguments_missing_in_file() {
    let file = |text: &str| format!("{text}\n");
    let cmdline = "/etc/kernel/cmdline";
    let entry = format!("quiet {NEEDED}");
    let lacks = file(&format!("{ROOT} console=ttyS0 quiet"));
    let loses = |wanted: &str| plan(&host("systemd-boot", &entry, (cmdline, &lacks)), wanted);
    assert_blocked(&loses("args = ['nosmt']"), NEEDED);
    let rest = NEEDED.strip_prefix("rootwait ").unwrap();
    assert_blocked(&loses("args = ['nosmt']\nabsent = ['rootwait']"), rest);
    let whole = file(&format!("{ROOT} console=ttyS0 quiet {NEEDED}"));
    assert_planned(&plan(&host("systemd-boot", &entry, (cmdline, &whole)), "args = ['nosmt']"));
    // Added by kernel-install, taken out by the profile, or replaced by it.
    for (own, wanted) in [
        ("systemd.machine_id=0123", "args = ['nosmt']"),
        ("initrd=/x", "args = ['nosmt']"),
        ("site=a", "args = ['nosmt']\nabsent = ['site']"),
        ("mitigations=off", "args = ['mitigations=auto', 'nosmt']"),
        ("iommu.passthrough=1", "args = ['iommu=pt', 'nosmt']"),
    ] {
        let entry = format!("quiet {own}");
        let planned = plan(&host("systemd-boot", &entry, (cmdline, &lacks)), wanted);
        assert!(planned.blockers.is_empty(), "{own}: {:?}", planned.blockers);
    }
}

#[test]
fn grub_entry_keeps_arguments_for_its_root() {
    let entry = format!("quiet {NEEDED}");
    let (path, text) = grub("quiet");
    let mut bare = host("debian", &entry, (path, &text));
    bare.insert("/etc/default/grub", Node::File("GRUB_CMDLINE_LINUX=\"\"\n".into()));
    assert_blocked(&plan(&bare, "args = ['nosmt']"), "rootwait ip=dhcp netroot=");
    // An argument that an operator removed from the configuration is dropped, with a note.
    let mut taken = host("debian", "quiet site=a", (path, &grub("console=tty1 console=ttyS0").1));
    taken.insert("/etc/default/grub", Node::File("GRUB_CMDLINE_LINUX=\"quiet\"\n".into()));
    let planned = plan(&taken, "args = ['nosmt']");
    assert_planned(&planned);
    assert!(planned.notes.iter().any(|note| note.text.contains("`site=a`")), "{planned:?}");
}

#[test]
fn unevaluable_configuration_refuses_nothing() {
    let (path, text) = grub("$(cat /etc/arguments)");
    let host = host("debian", NEEDED, (path, &text));
    let planned = plan(&host, "args = ['nosmt']");
    assert_planned(&planned);
    assert!(
        !planned.notes.iter().any(|note| note.text.contains("only the default")),
        "{planned:?}"
    );
}

#[test]
fn generated_entry_has_no_extra_arguments() {
    for loader in ["debian", "suse", "rhel8", "rhel9", "systemd-boot", "rpm-ostree"] {
        let host = host(loader, "site=a rd.luks.uuid=b console=ttyS1", ("/etc/hostname", "node\n"));
        let planned = plan(&host, "args = ['nosmt']");
        assert_planned(&planned);
        let noted = planned.notes.iter().any(|note| note.text.contains("only the default"));
        assert!(!noted, "{loader}: {:?}", planned.notes);
    }
}
