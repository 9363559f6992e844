//! Units of parameters: an edit of one unit leaves the others unchanged.

use super::{edited, rows};

/// Lines before, the argument to set for a parameter whose occurrences add up, and lines after.
const UNITS: &str = r#"
    video=DP-1:d video=efifb:off | video=DP-2:d | video=DP-1:d video=efifb:off video=DP-2:d
    video=DP-1:d video=DP-2:e a | video=DP-1:1024x768 | video=DP-1:1024x768 video=DP-2:e a
    video=640x480 video=DP-1:d | video=800x600 | video=800x600 video=DP-1:d
    crashkernel=1G,high crashkernel=256M,low | crashkernel=2G,high | crashkernel=2G,high crashkernel=256M,low
    crashkernel=1G,high crashkernel=256M,low | crashkernel=128M,low | crashkernel=1G,high crashkernel=128M,low
    crashkernel=1G-4G:192M,4G-:512M | crashkernel=1G | crashkernel=1G
    # The kernel reads `,high` only without a plain one.
    crashkernel=1G-4G:192M,4G-:512M a | crashkernel=2G,high | crashkernel=2G,high a
    crashkernel=64M,cma | crashkernel=1G | crashkernel=64M,cma crashkernel=1G
    dyndbg="file a +p" | dyndbg="file b +p" | dyndbg="file a +p" dyndbg="file b +p"
    dyndbg="file a +p" dyndbg="func f +p" | dyndbg="file a -p" | dyndbg="file a -p" dyndbg="func f +p"
    nvme.dyndbg="func a +p" | nvme.dyndbg="func b +p" | nvme.dyndbg="func a +p" nvme.dyndbg="func b +p"
    igb.dyndbg=+p | nvme.dyndbg=+p | igb.dyndbg=+p nvme.dyndbg=+p
    ip=eth0:dhcp ip=eth1:dhcp | ip=eth1:on | ip=eth0:dhcp ip=eth1:on
    ip=10.0.0.2::10.0.0.1:255.255.255.0:n:eth0:none | ip=eth1:dhcp | ip=10.0.0.2::10.0.0.1:255.255.255.0:n:eth0:none ip=eth1:dhcp
    ip=10.0.0.2::10.0.0.1:255.255.255.0:n:eth0:none | ip=eth0:dhcp | ip=eth0:dhcp
    ip=[2001:db8::2]::[2001:db8::1]:64:n:eth0:none | ip=eth0:auto6 | ip=eth0:auto6
    ip=dhcp | ip=on | ip=on
    nameserver=10.0.0.1 | nameserver=10.0.0.2 | nameserver=10.0.0.1 nameserver=10.0.0.2
    fbcon=map:1 fbcon=font:VGA8x8 | fbcon=map:0 | fbcon=map:0 fbcon=font:VGA8x8
    fbcon=nodefer | fbcon=rotate:1 | fbcon=nodefer,rotate:1
    console=tty0 a | console=ttyS0,115200 | console=tty0 a console=ttyS0,115200
    console=ttyS0,9600 console=tty0 a | console=ttyS0,115200 | console=tty0 console=ttyS0,115200 a
    # The kernel sets up the first one alone.
    earlycon=pl011,0x1 a | earlycon=uart8250,mmio,0x1 | earlycon=uart8250,mmio,0x1 a
    # The last one alone: the kernel keeps one pointer (drivers/mtd/parsers/cmdlinepart.c).
    mtdparts=a:1m b | mtdparts=c:2m | mtdparts=c:2m b
    efi=runtime efi=nochunk | efi=debug | efi=runtime efi=nochunk,debug
    efi=noruntime,debug | efi=runtime | efi=runtime,debug
    mce=no_cmci mce=off | mce | mce=no_cmci mce
    mce=no_cmci mce | mce=off | mce=no_cmci mce=off
    mce=bootlog mce=2 | mce=nobootlog | mce=nobootlog mce=2
    mce=2,500 mce=off | mce=3 | mce=3 mce=off
    acpi=noirq acpi=off | acpi=force | acpi=noirq acpi=force
    acpi=strict | acpi=noirq | acpi=strict acpi=noirq
    acpi_sleep=s3_bios a | acpi_sleep=nonvs | acpi_sleep=s3_bios,nonvs a
    acpi_sleep=s4_nohwsig,nonvs_s3 | acpi_sleep=s4_hwsig | acpi_sleep=s4_hwsig,nonvs_s3
    reboot=pci,force reboot=smp0 | reboot=cold | reboot=pci,force reboot=smp0,cold
    reboot=warm,bios | reboot=cold | reboot=cold,bios
    reboot=panic_warm,smp3 | reboot=smp0 | reboot=panic_warm,smp0
    reboot=s3,soft | reboot=cold | reboot=s3,cold
    ivrs_ioapic=10@0000:00:14.0 | ivrs_ioapic=11@0000:00:14.1 | ivrs_ioapic=10@0000:00:14.0 ivrs_ioapic=11@0000:00:14.1
    ivrs_hpet=[0]@0000:00:14.0 | ivrs_hpet=0@0000:00:14.1 | ivrs_hpet=0@0000:00:14.1
    ivrs_acpihid=AMD0020:0@00:14.5 | ivrs_acpihid=AMD0021:0@00:14.6 | ivrs_acpihid=AMD0020:0@00:14.5 ivrs_acpihid=AMD0021:0@00:14.6
    inst.addrepo=a,http://x | inst.addrepo=b,http://y | inst.addrepo=a,http://x inst.addrepo=b,http://y
    numa=noacpi numa=fake=4 | numa=off | numa=noacpi numa=fake=4 numa=off
    numa=noacpi numa=fake=4 | numa=fake=8 | numa=noacpi numa=fake=8
    memmap=1G!4G | memmap=2G!8G | memmap=1G!4G memmap=2G!8G
    tsc=reliable tsc=watchdog | tsc=nowatchdog | tsc=reliable tsc=nowatchdog
    intremap=nosid,off | intremap=on | intremap=nosid,on
    cgroup_no_v1=memory | cgroup_no_v1=pids | cgroup_no_v1=memory cgroup_no_v1=pids
    pci=noaer | pci=realloc | pci=noaer,realloc
"#;

/// For each parameter whose occurrences add up, unmanaged arguments of other units stay.
#[test]
fn edit_keeps_other_units() {
    for [before, wish, after] in rows(UNITS) {
        assert_eq!(edited(before, &[wish], &[]), after, "{wish}");
    }
}
