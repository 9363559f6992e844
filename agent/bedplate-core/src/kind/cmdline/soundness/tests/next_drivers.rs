//! Drivers of the next kernel.

use super::*;

#[test]
fn driver_missing_in_next_kernel_is_a_fault() {
    let next = "6.17.0-3-generic";
    let host = |modules: &str| {
        let text = format!("machine = 'hgx'\nkernel = '{next}'\nolder-kernels = ['{KERNEL}']");
        let spec = HostSpec::from_toml(&text).unwrap();
        Case(spec.build())
            .file("/proc/sys/kernel/osrelease", &format!("{KERNEL}\n"))
            .file(&format!("/usr/lib/modules/{next}/modules.dep"), modules)
    };
    let all = "updates/dkms/nvidia.ko.zst:\nupdates/dkms/mlx5_core.ko.zst:\nkernel/nvme.ko:\n";
    assert_sound("all drivers", host(all));
    assert_fault("no GPU driver", host("kernel/mlx5_core.ko:\n"), "module nvidia is");
    assert_fault("no NIC driver", host("kernel/nvidia.ko:\n"), "module mlx5_core is");
    // Loaded from a container, as GPU operators do.
    let container = host("kernel/mlx5_core.ko:\n")
        .file(&format!("/usr/lib/modules/{KERNEL}/modules.dep"), "kernel/mlx5_core.ko:\n");
    assert_sound("driver from a container", container);
}
