//! Healthy hosts are sound, a file that is proved missing is a fault, and a file that cannot be located is unknown.

mod next_drivers;

use super::*;
use crate::engine;
use crate::kind::cmdline::mounts::{FSTAB, MOUNTINFO};
use bedplate_facts::Depth;
use bedplate_host::snapshot::{Node, Snapshot};
use bedplate_testhosts::HostSpec;
use bedplate_testhosts::fixture::unified_image;

const KERNEL: &str = "6.8.0-45-generic";
const ROOT: &str = "root=UUID=6a4d3b2c-1f0e-4d5c-8b7a-990011223344 ro";
const ON_ROOT: &str = "29 1 8:2 / / rw - ext4 /dev/sda2 rw\n";
const ON_BOOT: &str = "40 29 8:1 / /boot rw - ext4 /dev/sda1 rw\n";

/// Fake host that a test changes before the evaluation.
struct Case(Snapshot);

impl Case {
    fn new(description: &str) -> Case {
        let text = format!("machine = 'plain'\nkernel = '{KERNEL}'\n{description}");
        Case(HostSpec::from_toml(&text).unwrap().build())
    }

    /// Debian host with this entry in its menu.
    fn menu(entry: &str) -> Case {
        let menu = format!("set default=\"0\"\nmenuentry 'Linux' --id a {{\n{entry}\n}}\n");
        Case::new("").file("/boot/grub/grub.cfg", &menu)
    }

    fn node(mut self, path: &str, node: Node) -> Case {
        self.0.insert(path, node);
        self
    }

    fn file(self, path: &str, text: &str) -> Case {
        self.node(path, Node::File(text.into()))
    }

    fn link(self, path: &str, target: &str) -> Case {
        self.node(path, Node::Link(target.into()))
    }

    fn without(mut self, path: &str) -> Case {
        self.0.remove(path);
        self
    }

    fn running(self, line: &str) -> Case {
        self.file("/proc/cmdline", line)
    }

    /// Sets `ramdisk_size`, as the boot loader passes it.
    fn had_initrd(self, had: bool) -> Case {
        let mut bytes = vec![0; RAMDISK_SIZE.end];
        bytes[RAMDISK_SIZE.start] = u8::from(had);
        self.node(BOOT_PARAMS, Node::File(bytes))
    }

    /// Mounts the device of the demo's menu at /.
    fn mapped(self) -> Case {
        self.file(MOUNTINFO, ON_ROOT)
            .link("/dev/disk/by-uuid/6a4d3b2c", "../../sda2")
            .node("/dev/sda2", Node::Present)
    }

    fn judge(mut self) -> Soundness {
        self.0.complete();
        let facts = engine::observe(&self.0, Depth::Plan);
        soundness(&self.0, &facts)
    }
}

fn assert_sound(name: &str, case: Case) {
    assert_eq!(case.judge(), Soundness::default(), "{name}");
}

fn assert_fault(name: &str, case: Case, part: &str) {
    let found = case.judge();
    assert!(found.faults.iter().any(|fault| fault.reason.contains(part)), "{name}: {found:?}");
    assert!(found.faults.iter().all(|fault| !fault.fix.is_empty()), "{name}: {found:?}");
}

fn assert_unknown(name: &str, case: Case, part: &str) {
    let found = case.judge();
    assert!(found.faults.is_empty(), "{name}: {found:?}");
    assert!(found.unknown.iter().any(|why| why.contains(part)), "{name}: {found:?}");
}

fn linux(path: &str, root: &str) -> String {
    format!("\tlinux\t{path}-{KERNEL} {root}")
}

fn initrd(path: &str) -> String {
    format!("\tinitrd\t{path}-{KERNEL}")
}

#[test]
fn every_loader_as_installed_is_sound() {
    for loader in ["debian", "rhel9", "rhel8", "suse", "systemd-boot", "rpm-ostree", "bootc"] {
        assert_sound(loader, Case::new(&format!("loader = '{loader}'")));
    }
    let path = format!("/boot/efi/EFI/Linux/00000000000000000000000000000000-{KERNEL}.efi");
    let case = Case::new("loader = 'uki'").node(&path, Node::File(unified_image(ROOT)));
    assert_sound("uki", case);
    assert_sound("debian, device known", Case::new("").mapped());
}

#[test]
fn separate_boot_partition_is_sound() {
    let search = "\tsearch --no-floppy --fs-uuid --set=root aa";
    let entry = format!("{search}\n{}\n{}", linux("/vmlinuz", ROOT), initrd("/initrd.img"));
    let mounts = format!("{ON_ROOT}{ON_BOOT}");
    let case = Case::menu(&entry)
        .file(MOUNTINFO, &mounts)
        .file(FSTAB, "UUID=aa /boot ext4 defaults 0 2\n")
        .link("/dev/disk/by-uuid/aa", "../../sda1")
        .node("/dev/sda1", Node::Present);
    assert_sound("mounted", case);
    let case = Case::menu(&entry).file(FSTAB, "UUID=aa /boot ext4 defaults 0 2\n");
    let case = case.file(MOUNTINFO, ON_ROOT);
    assert_unknown("not mounted", case, "/boot is not mounted");
}

#[test]
fn btrfs_subvolumes_are_sound() {
    let entry = |sub: &str| {
        format!(
            "{}\n{}",
            linux(&format!("/{sub}/boot/vmlinuz"), ROOT),
            initrd(&format!("/{sub}/boot/initrd.img"))
        )
    };
    let mounts = "29 1 0:28 /@ / rw - btrfs /dev/sda2 rw,subvol=/@\n";
    assert_sound("mounted", Case::menu(&entry("@")).file(MOUNTINFO, mounts));
    assert_sound("no mounts known", Case::menu(&entry("@rootfs")));
    let gone = Case::menu(&entry("@")).file(MOUNTINFO, mounts);
    let gone = gone.without(&format!("/boot/initrd.img-{KERNEL}"));
    assert_fault("initrd gone", gone, "/boot/initrd.img");
    let other = Case::menu(&entry("other")).file(MOUNTINFO, mounts);
    assert_unknown("another subvolume", other, "is not mounted here");
}

#[test]
fn zfs_dataset_is_found_or_unknown() {
    let entry = |set: &str| {
        format!(
            "{}\n{}",
            linux(&format!("/BOOT/{set}@/vmlinuz"), ROOT),
            initrd(&format!("/BOOT/{set}@/initrd.img"))
        )
    };
    let mounts =
        "29 1 0:28 / / rw - zfs rpool/ROOT/u rw\n40 29 0:30 / /boot rw - zfs bpool/BOOT/u rw\n";
    assert_sound("mounted", Case::menu(&entry("u")).file(MOUNTINFO, mounts));
    assert_unknown(
        "another",
        Case::menu(&entry("old")).file(MOUNTINFO, mounts),
        "is not mounted here",
    );
}

#[test]
fn kernel_built_for_no_initrd_is_sound() {
    for root in ["root=/dev/vda2", "root=PARTUUID=0123-02", "root=/dev/nvme0n1p2"] {
        let case = Case::menu(&linux("/boot/vmlinuz", root))
            .without(&format!("/boot/initrd.img-{KERNEL}"))
            .running(&format!("BOOT_IMAGE=/boot/vmlinuz-{KERNEL} {root} ro"));
        assert_sound(root, case);
    }
    // The package's initrd exists and is never loaded.
    let root = "root=PARTUUID=0123-02 ro";
    let case = Case::menu(&linux("/boot/vmlinuz", root)).had_initrd(false).running(root);
    assert_sound("booted without one", case);
    let entry = linux("/boot/vmlinuz", &format!("{root} panic=-1"));
    assert_sound("falls back", Case::menu(&entry).running(root));
    // Built into the image.
    let case = Case::menu(&linux("/boot/vmlinuz", ROOT))
        .had_initrd(false)
        .running(&format!("BOOT_IMAGE=/boot/vmlinuz-{KERNEL} {ROOT}"));
    assert_sound("built in", case);
}

#[test]
fn common_entry_forms_are_sound() {
    let lvm = "root=/dev/mapper/vg-root ro";
    let entry = format!("{}\n{}", linux("/boot/vmlinuz", lvm), initrd("/boot/initrd.img"));
    assert_sound("LVM", Case::menu(&entry).running(lvm));
    let entry = format!(
        "{}\n\tinitrd\t/boot/intel-ucode.img /boot/initrd.img-{KERNEL}",
        linux("/boot/vmlinuz", ROOT)
    );
    assert_sound("microcode", Case::menu(&entry).file("/boot/intel-ucode.img", "x"));
    let entry = format!("\tlinux /boot/vmlinuz {ROOT}\n\tinitrd /boot/initrd.img");
    let case = Case::menu(&entry)
        .link("/boot/vmlinuz", &format!("vmlinuz-{KERNEL}"))
        .link("/boot/initrd.img", &format!("initrd.img-{KERNEL}"));
    assert_sound("links", case);
    let entry = format!("{}\n{}", linux("/boot/vmlinuz", ROOT), initrd("/boot/initrd.img"));
    let memtest = "\n}\nmenuentry 'memtest' {\n\tlinux /boot/memtest86+x64.bin";
    assert_sound("memtest", Case::menu(&format!("{entry}{memtest}")));
    assert_sound("no link to /usr/lib", Case::menu(&entry).without("/lib"));
}

#[test]
fn missing_or_empty_files_are_faults() {
    let (image, initrd) = (format!("/boot/vmlinuz-{KERNEL}"), format!("/boot/initrd.img-{KERNEL}"));
    for path in [&image, &initrd] {
        assert_fault("missing", Case::new("").mapped().without(path), "is missing");
        assert_fault("empty", Case::new("").mapped().file(path, ""), "is empty");
        assert_fault("zeros", Case::new("").mapped().file(path, &"\0".repeat(9000)), "zeros only");
        // With an unknown device, a file that is not found may be elsewhere.
        assert_unknown("device unknown", Case::new("").without(path), "is not mounted here");
    }
    let modules = format!("/usr/lib/modules/{KERNEL}");
    assert_fault("modules", Case::new("").without(&modules), "missing or empty");
    let empty = Case::new("").without(&modules).node(&modules, Node::Dir(None));
    assert_fault("no modules", empty, "missing or empty");
    let monolithic = Case::new("").without(&modules).file("/proc/modules", "");
    assert_sound("a kernel without modules", monolithic);
    for loader in ["systemd-boot", "rhel9"] {
        let path = match loader {
            "rhel9" => format!("/boot/initramfs-{KERNEL}.img"),
            _ => format!("/boot/efi/00000000000000000000000000000000/{KERNEL}/initrd.img-{KERNEL}"),
        };
        let case = Case::new(&format!("loader = '{loader}'"))
            .file(MOUNTINFO, &format!("{ON_ROOT}{ON_BOOT}"));
        assert_fault(loader, case.without(&path), "is missing");
    }
}

#[test]
fn small_file_next_to_initrd_is_sound() {
    let entry = format!(
        "{}\n\tinitrd\t/boot/ucode.cpio /boot/key.cpio newc:key:/boot/key /boot/initrd.img-{KERNEL}",
        linux("/boot/vmlinuz", ROOT)
    );
    let case = Case::menu(&entry);
    let files = ["/boot/ucode.cpio", "/boot/key.cpio", "/boot/key"];
    assert_sound("small", files.iter().fold(case, |case, path| case.file(path, "x")));
}

#[test]
fn unmounted_file_system_is_unknown() {
    let search = "\tsearch --no-floppy --fs-uuid --set=root bb";
    let entry =
        format!("{search}\n{}\n{}", linux("/boot/vmlinuz", ROOT), initrd("/boot/initrd.img"));
    let uuid = |uuid: &str, device: &str| {
        let node = format!("/dev/{device}");
        Case::menu(&entry)
            .file(MOUNTINFO, ON_ROOT)
            .link(&format!("/dev/disk/by-uuid/{uuid}"), &format!("../../{device}"))
            .node(&node, Node::Present)
    };
    assert_sound("mounted", uuid("bb", "sda2"));
    assert_sound("in capitals", uuid("BB", "sda2"));
    assert_unknown("another disk", uuid("bb", "sdb1"), "with UUID bb, which is not mounted");
    assert_unknown("no such disk", uuid("aa", "sda2"), "with UUID bb, which is not mounted");
    let label = search.replace("--fs-uuid", "--label");
    let labelled = entry.replace(search, &label);
    let case =
        Case::menu(&labelled).file(MOUNTINFO, ON_ROOT).link("/dev/disk/by-label/x", "../../sda2");
    assert_unknown("label", case, "with label bb");
    assert_sound("no udev", Case::menu(&entry).file(MOUNTINFO, ON_ROOT));
    let unshown = ON_ROOT.replace("/dev/sda2", "/dev/root");
    let by_number = uuid("bb", "sda2")
        .file(MOUNTINFO, &unshown)
        .link("/sys/dev/block/8:2", "../../devices/pci0000:00/0000:00:01.0/block/sda/sda2");
    assert_sound("by number", by_number);
    let second = "29 1 0:28 / / rw - btrfs /dev/sdb1 rw\n";
    let btrfs = uuid("bb", "sda2").file(MOUNTINFO, second);
    let btrfs = btrfs.link("/sys/fs/btrfs/bb/devices/sdb1", "../../../../block/sdb/sdb1");
    assert_sound("btrfs on two devices", btrfs);
    let lvm = ON_ROOT.replace("/dev/sda2", "/dev/mapper/vg-root");
    let lvm = uuid("bb", "dm-0").file(MOUNTINFO, &lvm).link("/dev/mapper/vg-root", "../dm-0");
    assert_sound("LVM", lvm);
    let md = uuid("bb", "md127").file(MOUNTINFO, &ON_ROOT.replace("/dev/sda2", "/dev/md127"));
    assert_sound("md", md);
}

#[test]
fn link_out_of_file_system_is_a_fault() {
    let search = "\tsearch --no-floppy --fs-uuid --set=root aa";
    let entry = format!("{search}\n{}\n{}", linux("/vmlinuz", ROOT), initrd("/initrd.img"));
    let name = format!("/boot/initrd.img-{KERNEL}");
    let boot = || {
        Case::menu(&entry)
            .file(MOUNTINFO, &format!("{ON_ROOT}{ON_BOOT}"))
            .link("/dev/disk/by-uuid/aa", "../../sda1")
            .node("/dev/sda1", Node::Present)
            .node("/boot/initrd.real", Node::Present)
            .node("/usr/lib/initrd.real", Node::Present)
    };
    assert_sound("relative", boot().link(&name, "initrd.real"));
    assert_fault(
        "absolute",
        boot().link(&name, "/boot/initrd.real"),
        "follows to /boot/boot/initrd.real",
    );
    let out = boot().link(&name, "../usr/lib/initrd.real");
    assert_fault("to another file system", out, "follows to /boot/usr/lib/initrd.real");
    assert_fault("dangling", boot().link(&name, "gone"), "is missing");
    // On one file system GRUB follows these links as the kernel does, also with a directory that is bound to itself.
    let entry =
        format!("{search}\n{}\n{}", linux("/boot/vmlinuz", ROOT), initrd("/boot/initrd.img"));
    let bound = "41 29 8:2 /boot /boot rw - ext4 /dev/sda2 rw\n";
    for mounts in [ON_ROOT.to_owned(), format!("{ON_ROOT}{bound}")] {
        for target in ["/boot/initrd.real", "../usr/lib/initrd.real", "initrd.real"] {
            let case = Case::menu(&entry)
                .file(MOUNTINFO, &mounts)
                .link("/dev/disk/by-uuid/aa", "../../sda2")
                .node("/dev/sda2", Node::Present)
                .node("/boot/initrd.real", Node::Present)
                .node("/usr/lib/initrd.real", Node::Present)
                .link(&name, target);
            assert_sound(target, case);
        }
    }
}

#[test]
fn waiting_menu_is_a_fault() {
    let entry = format!("{}\n{}", linux("/boot/vmlinuz", ROOT), initrd("/boot/initrd.img"));
    let menu = |header: &str| {
        let menu = format!("set default=0\n{header}\nmenuentry 'Linux' --id a {{\n{entry}\n}}\n");
        Case::new("").file("/boot/grub/grub.cfg", &menu)
    };
    assert_sound("a timeout", menu("set timeout=5"));
    assert_fault("for ever", menu("set timeout=-1"), "waits for a key forever");
    assert_fault("password", menu("set superusers=root"), "asks for a password");
    assert_unknown("password", menu("set superusers=$lang"), "asks for a password");
    assert_unknown("leaves", menu("exit"), "`exit` runs here");
}

#[test]
fn lost_initrd_is_a_fault() {
    // A kernel whose initrd could not be made: update-grub names the root by its device.
    let entry = "\tlinux\t/boot/vmlinuz-6.12.200 root=/dev/vda3 ro\n}\nmenuentry 'old' {\n\tlinux /boot/vmlinuz-6.8.0-45-generic root=UUID=6a4d3b2c-1f0e-4d5c-8b7a-990011223344\n\tinitrd /boot/initrd.img-6.8.0-45-generic";
    let new = || {
        Case::menu(entry)
            .file("/boot/vmlinuz-6.12.200", "x")
            .link("/dev/disk/by-uuid/6a4d3b2c-1f0e-4d5c-8b7a-990011223344", "../../vda3")
            .node("/dev/vda3", Node::Present)
            .file("/usr/lib/modules/6.12.200/modules.dep", "")
    };
    assert_fault("other entries have one", new(), "and other entries do");
    assert_fault("the running kernel had one", new().had_initrd(true), "booted with one");
    let by_uuid =
        Case::menu(&linux("/boot/vmlinuz", ROOT)).without(&format!("/boot/initrd.img-{KERNEL}"));
    assert_fault("by UUID", by_uuid.running(ROOT), "no kernel finds its root by itself");
    assert_fault("one is beside", Case::menu(&linux("/boot/vmlinuz", ROOT)), "exists");
}

#[test]
fn different_root_is_a_fault() {
    let entry =
        |root: &str| format!("{}\n{}", linux("/boot/vmlinuz", root), initrd("/boot/initrd.img"));
    assert_fault("another", Case::menu(&entry("root=UUID=bb ro")), "has root=UUID=bb");
    assert_fault("none", Case::menu(&entry("quiet")), "has no root=");
    assert_unknown("by label", Case::menu(&entry("root=LABEL=x")), "is the same as");
    assert_sound("live system", Case::menu(&entry(ROOT)).running("root=live:CDLABEL=x"));
}

#[test]
fn empty_or_absent_menu_is_unknown() {
    assert_unknown("empty", Case::new("").file("/boot/grub/grub.cfg", ""), "the menu has no entry");
    assert_unknown("gone", Case::new("").without("/boot/grub/grub.cfg"), "no boot entry found");
}
