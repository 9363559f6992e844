//! Hosts with both TuneD and bedplate.

use super::instances::{blockers, debian, fits, rhel};
use super::*;

const TUNED: &str = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n\
    GRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }\\$tuned_params\"\n";

/// A Debian or RHEL 8 host on which TuneD is active.
fn tuned(loader: &str, params: &str) -> Host {
    let mut host = match loader {
        "debian" => debian(TUNED),
        _ => rhel("rhel8", ROOT),
    };
    set_tuned(&mut host, loader, params);
    host.put("/etc/tuned/active_profile", b"latency-performance\n");
    host
}

fn set_tuned(host: &mut Host, loader: &str, params: &str) {
    if loader == "debian" {
        host.menu_head = Box::leak(format!("set tuned_params=\"{params}\"\n").into_boxed_str());
        return host.regenerate_grub("/bin/sh", "/boot/grub/grub.cfg");
    }
    let text = host.text("/boot/grub2/grubenv").unwrap();
    let mut block = bedplate_cmdline::boot::grubenv::Grubenv::parse(&text).unwrap();
    block.set("tuned_params", params).unwrap();
    host.put("/boot/grub2/grubenv", block.render().as_bytes());
}

#[test]
fn tuned_arguments_are_not_added_again() {
    let wish = "args = ['numa_balancing=disable']";
    for loader in ["debian", "rhel8"] {
        let mut host = tuned(loader, "iommu.passthrough=1 numa_balancing=disable");
        host.put("/proc/cmdline", b"ro numa_balancing=disable\n");
        let plan = host.plan(wish);
        assert_eq!((plan.changes.len(), blockers(&plan).len()), (0, 0), "{loader}: {plan:?}");
        let state = &plan.unchanged[0].state;
        assert!(state.contains("TuneD profile latency-performance"), "{loader}: {state}");
        assert_eq!(host.apply("args = ['numa_balancing=disable', 'iommu=pt', 'nosmt']"), Ok(()));
        let line = host.next().to_string();
        assert_eq!(line.matches("numa_balancing").count(), 1, "{loader}: {line}");
        assert!(line.contains("nosmt") && !line.contains("iommu=pt"), "{loader}: {line}");
        // Dropped by the profile, the argument stays as long as TuneD adds it.
        assert_eq!(host.apply("args = ['nosmt']"), Ok(()), "{loader}");
        assert_eq!(host.plan("args = ['nosmt']").changes.len(), 0, "{loader}");
        // TuneD no longer adds it: drift.
        set_tuned(&mut host, loader, "");
        assert_eq!(host.apply(wish), Ok(()), "{loader}");
        let line = host.next().to_string();
        assert_eq!(line.matches("numa_balancing=disable").count(), 1, "{loader}: {line}");
    }
}

#[test]
fn options_partly_set_by_tuned_are_completed() {
    let mut host = tuned("debian", "pci=realloc");
    assert_eq!(host.apply("args = ['pci=realloc,noats']"), Ok(()));
    assert!(host.next().to_string().contains("noats"), "{}", host.next());
}

#[test]
fn conflict_with_tuned_is_a_blocker() {
    for loader in ["debian", "rhel8"] {
        for wish in ["args = ['numa_balancing=enable']", "absent = ['numa_balancing']"] {
            let plan = tuned(loader, "numa_balancing=disable").plan(wish);
            assert!(
                blockers(&plan)[0].contains("TuneD profile latency-performance"),
                "{loader}: {plan:?}"
            );
            assert_eq!(plan.changes.len(), 0, "{loader} {wish}");
        }
    }
}

/// bedplate's argument is the last one on the line, so it takes effect.
#[test]
fn tuned_conflict_without_effect_is_noted() {
    for loader in ["debian", "rhel8"] {
        let mut host = tuned(loader, "");
        let wish = "args = ['numa_balancing=enable']";
        assert_eq!(host.apply(wish), Ok(()), "{loader}");
        set_tuned(&mut host, loader, "numa_balancing=disable");
        let plan = host.plan(wish);
        let notes: Vec<&str> = plan.notes.iter().map(|note| note.text.as_str()).collect();
        let all = [notes, blockers(&plan)].concat().join("\n");
        assert!(all.contains("TuneD profile latency-performance adds"), "{loader}: {all}");
        assert!(all.contains("numa_balancing=enable"), "{loader}: {all}");
    }
}

/// `$tuned_params` of entry files, which grub.cfg sets and the environment block does not.
#[test]
fn tuned_params_of_grub_cfg_apply_to_entry_files() {
    let host = || {
        let mut host = tuned("rhel8", "");
        let cfg = host.text("/boot/grub2/grub.cfg").unwrap();
        let set = "set tuned_params=\"numa_balancing=disable\"\ninsmod blscfg\n";
        host.put("/boot/grub2/grub.cfg", cfg.replace("insmod blscfg\n", set).as_bytes());
        host
    };
    let plan = host().plan("args = ['numa_balancing=disable']");
    assert_eq!((plan.changes.len(), blockers(&plan).len()), (0, 0), "{plan:?}");
    let plan = host().plan("args = ['numa_balancing=enable']");
    assert!(blockers(&plan)[0].contains("TuneD profile latency-performance"), "{plan:?}");
}

#[test]
fn length_includes_tuned_arguments() {
    let front = format!("BOOT_IMAGE=/boot/vmlinuz-{KERNEL} {ROOT} quiet ");
    let long = |long: &str| tuned("debian", long);
    fits(&front, &long);
}
