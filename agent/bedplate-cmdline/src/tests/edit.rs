//! Edits of hand-made lines.

use bedplate_base::Arch;

use super::super::{ApplyError, CommandLine, EditError, LineDiff, LineError, MAX_LINE_BYTES};
use super::{edit_of, edited, edited_on, tokens};

fn refused(set: &[&str], absent: &[&str]) -> EditError {
    edit_of(set, absent).expect_err("makes no sense")
}

#[test]
fn appends_before_inits_arguments_and_keeps_the_rest() {
    assert_eq!(edited("ro  quiet\n", &["iommu=pt"], &[]), "ro  quiet iommu=pt\n");
    assert_eq!(edited("ro -- single", &["iommu=pt"], &[]), "ro iommu=pt -- single");
    assert_eq!(edited("-- single", &["iommu=pt"], &[]), "iommu=pt -- single");
    assert_eq!(edited("", &["iommu=pt", "quiet"], &[]), "iommu=pt quiet");
    assert_eq!(edited("  ro", &[], &["ro"]), "");
    assert_eq!(edited(" a\t b c", &["a=1"], &["b"]), " a=1 c");
}

#[test]
fn leaves_what_is_right_untouched() {
    let line = "ro \"iommu=pt\"  intel-iommu=on,sm_on\tpci=noaer,realloc=on,noats";
    assert_eq!(edited(line, &["iommu=pt", "intel_iommu=on", "pci=realloc"], &[]), line);
}

#[test]
fn replaces_scalars_in_place_once() {
    assert_eq!(edited("a isolcpus=1 b isolcpus=2 c", &["isolcpus=3"], &[]), "a isolcpus=3 b c");
    assert_eq!(edited("a isolcpus=3 b isolcpus=3 c", &["isolcpus=3"], &[]), "a isolcpus=3 b c");
    assert_eq!(edited("vfio-pci.ids=1:2", &["vfio_pci.ids=3:4"], &[]), "vfio_pci.ids=3:4");
    assert_eq!(edited("nosmt=force", &["nosmt"], &[]), "nosmt");
}

#[test]
fn does_not_take_a_part_of_a_name_for_the_name() {
    assert_eq!(edited("foo_iommu=pt", &["iommu=pt"], &[]), "foo_iommu=pt iommu=pt");
    assert_eq!(edited("intel_iommu=off", &["iommu=pt"], &[]), "intel_iommu=off iommu=pt");
}

#[test]
fn option_lists_keep_foreign_options() {
    assert_eq!(
        edited("intel_iommu=off,sm_on ro", &["intel_iommu=on"], &[]),
        "intel_iommu=on,sm_on ro"
    );
    assert_eq!(edited("intel_iommu=sm_on", &["intel_iommu=on"], &[]), "intel_iommu=sm_on,on");
    assert_eq!(
        edited("intel_iommu=off intel_iommu=igfx_off,off", &["intel_iommu=on"], &[]),
        "intel_iommu=on intel_iommu=igfx_off"
    );
    assert_eq!(
        edited("intel_iommu=on,sm_on", &["intel_iommu=off,sm_off"], &[]),
        "intel_iommu=off,sm_off"
    );
    assert_eq!(edited("amd_iommu=pgtbl_v2", &["amd_iommu=pgtbl_v1"], &[]), "amd_iommu=pgtbl_v1");
}

#[test]
fn passthrough_is_one_thing_in_two_spellings() {
    assert_eq!(edited("iommu.passthrough=1", &["iommu=pt"], &[]), "iommu.passthrough=1");
    assert_eq!(edited("iommu=soft,pt", &["iommu.passthrough=1"], &[]), "iommu=soft,pt");
    assert_eq!(edited("a iommu.passthrough=0 b", &["iommu=pt"], &[]), "a iommu=pt b");
    assert_eq!(edited("iommu=soft iommu.passthrough=0", &["iommu=pt"], &[]), "iommu=soft,pt");
    assert_eq!(edited("iommu=pt iommu.passthrough=0", &["iommu=pt"], &[]), "iommu=pt");
    assert_eq!(edited("a iommu=nopt b", &["iommu.passthrough=1"], &[]), "a iommu.passthrough=1 b");
    assert_eq!(
        edited("a iommu=nopt,soft b", &["iommu.passthrough=1"], &[]),
        "a iommu=soft iommu.passthrough=1 b"
    );
    assert_eq!(edited("iommu.passthrough=maybe", &["iommu=pt"], &[]), "iommu=pt");
}

#[test]
fn options_behind_usedac_are_not_read() {
    assert_eq!(edited("iommu=usedac,pt", &["iommu=pt"], &[]), "iommu=usedac iommu=pt");
    assert_eq!(edited("iommu=usedac", &["iommu=pt"], &[]), "iommu=usedac iommu=pt");
    assert_eq!(edited("iommu=soft iommu=usedac", &["iommu=pt"], &[]), "iommu=soft,pt iommu=usedac");
}

#[test]
fn arm_has_no_iommu_parameter() {
    assert_eq!(
        edited_on(Arch::Aarch64, "iommu=pt", &["iommu.passthrough=1"], &[]),
        "iommu=pt iommu.passthrough=1"
    );
}

#[test]
fn pci_becomes_one_argument() {
    assert_eq!(
        edited("pci=noaer ro pci=realloc=off,nomsi", &["pci=realloc"], &[]),
        "pci=noaer,realloc,nomsi ro"
    );
    assert_eq!(edited("pci=noaer ro", &["pci=realloc,noats"], &[]), "pci=noaer,realloc,noats ro");
    assert_eq!(
        edited("ro", &["pci=realloc", "quiet", "pci=noats"], &[]),
        "ro pci=realloc,noats quiet"
    );
    assert_eq!(edited("pci=a pci=b", &["quiet"], &[]), "pci=a pci=b quiet");
    assert_eq!(edited("pci=a,,realloc pci pci=b", &["pci=realloc"], &[]), "pci=a,realloc,b pci");
    assert_eq!(edited("pci=realloc,realloc=on", &["pci=realloc=on"], &[]), "pci=realloc=on");
}

#[test]
fn pci_suboptions_are_owned_one_by_one() {
    assert_eq!(
        edited("pci=config_acs=a;b,noaer,config_acs=c", &["pci=config_acs=d;e"], &[]),
        "pci=config_acs=d;e,noaer"
    );
    assert_eq!(
        edited("pci=pcie_bus_perf,noaer", &["pci=pcie_bus_safe"], &[]),
        "pci=pcie_bus_safe,noaer"
    );
    assert_eq!(edited("pci=realloc=off,noaer", &[], &["pci=realloc"]), "pci=noaer");
    assert_eq!(edited("pci=realloc=off,noaer", &[], &["pci=realloc=on"]), "pci=realloc=off,noaer");
    assert_eq!(edited("a pci=noats b", &[], &["pci=noats"]), "a b");
    assert_eq!(edited("a pci=noats pci=x b", &[], &["pci"]), "a b");
}

#[test]
fn sequences_are_owned_whole_and_in_order() {
    let set = ["hugepagesz=2M", "hugepages=5", "hugepagesz=1G", "hugepages=2"];
    assert_eq!(edited("ro", &set, &[]), "ro hugepagesz=2M hugepages=5 hugepagesz=1G hugepages=2");
    assert_eq!(
        edited("a hugepages=9 b hugepagesz=1G c", &set, &[]),
        "a hugepagesz=2M hugepages=5 hugepagesz=1G hugepages=2 b c"
    );
    let right = "hugepagesz=2M a hugepages=5 b hugepagesz=1G hugepages=2 -- x";
    assert_eq!(edited(right, &set, &[]), right);
    assert_eq!(
        edited("default_hugepagesz=2M hugepages=1", &["hugepages=4"], &[]),
        "default_hugepagesz=2M hugepages=4"
    );
    assert_eq!(
        edited(
            "default_hugepagesz=2M ro",
            &["default_hugepagesz=1G", "hugepagesz=1G", "hugepages=4"],
            &[]
        ),
        "default_hugepagesz=1G hugepagesz=1G hugepages=4 ro"
    );
    assert_eq!(
        edited("console=tty0", &["console=tty0", "console=ttyS0,115200"], &[]),
        "console=tty0 console=ttyS0,115200"
    );
}

#[test]
fn collections_grow_beside_what_is_there() {
    let set = ["modprobe.blacklist=nouveau"];
    assert_eq!(
        edited("modprobe.blacklist=a,b", &set, &[]),
        "modprobe.blacklist=a,b modprobe.blacklist=nouveau"
    );
    assert_eq!(edited("modprobe.blacklist=a,nouveau", &set, &[]), "modprobe.blacklist=a,nouveau");
    assert_eq!(
        edited("modprobe.blacklist=a-b", &["modprobe.blacklist=a_b"], &[]),
        "modprobe.blacklist=a-b"
    );
    assert_eq!(
        edited("modprobe.blacklist=a,b,a", &[], &["modprobe.blacklist=a"]),
        "modprobe.blacklist=b"
    );
    assert_eq!(
        edited("module_blacklist=a module_blacklist=b", &["module_blacklist=a"], &[]),
        "module_blacklist=a module_blacklist=b,a"
    );
    assert_eq!(edited("acpi_osi=x,y", &["acpi_osi=x"], &[]), "acpi_osi=x,y acpi_osi=x");
}

#[test]
fn absent_takes_exactly_what_it_names() {
    assert_eq!(edited("iommu=off iommu=pt", &[], &["iommu=off"]), "iommu=pt");
    assert_eq!(edited("intel_iommu=off,sm_on", &[], &["intel_iommu=off"]), "intel_iommu=sm_on");
    assert_eq!(edited("nomodeset a nomodeset=1", &[], &["nomodeset"]), "a");
    assert_eq!(edited("a=1 a=2 b", &[], &["a=1"]), "a=2 b");
    assert_eq!(edited("a -- nomodeset", &[], &["nomodeset"]), "a -- nomodeset");
    assert_eq!(edited("iommu.strict=y", &[], &["iommu.strict=1"]), "");
}

#[test]
fn nonsense_is_refused_with_both_names() {
    let contradiction = refused(&["intel_iommu=on", "intel-iommu=off"], &[]);
    assert!(matches!(contradiction, EditError::Contradiction { first, second }
        if first == "intel_iommu=on" && second == "intel-iommu=off"));
    assert!(matches!(
        refused(&["iommu=pt", "iommu.passthrough=0"], &[]),
        EditError::Contradiction { .. }
    ));
    assert!(matches!(
        refused(&["pci=realloc"], &["pci=realloc"]),
        EditError::WantedAndAbsent { .. }
    ));
    assert!(matches!(refused(&["pci=realloc"], &["pci"]), EditError::WantedAndAbsent { .. }));
    assert!(matches!(refused(&["intel_iommu"], &[]), EditError::NoOption { .. }));
    assert!(matches!(refused(&["pci=,"], &[]), EditError::NoOption { .. }));
    assert!(matches!(refused(&[], &["pci=,"]), EditError::NoOption { .. }));
    assert!(matches!(refused(&["iommu.strict=2"], &[]), EditError::NoTruthValue { .. }));
    assert!(matches!(refused(&["iommu.passthrough"], &[]), EditError::NoTruthValue { .. }));
}

#[test]
fn the_same_wish_twice_is_one_wish() {
    let edit = edit_of(&["iommu=pt", "iommu.passthrough=1"], &[]).expect("agree");
    assert_eq!(edit.wanted().len(), 1);
    assert_eq!(edit.wanted()[0].tokens(), ["iommu=pt", "iommu.passthrough=1"]);
}

#[test]
fn an_earlier_profiles_arguments_are_taken_back_part_by_part() {
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
fn what_comes_before_what_stays_cannot_be_appended() {
    let difference = |set: &[&str], old: &str, new: &str| {
        let edit = edit_of(set, &[]).expect("fine");
        let diff = edit.difference(&CommandLine::parse(old), &CommandLine::parse(new));
        (diff.removed.join(" "), diff.added.join(" "))
    };
    let set = ["console=tty0", "console=ttyS0"];
    let text = |text: &str| text.to_owned();
    assert_eq!(
        difference(&set, "console=tty0 a", "console=tty0 console=ttyS0 a"),
        (text(""), text("console=ttyS0"))
    );
    assert_eq!(
        difference(&set, "console=ttyS0 a", "console=tty0 console=ttyS0 a"),
        (text("console=ttyS0"), text("console=tty0 console=ttyS0"))
    );
    assert_eq!(
        difference(&set, "console=x console=tty0", "console=tty0 console=ttyS0"),
        (text("console=x"), text("console=ttyS0"))
    );
    // An unmanaged argument would stay last.
    assert_eq!(
        difference(
            &set,
            "console=tty0 console=ttyS0 console=x",
            "console=x console=tty0 console=ttyS0"
        ),
        (text("console=tty0 console=ttyS0"), text("console=tty0 console=ttyS0"))
    );
}

#[test]
fn what_may_stand_there_more_than_once_can_be_wanted_more_than_once() {
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
fn dangerous_lines_are_left_alone() {
    let edit = edit_of(&["iommu=pt"], &[]).expect("fine");
    let apply = |line: &str| edit.apply(&CommandLine::parse(line)).expect_err("not editable");
    let ApplyError::Line(LineError::Characters(open)) = apply("a=\"b c") else {
        panic!("another error")
    };
    assert!(open.contains("never closed"), "{open}");
    let full = "x".repeat(MAX_LINE_BYTES - 2);
    assert!(matches!(apply(&full), ApplyError::Line(LineError::TooLong { .. })));
    let odd = "pci=config_acs=\"a b,realloc=off\"";
    let edit = edit_of(&[], &["pci=config_acs"]).expect("fine");
    assert!(matches!(edit.apply(&CommandLine::parse(odd)), Err(ApplyError::Unwritable { .. })));
}

#[test]
fn bytes_that_are_no_text_are_not_written() {
    let edit = edit_of(&["iommu=pt"], &[]).expect("fine");
    let line = bedplate_base::lossless_text::decode(b"ro x=\xfc");
    let refused = edit.apply(&CommandLine::parse(&line)).expect_err("not editable");
    assert!(
        matches!(&refused, ApplyError::Line(LineError::Characters(why)) if why.starts_with("`x` holds bytes")),
        "{refused:?}"
    );
}

#[test]
fn tells_what_changed() {
    let parse = CommandLine::parse;
    let diff = LineDiff::between(&parse("a b a c"), &parse("a c d"));
    assert_eq!(diff, LineDiff { removed: tokens(&["b", "a"]), added: tokens(&["d"]) });
}
