//! `/etc/kernel/cmdline`.

use super::super::bls::Reader::{Grub, SystemdBoot};
use super::super::kernel_cmdline::{cmdline, edited};
use super::edit;

#[test]
fn blanks_collapse() {
    assert_eq!(
        cmdline("root=UUID=1  ro\n\tquiet\n", SystemdBoot).as_deref(),
        Ok("root=UUID=1 ro quiet")
    );
    assert_eq!(
        cmdline("ro pci=config_acs=\"a;b\"\n", Grub).as_deref(),
        Ok("ro pci=config_acs=a;b")
    );
}

#[test]
fn edit_keeps_unowned_text() {
    let wish = edit(&["iommu=pt", "pci=config_acs=a;b"], &[]);
    assert_eq!(
        edited("root=UUID=1  ro\nquiet\n", SystemdBoot, &wish).as_deref(),
        Ok("root=UUID=1  ro\nquiet iommu=pt pci=config_acs=a;b\n")
    );
    assert_eq!(
        edited("root=UUID=1  ro\nquiet\n", Grub, &wish).as_deref(),
        Ok("root=UUID=1  ro quiet iommu=pt pci=config_acs=\"a;b\"\n")
    );
    assert_eq!(edited("ro", SystemdBoot, &wish).as_deref(), Ok("ro iommu=pt pci=config_acs=a;b\n"));
    let same = "iommu=pt\npci=config_acs=\"a;b\"";
    assert_eq!(edited(same, Grub, &wish).as_deref(), Ok(same));
}
