//! PFs that others manage, that cannot be read, or that only the machine itself has.

use super::*;

#[test]
fn where_the_operator_is_bedplate_is_not() {
    let files = Files::new(&[("/etc/sriov-operator/pci/0000:24:00.0", "{}")]);
    let section = plan_on(&auto(2), &lab(), &files);
    assert_eq!((section.changes.len(), section.notes.len()), (0, 1));
    assert!(
        section.notes[0].subject.contains(PF)
            && section.notes[0].text.contains("/etc/sriov-operator")
    );

    let mut files = Files::default();
    files.denied.insert("/etc/sriov-operator".into());
    let section = plan_on(&auto(2), &lab(), &files);
    assert_eq!(
        (section.changes.len(), section.unknowns.len()),
        (0, 1),
        "not knowing is no leave to write"
    );

    let mut external = auto(2);
    external.managed = SriovManaged::External;
    let resolved = resolve(&external, &lab().facts());
    assert_eq!((resolved.vfs.len(), resolved.notes.len()), (0, 1));
}

#[test]
fn link_files_that_set_counts_are_pointed_out() {
    let files = Files::new(&[
        ("/etc/systemd/network/10-fabric.link", "[Link]\n SR-IOVVirtualFunctions=8\n"),
        ("/etc/systemd/network/20-other.link", "[Link]\n#SR-IOVVirtualFunctions=8\n"),
    ]);
    let notes = plan_on(&auto(2), &lab(), &files).notes;
    assert_eq!(
        notes.iter().map(|note| note.subject.as_str()).collect::<Vec<_>>(),
        ["/etc/systemd/network/10-fabric.link"]
    );
}

#[test]
fn counts_that_cannot_be_read_are_unknown() {
    let mut machine = lab();
    machine.sriov(PF).enabled = Reading::unknown("EIO");
    let section = plan_of(&auto(2), &machine);
    assert_eq!((section.changes.len(), section.unknowns.len()), (0, 1));
    machine.sriov(PF).total = Reading::unknown("EIO");
    let resolved = resolve(&auto(2), &machine.facts());
    assert_eq!((resolved.vfs.len(), resolved.unknowns.len()), (0, 1));
    let blind = facts(Reading::unknown("no /sys"));
    assert_eq!(resolve(&auto(2), &blind).unknowns.len(), 1);
}

#[test]
fn an_image_leaves_vfs_to_the_machine() {
    let image = Facts { host: HostKind::Image, ..facts(Reading::unknown("no /sys")) };
    let resolved = resolve(&auto(2), &image);
    assert_eq!((resolved.notes.len(), resolved.unknowns.len()), (1, 0));
    let known = Facts { host: HostKind::Image, ..lab().facts() };
    let section = plan_with(&auto(2), &known, &Files::default());
    assert!(the_change(&section).deferred.is_some());
}

#[test]
fn infiniband_vfs_want_guids() {
    let mut machine = lab();
    machine.get(PF).class = 0x020700;
    let section = plan_of(&auto(2), &machine);
    assert!(section.notes[0].text.contains("GUID"));
    the_change(&section);
}
