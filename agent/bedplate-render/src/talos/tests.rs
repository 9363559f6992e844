//! Tests of the Talos target.

use super::super::common::tests::{arg, build, desired, empty_desired, with_profile};
use super::*;

fn options(version: &str) -> Options {
    Options { talos_version: Some(version.to_owned()), ..Options::default() }
}

fn text<'a>(rendered: &'a RenderResult, path: &str) -> &'a str {
    &rendered.file(path).unwrap().text
}

#[test]
fn patch_until_1_11_has_arguments_after_removals() {
    let rendered = render(&build(&desired()), &options("1.11.6")).unwrap();
    let patch = text(&rendered, PATCH);
    let body = patch.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    assert_eq!(
        body,
        "machine:\n  install:\n    extraKernelArgs:\n    - -nomodeset\n    - -iommu=off\n    - iommu=pt\n    \
         - pci=realloc,config_acs=xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0\n    - hugepages=64\n  kernel:\n    \
         modules:\n    - name: ib_uverbs\n    - name: nvidia_peermem\n      parameters:\n      \
         - peerdirect_support=1\n  sysfs:\n    \"bus/pci/devices/0000:18:00.0/sriov_numvfs\": \"8\""
    );
    assert!(rendered.notes.iter().any(|note| note.contains("bootedWithUKI")));
}

#[test]
fn arguments_from_1_12_are_only_in_schematic() {
    for version in ["1.12", "1.13"] {
        let rendered = render(&build(&desired()), &options(version)).unwrap();
        let patch = text(&rendered, PATCH);
        assert!(
            !patch.contains("extraKernelArgs") && patch.contains("grubUseUKICmdline: true"),
            "{patch}"
        );
        assert!(text(&rendered, SCHEMATIC).contains("        - iommu=pt\n"));
    }
}

#[test]
fn patch_from_1_14_has_one_document_per_module_and_map() {
    let rendered = render(&build(&desired()), &options("1.14")).unwrap();
    let patch = text(&rendered, PATCH);
    let body = patch.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    assert_eq!(
        body,
        "apiVersion: v1alpha1\nkind: KernelModuleConfig\nname: ib_uverbs\n---\napiVersion: v1alpha1\n\
         kind: KernelModuleConfig\nname: nvidia_peermem\nparameters:\n- peerdirect_support=1\n---\n\
         apiVersion: v1alpha1\nkind: SysfsConfig\nparams:\n  \"bus/pci/devices/0000:18:00.0/sriov_numvfs\": \"8\""
    );
    assert!(text(&rendered, SCHEMATIC).contains("        - iommu=pt\n"));
}

#[test]
fn different_id_of_older_factory_is_noted() {
    let mut desired = empty_desired();
    desired.cmdline.set.push(arg("on"));
    let rendered = render(&build(&desired), &options("1.13")).unwrap();
    assert!(text(&rendered, SCHEMATIC).ends_with("- 'on'\n"));
    assert!(rendered.notes.iter().any(|note| note.contains("before 1.5")));
}

#[test]
fn schematic_has_no_heading_and_its_id_is_noted() {
    let mut options = options("1.10");
    options.talos_extensions =
        vec!["siderolabs/gvisor".to_owned(), "siderolabs/intel-ucode".to_owned()];
    let mut desired = empty_desired();
    desired.cmdline.set.push(arg("net.ifnames=0"));
    let rendered = render(&build(&desired), &options).unwrap();
    assert!(text(&rendered, SCHEMATIC).starts_with("customization:\n"));
    let id = "b8e8fbbe1b520989e6c52c8dc8303070cb42095997e76e812fa8892393e1d176";
    assert_eq!(text(&rendered, SCHEMATIC_ID), format!("{id}\n"));
    assert!(rendered.notes.iter().any(|note| note.contains(id)));
}

#[test]
fn empty_profile_renders_no_patch_and_empty_schematic() {
    let rendered = render(&build(&empty_desired()), &options("1.13")).unwrap();
    assert!(rendered.file(PATCH).is_none());
    assert_eq!(text(&rendered, SCHEMATIC), "customization: {}\n");
    assert_eq!(rendered.inexpressible, []);
}

#[test]
fn arguments_split_or_reordered_by_talos_are_listed() {
    let mut desired = empty_desired();
    let torn = "dyndbg=\"file a.c +p\"";
    for token in [torn, "hugepagesz=1G", "hugepages=16", "hugepagesz=2M", "hugepages=1024", "quiet"]
    {
        desired.cmdline.set.push(arg(token));
    }
    let rendered = render(&build(&desired), &options("1.12")).unwrap();
    assert_eq!(
        text(&rendered, SCHEMATIC),
        "customization:\n    extraKernelArgs:\n        - quiet\n"
    );
    assert_eq!(rendered.inexpressible.len(), 5);
    assert_eq!(rendered.inexpressible[0].what, format!("kernel argument `{torn}`"));

    let mut one_size = empty_desired();
    for token in ["hugepagesz=1G", "hugepages=16"] {
        one_size.cmdline.set.push(arg(token));
    }
    assert_eq!(render(&build(&one_size), &options("1.12")).unwrap().inexpressible, []);
}

#[test]
fn modprobe_settings_and_vf_drivers_are_listed() {
    let mut desired = desired();
    desired.sriov[0].rule.vf_driver = VfDriver::Named("vfio-pci".to_owned());
    let rendered = render(&build(&desired), &options("1.11")).unwrap();
    let listed = |what: &str| rendered.inexpressible.iter().any(|item| item.what == what);
    assert!(listed("option netns_mode=1 of module ib_core"));
    assert!(!listed("option peerdirect_support=1 of module nvidia_peermem"));
    assert!(listed("blacklist module nouveau"));
    assert!(listed("VFs of rule compute with driver vfio-pci"));
}

#[test]
fn nvidia_modules_without_extension_cause_note() {
    let noted = |options: &Options| {
        render(&build(&desired()), options)
            .unwrap()
            .notes
            .iter()
            .any(|note| note.contains("system extensions"))
    };
    let mut options = options("1.11");
    assert!(noted(&options));
    options.talos_extensions.push("siderolabs/nvidia-open-gpu-kernel-modules-lts".to_owned());
    assert!(!noted(&options));
}

#[test]
fn sysctl_keys_are_written_like_sysctl_d() {
    let sections = "[sysctl]\nset = { \"kernel.numa_balancing\" = 0, \"net.ipv4.tcp_rmem\" = \"4096 1 2\", \
                    \"net/ipv4/conf/eth0.100/rp_filter\" = 2 }\n";
    let rendered = render(&with_profile(sections, &empty_desired()), &options("1.13")).unwrap();
    let patch = text(&rendered, PATCH);
    assert!(
        patch.ends_with(
            "machine:\n  sysctls:\n    kernel.numa_balancing: \"0\"\n    net.ipv4.tcp_rmem: 4096 1 2\n    \
             net/ipv4/conf/eth0.100/rp_filter: \"2\"\n"
        ),
        "{patch}"
    );
    assert_eq!(rendered.inexpressible, []);
}

#[test]
fn file_without_talos_setting_is_listed() {
    let mut build = build(&empty_desired());
    let path = "/etc/udev/rules.d/99-bedplate.rules";
    build.files.push(ConfigFile { path, text: String::new(), settings: Vec::new() });
    let rendered = render(&build, &options("1.13")).unwrap();
    assert_eq!(rendered.inexpressible.len(), 1);
    assert_eq!(rendered.inexpressible[0].what, path);
}
