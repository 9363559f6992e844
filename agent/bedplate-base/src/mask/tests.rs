//! Tests of which text is shown and which is masked.

use super::*;

#[test]
fn arguments_keep_their_names_and_harmless_values() {
    for shown in [
        "iommu=pt",
        "pci=config_acs=xx000x0@0000:17:00.0;xx000x0@0000:18:00.0",
        "pci=disable_acs_redir=0000:15:01.0",
        "hugepagesz=1G hugepages=64 console=ttyS0,115200n8",
        "BOOT_IMAGE=/boot/vmlinuz-6.8.0-45-generic ro quiet",
        "foo.bar=1 foo.baz=off",
        "`--allow-lint 'amd-iommu-on=REASON'`",
        "a <= b, c == d",
        "write the current line (with root=) to /etc/kernel/cmdline",
        "mlxconfig -d 0000:18:00.0 set NUM_OF_VFS=1024 SRIOV_EN=1",
        "in /etc/default/grub.d/z.cfg, write GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT …\", or rename it",
        "`for unit in worker loader; do d=/etc/systemd/system/bedplate-$unit@.service.d; mkdir -p $d && cp /x $d/; done`",
        "`args = [\"pci=pcie_bus_safe\"]` in [cmdline] of the profile",
    ] {
        assert_eq!(mask_message(shown), shown);
    }
}

#[test]
fn everything_else_is_masked() {
    for (given, clean) in [
        ("rd.luks.key=/hunter2 ro", "rd.luks.key=… ro"),
        ("ip=10.1.2.3::10.1.2.1 quiet", "ip=… quiet"),
        ("`password=hunter2` is still there", "`password=…` is still there"),
        ("x=\"two words\" y=hunter2", "x=… y=…"),
        ("`dyndbg=\"never closed words` is odd", "`dyndbg=…` is odd"),
        ("systemd.pin=482 luks.pin=4821", "systemd.pin=… luks.pin=…"),
        ("console=ttyS0,52:54:00:12:34:56", "console=…"),
        ("BOOT_IMAGE=/hunter2/vmlinuz-6.8", "BOOT_IMAGE=…"),
        ("root=UUID=6a4d3b2c-1f0e-4d5c-8b7a-990011223344", "root=…"),
        ("run grubby --args=rd.luks.key=hunter2", "run grubby --args=…"),
        ("write X=\"$GRUB_CMDLINE_LINUX hunter2\"", "write X=…"),
        ("d=/etc/hunter2", "d=…"),
        ("password=$HUNTER", "password=…"),
        ("x=$hunter2 y=$(HUNTER)", "x=… y=…"),
        ("see http://me:word@lock.example/x", "see http://…@lock.example/x"),
    ] {
        assert_eq!(mask_message(given), clean, "{given}");
    }
}

#[test]
fn quotations_show_only_own_words() {
    let ours = |word: &str| word == "busy_command";
    let message =
        "`busy_command` must be a list, not `hunter2`: invalid type: string \"word\", expected `";
    let clean = "`busy_command` must be a list, not `…`: invalid type: string \"…\", expected `…";
    assert_eq!(quotations(message, &ours), clean);
}

#[test]
fn server_is_shown_without_credentials() {
    assert_eq!(server("https://me:word@lock.example:90/hunter2/?t=1"), "https://lock.example:90/");
    assert_eq!(server("hunter2"), "…");
}
