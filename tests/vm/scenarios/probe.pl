#!/usr/bin/perl
# Tries, from inside a unit, what it should not be able to do; prints a line for each thing that it could.
use strict;
use Socket;

sub could { print "$_[0]\n" if $_[1] }

for my $dir (qw(/usr /etc /var /var/lib/bedplate /run /run/bedplate /run/systemd/system /boot /root /home
    /proc/1/root/usr /proc/1/root/etc)) {
    my $file = "$dir/bedplate-probe";
    # A directory that cannot be seen cannot be written either.
    my $made = open(my $handle, '>', $file);
    could("write $dir", $made);
    unlink $file if $made;
}
# Of another process of root's, with no more rights than this one may have.
for my $stat (glob '/proc/[0-9]*/root/usr') {
    next if $stat =~ m{^/proc/(1|$$)/};
    my $made = open(my $handle, '>', "$stat/bedplate-probe");
    could("write /usr by way of another process", $made);
    if ($made) { unlink "$stat/bedplate-probe"; last }
}
could("write /sys", open(my $sys, '+<', '/sys/kernel/mm/transparent_hugepage/enabled'));
could("write /proc/sys", open(my $sysctl, '+<', '/proc/sys/vm/swappiness'));
could("write /dev/kmsg", open(my $kmsg, '>', '/dev/kmsg'));
could("read a disk", open(my $disk, '<', '/dev/vda'));
could("write a disk", open(my $raw, '+<', '/dev/vda'));
could("see process 1", -d '/proc/1');
could("see the files of process 1", defined readlink '/proc/1/fd/0');
my $net;
could("use the network", socket($net, AF_INET, SOCK_STREAM, 0) && connect($net, sockaddr_in(8080, INADDR_LOOPBACK)));
could("use packet sockets", socket(my $packet, 17, SOCK_DGRAM, 0));
could("load a module", 0 == system 'modprobe dummy 2>/dev/null');

my $mine = 'x' x 8;
my $vector = pack 'QQ', unpack('Q', pack 'P', $mine), 8;
# Numbers of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
could("write another process's memory", syscall(311, $$ + 0, $vector, 1, $vector, 1, 0) > 0);
could("use keys", syscall(250, 0, -4, 1) > 0);
could("make a namespace", syscall(272, 0x20000000) == 0);
could("mount", syscall(165, my $none = 'none', my $at = '/tmp', my $type = 'tmpfs', 0, 0) == 0);
my $suid = "/var/tmp/bedplate-probe-$$";
open(my $file, '>', $suid);
could("make a set-user-ID file", chmod 04755, $suid);
unlink $suid;
open(my $status, '<', '/proc/self/status');
print grep { /^CapBnd/ } <$status>;
