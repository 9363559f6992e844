//! Edits of hand-made lines.

use bedplate_base::Arch;

use super::super::{ApplyError, CommandLine, EditError, LineDiff, LineError, MAX_LINE_BYTES};
use super::{edit_of, edited, edited_on, rows, tokens};

fn refused(set: &[&str], absent: &[&str]) -> EditError {
    edit_of(set, absent).expect_err("makes no sense")
}

/// Lines before, arguments to set, arguments to remove, and lines after.
const EDITS: &str = r#"
    # Arguments are appended before init's.
    ro -- single | iommu=pt | | ro iommu=pt -- single
    -- single | iommu=pt | | iommu=pt -- single
    | iommu=pt quiet | | iommu=pt quiet
    # Scalars are replaced in place, once.
    a isolcpus=1 b isolcpus=2 c | isolcpus=3 | | a isolcpus=3 b c
    a isolcpus=3 b isolcpus=3 c | isolcpus=3 | | a isolcpus=3 b c
    vfio-pci.ids=1:2 | vfio_pci.ids=3:4 | | vfio_pci.ids=3:4
    nosmt=force | nosmt | | nosmt
    # A part of a name is not the name.
    foo_iommu=pt | iommu=pt | | foo_iommu=pt iommu=pt
    intel_iommu=off | iommu=pt | | intel_iommu=off iommu=pt
    # Option lists keep options of others.
    intel_iommu=off,sm_on ro | intel_iommu=on | | intel_iommu=on,sm_on ro
    intel_iommu=sm_on | intel_iommu=on | | intel_iommu=sm_on,on
    intel_iommu=off intel_iommu=igfx_off,off | intel_iommu=on | | intel_iommu=on intel_iommu=igfx_off
    intel_iommu=on,sm_on | intel_iommu=off,sm_off | | intel_iommu=off,sm_off
    amd_iommu=pgtbl_v2 | amd_iommu=pgtbl_v1 | | amd_iommu=pgtbl_v1
    # Passthrough is one thing in two spellings.
    iommu.passthrough=1 | iommu=pt | | iommu.passthrough=1
    iommu=soft,pt | iommu.passthrough=1 | | iommu=soft,pt
    a iommu.passthrough=0 b | iommu=pt | | a iommu=pt b
    iommu=soft iommu.passthrough=0 | iommu=pt | | iommu=soft,pt
    iommu=pt iommu.passthrough=0 | iommu=pt | | iommu=pt
    a iommu=nopt b | iommu.passthrough=1 | | a iommu.passthrough=1 b
    a iommu=nopt,soft b | iommu.passthrough=1 | | a iommu=soft iommu.passthrough=1 b
    iommu.passthrough=maybe | iommu=pt | | iommu=pt
    # Options behind usedac are not read.
    iommu=usedac,pt | iommu=pt | | iommu=usedac iommu=pt
    iommu=usedac | iommu=pt | | iommu=usedac iommu=pt
    iommu=soft iommu=usedac | iommu=pt | | iommu=soft,pt iommu=usedac
    # `pci` becomes one argument.
    pci=noaer ro pci=realloc=off,nomsi | pci=realloc | | pci=noaer,realloc,nomsi ro
    pci=noaer ro | pci=realloc,noats | | pci=noaer,realloc,noats ro
    ro | pci=realloc quiet pci=noats | | ro pci=realloc,noats quiet
    pci=a pci=b | quiet | | pci=a pci=b quiet
    pci=a,,realloc pci pci=b | pci=realloc | | pci=a,realloc,b pci
    pci=realloc,realloc=on | pci=realloc=on | | pci=realloc=on
    # Suboptions of `pci` are owned one by one.
    pci=config_acs=a;b,noaer,config_acs=c | pci=config_acs=d;e | | pci=config_acs=d;e,noaer
    pci=pcie_bus_perf,noaer | pci=pcie_bus_safe | | pci=pcie_bus_safe,noaer
    pci=realloc=off,noaer | | pci=realloc | pci=noaer
    pci=realloc=off,noaer | | pci=realloc=on | pci=realloc=off,noaer
    a pci=noats b | | pci=noats | a b
    a pci=noats pci=x b | | pci | a b
    # Sequences are owned whole and in order.
    ro | hugepagesz=2M hugepages=5 hugepagesz=1G hugepages=2 | | ro hugepagesz=2M hugepages=5 hugepagesz=1G hugepages=2
    a hugepages=9 b hugepagesz=1G c | hugepagesz=2M hugepages=5 hugepagesz=1G hugepages=2 | | a hugepagesz=2M hugepages=5 hugepagesz=1G hugepages=2 b c
    hugepagesz=2M a hugepages=5 b hugepagesz=1G hugepages=2 -- x | hugepagesz=2M hugepages=5 hugepagesz=1G hugepages=2 | | hugepagesz=2M a hugepages=5 b hugepagesz=1G hugepages=2 -- x
    default_hugepagesz=2M ro | default_hugepagesz=1G hugepagesz=1G hugepages=4 | | default_hugepagesz=1G hugepagesz=1G hugepages=4 ro
    default_hugepagesz=2M hugepages=1 | hugepages=4 | | default_hugepagesz=2M hugepages=4
    console=tty0 | console=tty0 console=ttyS0,115200 | | console=tty0 console=ttyS0,115200
    # Collections grow beside what is there.
    modprobe.blacklist=a,b | modprobe.blacklist=nouveau | | modprobe.blacklist=a,b modprobe.blacklist=nouveau
    modprobe.blacklist=a,nouveau | modprobe.blacklist=nouveau | | modprobe.blacklist=a,nouveau
    modprobe.blacklist=a-b | modprobe.blacklist=a_b | | modprobe.blacklist=a-b
    modprobe.blacklist=a,b,a | | modprobe.blacklist=a | modprobe.blacklist=b
    module_blacklist=a module_blacklist=b | module_blacklist=a | | module_blacklist=a module_blacklist=b,a
    acpi_osi=x,y | acpi_osi=x | | acpi_osi=x,y acpi_osi=x
    # What is absent is exactly what is named.
    iommu=off iommu=pt | | iommu=off | iommu=pt
    intel_iommu=off,sm_on | | intel_iommu=off | intel_iommu=sm_on
    nomodeset a nomodeset=1 | | nomodeset | a
    a=1 a=2 b | | a=1 | a=2 b
    a -- nomodeset | | nomodeset | a -- nomodeset
    iommu.strict=y | | iommu.strict=1 |
"#;

#[test]
fn edit_changes_only_owned_arguments() {
    for [before, set, absent, after] in rows(EDITS) {
        let [set, absent] = [set, absent].map(|all| all.split_whitespace().collect::<Vec<_>>());
        assert_eq!(edited(before, &set, &absent), after, "{before}: {set:?}, no {absent:?}");
    }
}

#[test]
fn edit_keeps_blanks() {
    assert_eq!(edited("ro  quiet\n", &["iommu=pt"], &[]), "ro  quiet iommu=pt\n");
    assert_eq!(edited("  ro", &[], &["ro"]), "");
    assert_eq!(edited(" a\t b c", &["a=1"], &["b"]), " a=1 c");
}

#[test]
fn satisfied_line_is_unchanged() {
    let line = "ro \"iommu=pt\"  intel-iommu=on,sm_on\tpci=noaer,realloc=on,noats";
    assert_eq!(edited(line, &["iommu=pt", "intel_iommu=on", "pci=realloc"], &[]), line);
}

#[test]
fn arm_ignores_iommu_parameter() {
    assert_eq!(
        edited_on(Arch::Aarch64, "iommu=pt", &["iommu.passthrough=1"], &[]),
        "iommu=pt iommu.passthrough=1"
    );
}

#[test]
fn contradiction_is_rejected_with_both_arguments() {
    let contradiction = refused(&["intel_iommu=on", "intel-iommu=off"], &[]);
    assert!(matches!(contradiction, EditError::Contradiction { first, second }
        if first == ["intel_iommu=on"] && second == ["intel-iommu=off"]));
    let refused = |set: &[&str], absent: &[&str]| match refused(set, absent) {
        EditError::Contradiction { .. } => "contradiction",
        EditError::WantedAndAbsent { .. } => "wanted and absent",
        EditError::NoOption { .. } => "no option",
        EditError::NoTruthValue { .. } => "no truth value",
    };
    assert_eq!(refused(&["iommu=pt", "iommu.passthrough=0"], &[]), "contradiction");
    assert_eq!(refused(&["pci=realloc"], &["pci=realloc"]), "wanted and absent");
    assert_eq!(refused(&["pci=realloc"], &["pci"]), "wanted and absent");
    assert_eq!(refused(&["intel_iommu"], &[]), "no option");
    assert_eq!(refused(&["pci=,"], &[]), "no option");
    assert_eq!(refused(&[], &["pci=,"]), "no option");
    assert_eq!(refused(&["iommu.strict=2"], &[]), "no truth value");
    assert_eq!(refused(&["iommu.passthrough"], &[]), "no truth value");
}

#[test]
fn equivalent_arguments_are_deduplicated() {
    let edit = edit_of(&["iommu=pt", "iommu.passthrough=1"], &[]).expect("agree");
    assert_eq!(edit.wanted().len(), 1);
    assert_eq!(edit.wanted()[0].tokens(), ["iommu=pt", "iommu.passthrough=1"]);
}

#[test]
fn disowned_arguments_are_returned_part_by_part() {
    let disowned =
        |now: &[&str], before: &[&str]| edit_of(now, &[]).expect("fine").disowned(&tokens(before));
    let pages = ["default_hugepagesz=1G", "hugepagesz=1G", "hugepages=16"];
    assert_eq!(disowned(&pages, &pages), [""; 0]);
    assert_eq!(disowned(&["hugepages=4"], &pages), ["default_hugepagesz=1G"]);
    assert_eq!(disowned(&[], &pages), pages);
    assert_eq!(disowned(&["pci=realloc=off"], &["pci=realloc,noats"]), ["pci=noats"]);
    assert_eq!(disowned(&["iommu.passthrough=0"], &["iommu=pt", "iommu=soft,pt"]), ["iommu=soft"]);
    assert_eq!(disowned(&["video=VGA-1:d"], &["video=VGA-1:e"]), [""; 0]);
    assert_eq!(disowned(&["video=VGA-1:d"], &["video=HDMI-A-1:d"]), ["video=HDMI-A-1:d"]);
    assert_eq!(disowned(&["quiet"], &["iommu"]), [""; 0], "never written");
}

#[test]
fn sequence_is_replaced_if_appending_breaks_order() {
    let edit = edit_of(&["console=tty0", "console=ttyS0"], &[]).expect("fine");
    // An unmanaged argument would stay last.
    let table = "
        console=tty0 a | console=tty0 console=ttyS0 a | | console=ttyS0
        console=ttyS0 a | console=tty0 console=ttyS0 a | console=ttyS0 | console=tty0 console=ttyS0
        console=x console=tty0 | console=tty0 console=ttyS0 | console=x | console=ttyS0
        console=tty0 console=ttyS0 console=x | console=x console=tty0 console=ttyS0 | console=tty0 console=ttyS0 | console=tty0 console=ttyS0
    ";
    for [old, new, removed, added] in rows(table) {
        let diff = edit.difference(&CommandLine::parse(old), &CommandLine::parse(new));
        assert_eq!((diff.removed.join(" "), diff.added.join(" ")), (removed.into(), added.into()));
    }
}

#[test]
fn repeatable_parameters_can_be_set_twice() {
    for [one, other] in [
        ["video=VGA-1:d", "video=VGA-2:d"],
        ["dyndbg=\"file a +p\"", "dyndbg=\"func b -p\""],
        ["mce=no_cmci", "mce=ignore_ce"],
        ["crashkernel=512M,high", "crashkernel=128M,low"],
        ["rd.luks.name=a=b", "rd.luks.name=c=d"],
        ["cgroup_disable=memory", "cgroup_disable=pids"],
        ["ip=eth0:dhcp", "ip=eth1:dhcp"],
    ] {
        assert_eq!(edited("ro", &[one, other], &[]), format!("ro {one} {other}"));
    }
    assert!(matches!(refused(&["root=a", "root=b"], &[]), EditError::Contradiction { .. }));
}

#[test]
fn unsafe_line_is_rejected() {
    let edit = edit_of(&["iommu=pt"], &[]).expect("fine");
    let apply = |line: &str| edit.apply(&CommandLine::parse(line)).expect_err("not editable");
    let ApplyError::Line(LineError::Characters(open)) = apply("a=\"b c") else {
        panic!("another error")
    };
    assert!(open.contains("unclosed double quote"), "{open}");
    let full = "x".repeat(MAX_LINE_BYTES - 2);
    assert!(matches!(apply(&full), ApplyError::Line(LineError::TooLong { .. })));
    let odd = "pci=config_acs=\"a b,realloc=off\"";
    let edit = edit_of(&[], &["pci=config_acs"]).expect("fine");
    assert!(matches!(edit.apply(&CommandLine::parse(odd)), Err(ApplyError::Unwritable { .. })));
}

#[test]
fn line_with_invalid_utf8_is_rejected() {
    let edit = edit_of(&["iommu=pt"], &[]).expect("fine");
    let line = bedplate_base::lossless_text::decode(b"ro x=\xfc");
    let refused = edit.apply(&CommandLine::parse(&line)).expect_err("not editable");
    assert!(
        matches!(&refused, ApplyError::Line(LineError::Characters(why)) if why.starts_with("`x` has bytes")),
        "{refused:?}"
    );
}

#[test]
fn diff_lists_removed_and_added() {
    let parse = CommandLine::parse;
    let diff = LineDiff::between(&parse("a b a c"), &parse("a c d"));
    assert_eq!(diff, LineDiff { removed: tokens(&["b", "a"]), added: tokens(&["d"]) });
}
