//! Detection of NVIDIA's Arm CPUs by root ports, GPUs and kernels of fake hosts.

#![allow(clippy::unwrap_used, missing_docs)]

use bedplate_base::Reading;
use bedplate_facts::kernel_config::kernel_config;
use bedplate_facts::superchip::{Superchip, smmu_sva, superchip};
use bedplate_facts::{Depth, observe};
use bedplate_host::snapshot::Snapshot;
use bedplate_testhosts::HostSpec;

fn host(text: &str) -> Snapshot {
    HostSpec::from_toml(text).unwrap().build()
}

fn chip(text: &str) -> Superchip {
    superchip(&observe(&host(text), Depth::Plan))
}

/// Returns an Arm host with a GPU below a root port with these ids.
fn bare(port: &str, gpu: &str) -> String {
    format!(
        "machine = \"bare\"\ncpu = \"arm\"\nnvidia = \"open\"\nkernel = \"5.15.0-1012-generic\"\niommu = \"passthrough\"\n\
         pci = [\n  {{ at = \"0005:00:00.0\", is = \"root-port\", id = \"10de:{port}\" }},\n  \
         {{ at = \"0005:01:00.0\", is = \"gpu\", id = \"10de:{gpu}\", under = \"0005:00:00.0\" }},\n]\n"
    )
}

#[test]
fn tegra_is_no_superchip() {
    for port in ["229a", "229c", "229e", "1ad0", "0fae", "22d8", "22e6"] {
        assert_eq!(chip(&bare(port, "2230")), Superchip::No, "{port}");
    }
    // Thor, by the GPU inside, below a port whose id is not listed.
    assert_eq!(chip(&bare("22ff", "2b00")), Superchip::No);
    assert_eq!(chip(&bare("22b1", "2230")), Superchip::Translated);
}

#[test]
fn gpus_of_superchips_are_known_below_foreign_ports() {
    for gpu in ["2342", "2941", "2e12", "31a1", "31c2", "31c3"] {
        assert_eq!(chip(&bare("229c", gpu)), Superchip::Translated, "{gpu}");
    }
}

#[test]
fn requirements_depend_on_series_and_flavour() {
    for (kernel, expected) in [
        ("6.5.0-1024-nvidia-64k", Superchip::Translated),
        ("6.8.0-45-generic-64k", Superchip::Translated),
        ("6.8.0-1025-nvidia-64k", Superchip::PassthroughNotKnown),
        ("6.10.14", Superchip::Translated),
        ("6.11.0-1002-nvidia-64k", Superchip::Either),
        ("6.12.93", Superchip::Either),
    ] {
        let found = chip(&format!("machine = \"gb200\"\nkernel = \"{kernel}\"\n"));
        assert_eq!(found, expected, "{kernel}");
    }
}

#[test]
fn sva_is_unknown_unless_configuration_names_it() {
    let sva = |machine: &str, config: &str| {
        let files = format!("[files]\n\"/boot/config-6.12.93\" = '''\n{config}'''\n");
        let host = host(&format!("machine = \"{machine}\"\nkernel = \"6.12.93\"\n{files}"));
        smmu_sva(&host, &observe(&host, Depth::Plan))
    };
    let (on, off) = ("CONFIG_ARM_SMMU_V3_SVA=y\n", "# CONFIG_ARM_SMMU_V3_SVA is not set\n");
    assert_eq!(sva("gb200", on), Reading::Known(true));
    assert_eq!(sva("gb200", off), Reading::Known(false));
    assert!(matches!(sva("gb200", "CONFIG_ARM64_4K_PAGES=y\n"), Reading::Unknown(_)));
    assert_eq!(sva("hgx", off), Reading::Absent);
}

#[test]
fn kernel_configuration_is_in_boot_or_next_to_modules() {
    let (boot, modules) = ("/boot/config-6.12.93", "/usr/lib/modules/6.12.93/config");
    let config = |lines: &str| {
        let host = host(&format!("machine = \"gb200\"\nkernel = \"6.12.93\"\n{lines}"));
        kernel_config(&host, "6.12.93")
    };
    let beside = format!("[files]\n\"{modules}\" = 'CONFIG_B=y'\n");
    let is_beside = Reading::Known("CONFIG_B=y".to_owned());
    assert!(matches!(config(&beside), Reading::Known(text) if text.contains("CONFIG_AMD_IOMMU=y")));
    assert_eq!(config(&format!("remove = ['{boot}']\n{beside}")), is_beside);
    assert_eq!(config(&format!("denied = ['{boot}']\n{beside}")), is_beside);
    assert_eq!(config(&format!("remove = ['{boot}']\n")), Reading::Absent);
    assert!(matches!(config(&format!("denied = ['{boot}']\n")), Reading::Unknown(_)));
    let unread = format!("remove = ['{boot}']\ndenied = ['{modules}']\n");
    assert!(matches!(config(&unread), Reading::Unknown(_)));
}
