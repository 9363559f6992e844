//! PFs that other tools manage, that cannot be read, or that only the machine itself has.

use super::*;

#[test]
fn skips_nodes_managed_by_sriov_operator() {
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
fn link_files_with_vf_counts_are_noted() {
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
fn unreadable_counts_are_unknown() {
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
fn image_defers_vfs_to_the_machine() {
    let image = Facts { host: HostKind::Image, ..facts(Reading::unknown("no /sys")) };
    let resolved = resolve(&auto(2), &image);
    assert_eq!((resolved.notes.len(), resolved.unknowns.len()), (1, 0));
    let known = Facts { host: HostKind::Image, ..lab().facts() };
    let section = plan_with(&auto(2), &known, &Files::default());
    assert!(the_change(&section).deferred.is_some());
}

#[test]
fn infiniband_vfs_without_guids_are_noted() {
    let mut machine = lab();
    machine.get(PF).class = 0x020700;
    let section = plan_of(&auto(2), &machine);
    assert!(section.notes[0].text.contains("GUID"));
    the_change(&section);
}
