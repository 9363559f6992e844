use super::super::{LayerText, load, render_all, shipped};
use super::{Severity, is_reminder, lint_ids, table};

/// Returns the ids of the findings in a profile, given without `schema`.
fn ids(text: &str) -> Vec<&'static str> {
    let text = format!("schema = 1\n{text}\n");
    let loaded = load(&[LayerText { path: "p.toml", text: &text }], shipped())
        .unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    loaded.lints.iter().map(|finding| finding.id).collect()
}

fn load_of(name: &str) -> String {
    format!("[modules]\nload = [\"{name}\"]")
}

fn args(list: &str) -> String {
    format!("[cmdline]\nargs = [{list}]")
}

/// Returns profiles, each with the id of its only finding; every lint has at least one.
fn samples() -> Vec<(&'static str, String)> {
    [iommu_samples(), acs_samples(), module_samples(), other_samples()].concat()
}

fn iommu_samples() -> Vec<(&'static str, String)> {
    vec![
        ("amd-iommu-on", args("\"amd_iommu=on\"")),
        ("amd-iommu-on", args("\"amd-iommu=pgtbl_v2,on\"")),
        ("iommu-on", args("\"iommu=on\"")),
        ("iommu-on-arm", format!("match.arch = \"aarch64\"\n{}", args("\"iommu=pt\""))),
        (
            "x86-only-on-arm",
            format!("match.arch = \"aarch64\"\n{}", args("\"intel_idle.max_cstate=1\"")),
        ),
        ("x86-only-on-arm", format!("match.cpu_vendor = \"arm\"\n{}", args("\"pci=nocrs\""))),
        (
            "intel-idle-on-amd",
            format!("match.cpu_vendor = \"amd\"\n{}", args("\"intel_idle.max_cstate=0\"")),
        ),
        ("arm-only-on-x86", format!("match.cpu_vendor = \"amd\"\n{}", args("\"arm64.nosve\""))),
        ("arm-only-on-x86", format!("match.arch = \"x86_64\"\n{}", args("\"kpti=off\""))),
        (
            "other-vendors-iommu",
            format!("match.cpu_vendor = \"amd\"\n{}", args("\"intel_iommu=on\"")),
        ),
        (
            "other-vendors-iommu",
            format!("match.cpu_vendor = \"intel\"\n{}", args("\"amd_iommu=force_enable\"")),
        ),
        ("iommu-against-mode", format!("iommu.mode = \"passthrough\"\n{}", args("\"iommu=nopt\""))),
        (
            "iommu-against-mode",
            format!("iommu.mode = \"translated\"\n{}", args("\"iommu.passthrough=1\"")),
        ),
        (
            "iommu-against-mode",
            format!("iommu.mode = \"translated\"\n{}", args("\"intel_iommu=off\"")),
        ),
        ("two-spellings", args("\"iommu=pt\", \"iommu.passthrough=1\"")),
        ("iommu-by-hand", format!("iommu.mode = \"passthrough\"\n{}", args("\"iommu=pt\""))),
    ]
}

fn acs_samples() -> Vec<(&'static str, String)> {
    let vfio = "[[sriov.devices]]\nname = \"g\"\nselect = { vendor = \"15b3\" }\nvfs = 1\nvf_driver = \"vfio-pci\"\n";
    vec![
        ("acs-override", args("\"pcie_acs_override=downstream,multifunction\"")),
        ("acs-invented", args("\"pci=noacs\"")),
        ("acs-invented", args("\"pci=realloc,noacs\"")),
        ("acs-invented", args("\"pci=acs=off\"")),
        ("acs-invented", args("\"pcie_acs=off\"")),
        ("assign-busses", args("\"pci=noats,assign-busses\"")),
        ("config-acs-commas", args("\"pci=config_acs=xx000x0@17:00.0,xx000x0@18:00.0\"")),
        (
            "acs-by-hand",
            format!("acs.policy = \"direct-p2p\"\n{}", args("\"pci=disable_acs_redir=17:00.0\"")),
        ),
        ("acs-clear-with-vfio", format!("acs.policy = \"clear\"\n{vfio}")),
        ("acs-clear-with-vfio", format!("acs.policy = \"clear\"\n{}", load_of("vfio-pci"))),
        ("acs-direct-with-vfio", format!("acs.policy = \"direct-p2p\"\n{vfio}")),
        ("vfio-without-iommu", format!("iommu.mode = \"off\"\n{vfio}")),
        (
            "realloc-on-mi300x",
            format!("match.pci = [{{ id = \"1002:74a1\" }}]\n{}", args("\"pci=realloc\"")),
        ),
        (
            "realloc-on-mi300x",
            format!("match.pci = [{{ id = [\"1002:74a5\"] }}]\n{}", args("\"pci=realloc=on\"")),
        ),
        (
            "realloc-on-mi300x",
            format!("match.pci = [{{ id = \"1002:75a3\" }}]\n{}", args("\"pci=realloc\"")),
        ),
    ]
}

fn module_samples() -> Vec<(&'static str, String)> {
    let option = |module: &str, name: &str| format!("[modules.options.{module}]\n{name} = 1");
    vec![
        ("raw-qp-enforcement", args("\"rdma_ucm.disable_raw_qp_enforcement=1\"")),
        ("raw-qp-enforcement", option("ib_uverbs", "disable_raw_qp_enforcement")),
        ("nvreg-case", option("nvidia", "NVreg_EnablePCIeRelaxedOrderingMode")),
        ("nvreg-case", args("\"nvidia.NVreg_EnablePCIeRelaxedOrderingMode=1\"")),
        ("nvreg-gone", option("nvidia", "NVreg_RegisterForACPIEvents")),
        ("registry-dwords-on-cmdline", args("'nvidia.NVreg_RegistryDwords=\"A=1;B=2\"'")),
        ("module-option-on-cmdline", args("\"mlx5_core.prof_sel=3\"")),
        ("module-option-on-cmdline", args("\"nvidia-drm.modeset=1\"")),
        ("no-such-module", load_of("dma_buf")),
        ("no-such-module", load_of("amd_peer_mem")),
        ("nv-peer-mem", load_of("nv_peer_mem")),
        ("peermem-by-hand", load_of("nvidia-peermem")),
        ("nvidia-modules-listed", load_of("nvidia-uvm")),
        ("loaded-by-udev", load_of("mlx5_ib")),
    ]
}

fn other_samples() -> Vec<(&'static str, String)> {
    vec![
        ("payload-policy", args("\"pci=pcie_bus_perf\"")),
        (
            "payload-policy",
            format!("pcie.max_read_request = 4096\n{}", args("\"pci=pcie_bus_peer2peer\"")),
        ),
        (
            "hugepages-by-argument",
            format!(
                "hugepages.per_node = {{ \"1G\" = 8 }}\n{}",
                args("\"hugepagesz=1G\", \"hugepages=16\"")
            ),
        ),
        (
            "governor-twice",
            format!(
                "cpu.governor = \"performance\"\n{}",
                args("\"cpufreq.default_governor=powersave\"")
            ),
        ),
        (
            "read-request-against-policy",
            format!("pcie.max_read_request = 4096\n{}", args("\"pci=pcie_bus_perf\"")),
        ),
        ("memlock-limited", "limits.memlock = \"64G\"".into()),
        ("read-request-small", "pcie.max_read_request = 128".into()),
        (
            "pcie-without-source",
            "[[pcie.devices]]\nname = \"a\"\nselect = { driver = \"nvme\" }\nmax_read_request = 1024"
                .into(),
        ),
        (
            "hugepages-twice",
            "hugepages.per_node = { \"2M\" = 8 }\nsysctl.set = { \"vm.nr_hugepages\" = 8 }".into(),
        ),
        ("reboot-cold", args("\"reboot=cold\"")),
        ("nccl-folklore", "[nccl]\nset = { NCCL_IB_GID_INDEX = 3 }".to_owned()),
        ("nccl-switched-off", "[nccl]\nset = { NCCL_IB_DISABLE = 1 }".to_owned()),
        ("nccl-typo", "[nccl]\nset = { NCCL_IB_HAC = \"mlx5\" }".to_owned()),
        (
            "vf-in-switchdev",
            "[[sriov.devices]]\nname = \"x\"\nselect = { vendor = \"15b3\" }\nvfs = 4\nvf = { vlan = 7 }\neswitch = \"switchdev\"".to_owned(),
        ),
        ("unknown-lint", "[lints]\nallow = { amd-iommu = \"the installer adds it\" }".to_owned()),
        ("vfs-everywhere", "[[sriov.devices]]\nname = \"x\"\nvfs = 4".to_owned()),
        (
            "rules-unused",
            format!(
                "sriov.managed = \"external\"\nsriov.devices = [{}]",
                "{ name = \"x\", select = { vendor = \"15b3\" }, vfs = 1 }"
            ),
        ),
        ("no-window-yet", "[reboot]\npolicy = \"schedule\"\nwindows = [\"never\"]".to_owned()),
        ("windows-unused", "[reboot]\nwindows = [\"Sat 01:00-02:00 UTC\"]".to_owned()),
    ]
}

#[test]
fn each_sample_has_only_its_finding() {
    for (id, text) in samples() {
        assert_eq!(ids(&text), [id], "{text}");
    }
}

#[test]
fn each_lint_has_a_sample() {
    let samples = samples();
    for lint in lint_ids() {
        assert!(samples.iter().any(|(id, _)| *id == lint), "{lint}");
    }
}

#[test]
fn valid_profiles_have_no_finding() {
    for text in [
        "".to_owned(),
        args("\"pci=realloc\", \"iommu.strict=0\", \"hugepagesz=1G\", \"hugepages=4\", \"nvme_core.multipath=N\""),
        args("\"iommu=pt\""),
        args("\"intel_idle.max_cstate=1\", \"kpti=off\""),
        format!("match.arch = \"x86_64\"\n{}", args("\"intel_idle.max_cstate=1\"")),
        args("\"pci=config_acs=xx000x0@17:00.0;xx000x0@18:00.0\""),
        args("\"pci=disable_acs_redir=17:00.0\", \"macsec.debug=1\""),
        format!("iommu.mode = \"passthrough\"\n{}", args("\"iommu.strict=0\"")),
        "[cmdline]\nabsent = [\"amd_iommu=on\", \"pcie_acs_override\", \"pci=assign-busses\"]".to_owned(),
        "[lints]\nallow = { amd-iommu-on = \"the installer adds it\" }".to_owned(),
        "[modules]\nload = [\"ib_umad\"]\nblacklist = [\"nv_peer_mem\"]\nunload = [\"nvidia_peermem\"]".to_owned(),
        "[modules.options.nvidia]\nNVreg_EnablePCIERelaxedOrderingMode = 1\nNVreg_RegistryDwords = \"A=1;B=2\"".to_owned(),
    ] {
        assert_eq!(ids(&text), Vec::<&str>::new(), "{text}");
    }
}

#[test]
fn finding_shows_reason_and_fix() {
    let text = "schema = 1\n[cmdline]\nargs = [\"amd_iommu=on\"]\n";
    let loaded = load(&[LayerText { path: "p.toml", text }], shipped()).unwrap();
    assert_eq!(loaded.lints[0].severity, Severity::Error);
    assert_eq!(
        render_all(&loaded.lints, false),
        "\
error[amd-iommu-on]: `amd_iommu=on` has no effect: `on` is not a value of this parameter, and AMD-Vi is on if the firmware offers it
 --> p.toml:3:9
  |
3 | args = [\"amd_iommu=on\"]
  |         ^^^^^^^^^^^^^^
  |
  = help: remove it
  = help: see drivers/iommu/amd/init.c parse_amd_iommu_options"
    );
}

#[test]
fn reminders_are_ids_of_lints() {
    let reminders: Vec<_> = lint_ids().into_iter().filter(|id| is_reminder(id)).collect();
    assert_eq!(reminders, table::REMINDERS);
}
