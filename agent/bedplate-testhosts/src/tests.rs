//! Checks fake hosts with the same facts code that reads real hosts.

use super::*;
use bedplate_base::Reading;
use bedplate_base::value::AcsBits;
use bedplate_base::{Arch, CpuVendor};
use bedplate_facts::pci::{Function, PciTree, PortType};
use bedplate_facts::{BootLoader, Depth, Facts, observe};
use bedplate_host::Reader;
use bedplate_host::snapshot::Snapshot;

fn spec(text: &str) -> Snapshot {
    HostSpec::from_toml(text).unwrap().build()
}

fn facts(text: &str) -> Facts {
    observe(&spec(text), Depth::Plan)
}

fn tree(facts: &Facts) -> &PciTree {
    facts.pci.known().unwrap()
}

fn count(facts: &Facts, f: impl Fn(&Function) -> bool) -> usize {
    tree(facts).functions.values().filter(|function| f(function)).count()
}

/// Creates an empty directory, in memory if possible: a tree has thousands of files.
fn scratch(name: &str) -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = base.join(format!("bedplate-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn every_demo_is_read_without_gaps() {
    for name in names() {
        let snapshot = snapshot(name).unwrap();
        for depth in [Depth::Plan, Depth::Thorough] {
            let facts = observe(&snapshot, depth);
            assert!(tree(&facts).gaps.is_empty(), "{name}: {:?}", tree(&facts).gaps);
            assert!(!matches!(facts.boot, BootLoader::Unknown { .. }), "{name}: {:?}", facts.boot);
            assert!(facts.arch.known().is_some(), "{name}");
        }
    }
    assert!(snapshot("nonsense").is_none());
}

#[test]
fn hgx_has_the_real_topology() {
    let facts = facts("");
    assert_eq!(count(&facts, Function::is_gpu), 8);
    assert_eq!(count(&facts, |f| f.is_nic() && !f.infiniband.is_empty()), 8);
    assert_eq!(count(&facts, |f| f.port == Reading::Known(PortType::Upstream)), 5);
    assert_eq!(count(&facts, |_| true), 275);
    assert_eq!(facts.cpu.vendor, Reading::Known(CpuVendor::Intel));
    assert_eq!(facts.boot, BootLoader::GrubDebian);
    for gpu in tree(&facts).functions.values().filter(|f| f.is_gpu()) {
        let path = tree(&facts).path_up(gpu.address);
        let ports: Vec<_> =
            path.iter().map(|port| tree(&facts).get(*port).unwrap().port.clone()).collect();
        assert_eq!(
            ports,
            [PortType::Downstream, PortType::Upstream, PortType::RootPort].map(Reading::Known)
        );
        let port = tree(&facts).get(path[0]).unwrap().acs.known().unwrap();
        assert_eq!((port.capable, port.control), (AcsBits(0x5f), AcsBits(0x1d)));
    }
    let nic =
        tree(&facts).functions.values().find(|f| f.is_nic() && !f.infiniband.is_empty()).unwrap();
    assert_eq!(nic.sriov.known().unwrap().total, Reading::Known(16));
    assert_eq!(nic.numa_node, Reading::Known(0));
}

#[test]
fn other_machines_have_their_vendor_and_gpus() {
    let amd = facts("machine = \"mi300x\"");
    assert_eq!(
        (count(&amd, Function::is_gpu), amd.cpu.vendor),
        (8, Reading::Known(CpuVendor::Amd))
    );
    let arm = facts("machine = \"grace\"");
    assert_eq!(
        (count(&arm, Function::is_gpu), arm.arch.clone()),
        (4, Reading::Known(Arch::Aarch64))
    );
    assert_eq!(arm.iommu.firmware, Reading::Known("IORT".to_owned()));
    let plain = facts("machine = \"plain\"");
    assert_eq!(count(&plain, Function::is_gpu), 0);
}

/// Bridges above a function, from it to the root port.
fn path(facts: &Facts, address: &str) -> Vec<String> {
    let above = tree(facts).path_up(address.parse().unwrap());
    above.iter().map(ToString::to_string).collect()
}

/// Numbers in NVIDIA's guide to GPUDirect RDMA with ConnectX-8 and its published ACS argument (handbook §14.1).
#[test]
fn gb300_has_the_published_topology() {
    let snapshot = spec("machine = \"gb300\"");
    let facts = observe(&snapshot, Depth::Plan);
    for (gpu, slot, pf) in [
        ("0009:06:00.0", "01", "0000:03:00.0"),
        ("0008:06:00.0", "03", "0002:03:00.0"),
        ("0019:06:00.0", "01", "0010:03:00.0"),
        ("0018:06:00.0", "03", "0012:03:00.0"),
    ] {
        let domain = &gpu[..4];
        let at = |rest: &str| format!("{domain}:{rest}");
        let shared = [at("01:00.0"), at("00:00.0")];
        let outer = at(&format!("02:{slot}.0"));
        let legs = [at("05:00.0"), at("04:00.0"), outer];
        assert_eq!(path(&facts, gpu), [legs.as_slice(), &shared].concat());
        let dma = at("03:00.0");
        assert_eq!(path(&facts, &dma), [[at("02:00.0")].as_slice(), &shared].concat());
        let function = |address: &str| tree(&facts).get(address.parse().unwrap()).unwrap();
        let id = |address: &str| (function(address).vendor.0, function(address).device.0);
        assert_eq!(
            (id(gpu), id(&dma), id(pf)),
            ((0x10de, 0x31c2), (0x15b3, 0x2100), (0x15b3, 0x1023))
        );
        assert_eq!(function(&dma).class >> 8, 0x0801);
        assert_ne!(function(gpu).iommu_group, function(&dma).iommu_group, "as it ships");
        let vpd =
            |address: &str| snapshot.read(&format!("/sys/bus/pci/devices/{address}/vpd")).unwrap();
        assert_eq!(vpd(&dma), vpd(pf), "the PF's UUID");
    }
    assert_eq!(count(&facts, Function::is_gpu), 4);
    let boards = ["0000:03:00.0", "0002:03:00.0", "0010:03:00.0"]
        .map(|pf| snapshot.read(&format!("/sys/bus/pci/devices/{pf}/vpd")).unwrap());
    let serial = |vpd: &[u8]| {
        let at = vpd.windows(2).position(|word| word == b"SN").unwrap();
        vpd[at + 3..at + 3 + usize::from(vpd[at + 2])].to_owned()
    };
    assert_eq!(serial(&boards[0]), serial(&boards[1]), "two adapters, one board");
    assert_ne!(serial(&boards[0]), serial(&boards[2]));
}

#[test]
fn bridges_above_gpu_match_each_machine() {
    let bridges = |text: &str, gpus: usize, above: usize| {
        let facts = facts(text);
        assert_eq!(count(&facts, Function::is_gpu), gpus, "{text}");
        for gpu in tree(&facts).functions.values().filter(|f| f.is_gpu()) {
            assert_eq!(path(&facts, &gpu.address.to_string()).len(), above, "{text}");
        }
        facts
    };
    bridges("machine = \"gb200\"", 4, 1);
    bridges("machine = \"epyc-l40s\"", 8, 1);
    bridges("machine = \"dgx-spark\"", 1, 1);
    let vera = bridges("machine = \"vera-rubin\"", 4, 1);
    let port = tree(&vera).get("0008:00:00.0".parse().unwrap()).unwrap();
    let acs = port.acs.known().unwrap();
    assert_eq!((acs.capable, acs.control), (AcsBits(0x57), AcsBits(0x15)), "CR is read-only 0");
    let b300 = bridges("machine = \"b300\"", 8, 5);
    // Each GPU shares the switch below its root port with one NIC.
    for gpu in tree(&b300).functions.values().filter(|f| f.is_gpu()) {
        let inside = tree(&b300).path_up(gpu.address)[3];
        let near = count(&b300, |f| f.is_nic() && tree(&b300).path_up(f.address).contains(&inside));
        assert_eq!(near, 1);
    }
}

#[test]
fn description_sets_gpu_ids_and_nic_ats() {
    let other = facts("gpu = \"10de:2901\"");
    assert_eq!(count(&other, |f| f.is_gpu() && f.device.0 == 0x2901), 8);
    assert!(HostSpec::from_toml("gpu = \"10de\"").is_err());
    let ats = |text: &str| {
        let facts = observe(&spec(text), Depth::Thorough);
        count(&facts, |f| f.detail.as_ref().is_some_and(|d| d.ats == Reading::Known(true)))
    };
    assert_eq!(ats(""), 0);
    assert_eq!(ats("nic-ats = true"), 8);
}

#[test]
fn vfs_have_a_pf_and_vfio_functions_no_network() {
    let facts = facts("vfs = 4\nvfio = [\"0000:19:00.2\"]");
    let pf = tree(&facts)
        .functions
        .values()
        .find(|f| f.sriov.known().is_some_and(|s| !s.vfs.is_empty()))
        .unwrap();
    let vfs = &pf.sriov.known().unwrap().vfs;
    assert_eq!(vfs.len(), 4);
    assert!(vfs.iter().all(|vf| tree(&facts).get(*vf).unwrap().physfn == Some(pf.address)));
    let vfio = tree(&facts).get("0000:19:00.2".parse().unwrap()).unwrap();
    assert_eq!(vfio.driver.as_deref(), Some("vfio-pci"));
    assert!(vfio.net.is_empty());
}

#[test]
fn iommu_state_sets_links_types_and_acs() {
    for (state, kind) in [("translated", "DMA-FQ"), ("strict", "DMA"), ("passthrough", "identity")]
    {
        let snapshot = spec(&format!("iommu = \"{state}\""));
        let facts = observe(&snapshot, Depth::Thorough);
        let types: Vec<_> = facts.iommu.groups.values().cloned().collect();
        assert!(types.iter().all(|found| *found == Reading::Known(kind.to_owned())), "{state}");
        assert!(!types.is_empty());
    }
    let none = facts("iommu = \"none\"");
    assert_eq!(none.iommu.active, Reading::Known(Vec::new()));
    assert_eq!(none.iommu.firmware, Reading::Absent);
    assert_eq!(count(&none, |f| f.iommu_group != Reading::Absent), 0);
    assert_eq!(count(&none, |f| f.acs.known().is_some_and(|acs| !acs.control.is_empty())), 0);
    let off = facts("acs = false");
    assert_eq!(count(&off, |f| f.acs.known().is_some_and(|acs| !acs.control.is_empty())), 0);
    let gpus: Vec<_> =
        tree(&off).functions.values().filter(|f| f.is_gpu()).map(|f| &f.iommu_group).collect();
    assert_eq!(gpus[0], gpus[1], "without ACS the functions below a root port share a group");
}

#[test]
fn iort_without_smmu_offers_no_iommu() {
    let firmware = |more: &str| facts(&format!("machine = \"gb200\"\n{more}")).iommu.firmware;
    let table = Reading::Known("IORT".to_owned());
    assert_eq!(firmware("iommu = \"none\""), Reading::Absent);
    assert_eq!(firmware("iommu = \"off\""), table);
    assert_eq!(firmware("unprivileged = true"), table, "an SMMU is in use");
    assert!(matches!(firmware("iommu = \"off\"\nunprivileged = true"), Reading::Unknown(_)));
    let unknown_use = "unrecorded = [\"/sys/class/iommu\"]\niommu = \"none\"";
    assert_eq!(firmware(unknown_use), Reading::Absent);
}

#[test]
fn every_loader_is_recognised() {
    for (loader, family) in [
        ("debian", BootLoader::GrubDebian),
        ("rhel9", BootLoader::GrubBls),
        ("rhel8", BootLoader::GrubBls),
        ("suse", BootLoader::GrubSuse),
        ("systemd-boot", BootLoader::SystemdBoot { uki: false }),
        ("uki", BootLoader::SystemdBoot { uki: true }),
        ("rpm-ostree", BootLoader::RpmOstree),
        ("bootc", BootLoader::Bootc),
    ] {
        let running = facts(&format!("loader = \"{loader}\"\nmachine = \"plain\""));
        assert_eq!(running.boot, family, "{loader}");
        let image = facts(&format!("loader = \"{loader}\"\nrunning = false"));
        assert_eq!(image.boot, family, "{loader} as an image");
    }
    assert!(matches!(facts("loader = \"talos\"").boot, BootLoader::Unmanaged { .. }));
    let composefs = "loader = \"bootc\"\nremove = [\"/run/ostree-booted\"]\n";
    let booted = facts(&format!("{composefs}running-cmdline = \"composefs=1\""));
    assert!(matches!(booted.boot, BootLoader::Unmanaged { .. }));
    let with_bootc = |file: &str| {
        facts(&format!(
            "loader = 'none'\nrunning = false\n[files]\n'/usr/bin/bootc' = ''\n'{file}' = ''"
        ))
        .boot
    };
    assert_eq!(with_bootc("/sysroot/x"), BootLoader::Bootc);
    // The package of bootc has this directory.
    assert!(matches!(with_bootc("/usr/lib/bootc/install/x"), BootLoader::Unknown { .. }));
    let BootLoader::Unknown { reason, .. } = facts("loader = \"none\"").boot else {
        panic!("guessed")
    };
    assert!(reason.contains("/etc/default/grub") && reason.contains("debian"), "{reason}");
    let no_bls = facts(
        "loader = \"rhel9\"\n[files]\n\"/etc/default/grub\" = \"GRUB_ENABLE_BLSCFG=false\\n\"",
    );
    assert_eq!(no_bls.boot, BootLoader::GrubRhel);
    let without_setting = |keys: &str, files: &str| {
        facts(&format!(
            "machine = 'plain'\nloader = 'rhel9'\n{keys}\n[files]\n'/etc/default/grub' = 'GRUB_TIMEOUT=5'\n{files}"
        ))
        .boot
    };
    let unset = |files: &str| without_setting("", files);
    let script = "'/etc/grub.d/10_linux' = 'GRUB_ENABLE_BLSCFG=\"true\"'\n";
    assert_eq!(unset(script), BootLoader::GrubBls);
    assert_eq!(unset("'/etc/grub.d/10_linux' = 'if [ x = x ]'\n"), BootLoader::GrubRhel);
    let old_grubby = format!("{script}'/usr/sbin/new-kernel-pkg' = ''\n");
    assert_eq!(unset(&old_grubby), BootLoader::GrubRhel);
    let unread = without_setting("denied = ['/etc/grub.d']", "");
    assert!(matches!(unread, BootLoader::Unknown { .. }));
    let strange = facts("[files]\n\"/etc/os-release\" = \"ID=void\\n\"");
    assert!(matches!(strange.boot, BootLoader::Unknown { .. }));
    // GRUB sets LoaderInfo too.
    let guid = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    let grub = facts(&format!(
        "[files]\n\"/sys/firmware/efi/efivars/LoaderInfo-{guid}\" = \"\\u0006\\u0000\\u0000\\u0000G\\u0000R\\u0000\""
    ));
    assert_eq!(grub.boot, BootLoader::GrubDebian);
}

#[test]
fn loader_of_sdbootutil_needs_no_setting() {
    const MARK: &str = "installed_by_sdbootutil' = ''\n";
    let family = |setting: &str, files: &str| {
        facts(&format!(
            "machine = 'plain'\nloader = 'suse'\n[files]\n'/etc/sysconfig/bootloader' = '{setting}'\n{files}"
        ))
        .boot
    };
    let tool = "'/usr/bin/sdbootutil' = ''\n";
    let systemd = "'/usr/lib/systemd/boot/efi/systemd-bootx64.efi' = ''\n";
    let grub = "'/usr/share/grub2/x86_64-efi/grubbls.efi' = ''\n";
    let marks = ["systemd", "suse", "BOOT"].map(|name| format!("'/boot/efi/EFI/{name}/{MARK}"));
    let [of_systemd, of_suse, of_medium] = marks.each_ref().map(String::as_str);
    for setting in ["", "LOADER_TYPE=\"\""] {
        let of = |files: &[&str]| family(setting, &(tool.to_owned() + &files.concat()));
        assert_eq!(of(&[systemd, of_systemd]), BootLoader::Sdbootutil { grub: false });
        assert_eq!(of(&[grub, of_suse]), BootLoader::Sdbootutil { grub: true });
        assert_eq!(of(&[grub, systemd, of_suse]), BootLoader::Sdbootutil { grub: true });
        assert_eq!(of(&[grub, of_medium]), BootLoader::Sdbootutil { grub: true });
        // Not installed, or another loader than the tool would use.
        let others: [&[&str]; 4] = [&[], &[grub], &[of_suse], &[grub, systemd, of_systemd]];
        for files in others {
            assert!(matches!(of(files), BootLoader::Unknown { .. }), "{files:?}");
        }
        assert_eq!(family(setting, ""), BootLoader::GrubSuse);
    }
    let named = family("LOADER_TYPE=\"grub2-efi\"", &(tool.to_owned() + grub + of_suse));
    assert_eq!(named, BootLoader::GrubSuse, "the tool trusts the setting");
}

#[test]
fn image_has_no_running_kernel() {
    let facts = facts("running = false\nolder-kernels = [\"6.8.0-9-generic\"]");
    assert_eq!(facts.os.kernel, Reading::Absent);
    assert_eq!(facts.cpu.vendor, Reading::Absent);
    assert_eq!(facts.pci, Reading::Absent);
    assert_eq!(facts.arch, Reading::Known(Arch::X86_64));
    assert_eq!(facts.os.installed_kernels, ["6.8.0-9-generic", "6.8.0-45-generic"]);
}

#[test]
fn unprivileged_user_cannot_read_acs() {
    let facts = facts("unprivileged = true");
    for function in tree(&facts).functions.values().filter(|f| f.is_bridge()) {
        let Reading::Unknown(why) = &function.acs else { panic!("{function:?}") };
        assert!(why.contains("run as root"), "{why}");
    }
}

#[test]
fn unknown_description_fields_are_rejected() {
    assert!(HostSpec::from_toml("machin = \"hgx\"").is_err());
    assert!(HostSpec::from_toml("machine = \"dgx\"").is_err());
    let overridden = spec(
        "remove = [\"/etc/modprobe.d\"]\n[files]\n\"/sys/bus/pci/devices/0000:19:00.0/sriov_totalvfs\" = \"0\\n\"",
    );
    assert_eq!(overridden.exists("/etc/modprobe.d"), Ok(false));
    assert_eq!(
        overridden.attribute("/sys/bus/pci/devices/0000:19:00.0/sriov_totalvfs").unwrap(),
        "0"
    );
    let link = overridden.link("/sys/bus/pci/devices/0000:19:00.0").unwrap();
    assert!(link.starts_with("../../../devices/pci0000:15/"), "{link}");
}

#[test]
fn demo_round_trips_through_text_and_disk() {
    let snapshot = snapshot("hgx").unwrap();
    assert_eq!(Snapshot::from_text(&snapshot.to_text()).unwrap(), snapshot);
    let directory = scratch("tree");
    write_tree(&snapshot, &directory).unwrap();
    let reader = bedplate_host::DirReader::image(&directory).unwrap();
    for depth in [Depth::Plan, Depth::Thorough] {
        let mut from_disk = observe(&reader, depth);
        from_disk.host = snapshot.kind();
        assert_eq!(from_disk, observe(&snapshot, depth));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn planning_cost_is_low_and_linear() {
    let cost = |text: &str| {
        let directory = std::env::temp_dir().join(format!(
            "bedplate-cost-{}-{}",
            text.len(),
            std::process::id()
        ));
        std::fs::create_dir_all(&directory).unwrap();
        write_tree(&spec(text), &directory).unwrap();
        let reader = bedplate_host::DirReader::image(&directory).unwrap();
        let functions = tree(&observe(&reader, Depth::Plan)).functions.len() as u64;
        std::fs::remove_dir_all(&directory).unwrap();
        (functions, reader.cost())
    };
    let (functions, one) = cost("");
    assert!(one.config_dwords <= 2_000, "{one:?}");
    assert!(one.syscalls <= 9 * functions, "{one:?} for {functions}");
    let (more, two) = cost("functions = 400");
    assert_eq!(more, 2 * functions);
    assert_eq!(two.config_dwords, 2 * one.config_dwords);
    assert!(two.syscalls <= 2 * one.syscalls, "{one:?} {two:?}");
}
