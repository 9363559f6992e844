# Makes a Debian guest that was started without a loader boot by systemd-boot: with the package's own tools, as an
# administrator would. $1: bls (an entry a kernel) or uki (an image a kernel).
set -eu
layout=$1
mount /boot/efi
mkdir -p /etc/kernel
printf 'root=LABEL=root ro console=ttyS0,115200 mitigations=off quiet\n' >/etc/kernel/cmdline
printf 'layout=%s\n' "$layout" >/etc/kernel/install.conf
[ "$layout" = bls ] || printf 'uki_generator=ukify\n' >>/etc/kernel/install.conf
export DEBIAN_FRONTEND=noninteractive
dpkg --purge --force-depends grub-pc grub-pc-bin grub-efi-amd64-bin grub2-common grub-common
rm -rf /boot/grub /etc/default/grub /etc/default/grub.d /boot/efi/EFI/BOOT
dpkg -i /var/lib/vm/systemd-boot/*.deb
# Installing the package has installed the loader and an entry for the kernel; the loader goes first.
bootctl is-installed
sed -i 's/noauto,//' /etc/fstab
bootctl list
sync
