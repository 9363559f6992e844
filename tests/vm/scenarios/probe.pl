#!/usr/bin/perl
# Tries, from inside a unit, what it should not be able to do; prints a line for each thing that it could.
use strict;
use Errno;
use Fcntl;
use POSIX ();
use Socket;

$| = 1;
sub could { print "$_[0]\n" if $_[1] }
sub opens { my ($how, $file) = @_; open(my $handle, $how, $file) }
sub creates {
    my $file = "$_[0]/bedplate-probe";
    my $made = opens('>', $file);
    unlink $file if $made;
    $made;
}
# In a process of its own: what it changes of itself is not for the attempts after it.
sub apart {
    my $act = shift;
    my $child = fork // return 0;
    POSIX::_exit($act->() ? 0 : 1) unless $child;
    waitpid($child, 0) == $child && $? == 0;
}

# A directory that cannot be seen cannot be written either.
could("write $_", creates($_)) for qw(/usr /dev /etc /etc/systemd/system /etc/bedplate /var /var/lib/bedplate /var/lib/bedplate/daemon /run /run/bedplate /run/systemd/system /boot /root
    /home);
could("write $_ by way of process 1", creates("/proc/1/root$_")) for qw(/usr /etc);
my $home = (getpwuid 0)[7];
could("read /root", opens('<', "$home/secret"));
could("read /etc/shadow", opens('<', '/etc/shadow'));
could("read /root by way of process 1", opens('<', "/proc/1/root$home/secret"));
could("write /sys", opens('+<', '/sys/kernel/mm/transparent_hugepage/enabled'));
could("write /proc/sys", opens('+<', '/proc/sys/vm/swappiness'));
could("write core_pattern", opens('+<', '/proc/sys/kernel/core_pattern'));
could("see containers' mounts", -e '/run/containerd/mounts');
could("write /dev/kmsg", opens('>', '/dev/kmsg'));
could("read a disk", opens('<', '/dev/vda'));
could("write a disk", opens('+<', '/dev/vda'));
could("open a character device", sysopen(my $line, '/dev/ttyS0', O_RDWR | O_NONBLOCK | O_NOCTTY));
could("open /dev/mem", opens('<', '/dev/mem'));
could("see process 1", -d '/proc/1');
could("see the files of process 1", defined readlink '/proc/1/fd/0');
could("read the memory of process 1", opens('<', '/proc/1/mem'));
could("write the memory of process 1", opens('+<', '/proc/1/mem'));
# Of root's, in the host's file system, with no capability: nothing that this one lacks.
open(my $pid, '<', '/etc/bedplate-victim') or die "who?\n";
chomp(my $victim = <$pid>);
could("write $_ by way of a process without rights", creates("/proc/$victim/root$_")) for '/usr';
could("write the memory of a process without rights", opens('+<', "/proc/$victim/mem"));
could("signal a process of root's", kill 0, $victim);

# RestrictAddressFamilies= refuses the first, IPAddressDeny= the second.
my $internet = socket(my $net, AF_INET, SOCK_STREAM, 0);
could("open an Internet socket", $internet);
# Packets that are dropped are sent again for two minutes.
my $reached = eval {
    local $SIG{ALRM} = sub { die };
    alarm 5;
    my $connected = $internet && connect($net, sockaddr_in(8080, INADDR_LOOPBACK));
    alarm 0;
    $connected;
};
could("reach the network", $reached);
could("load a module", 0 == system 'modprobe dummy 2>/dev/null');

# Numbers of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
my $mine = 'x' x 8;
my $vector = pack 'QQ', unpack('Q', pack 'P', $mine), 8;
could("call process_vm_writev", syscall(311, $$ + 0, $vector, 1, $vector, 1, 0) > 0);
# PTRACE_SEIZE; it ends with the process that asked for it.
could("trace a process", apart(sub { syscall(101, 0x4206, $victim + 0, 0, 0) == 0 }));
could("use keys", syscall(250, 0, -4, 1) > 0);
# CLONE_NEWUSER, which takes no capability.
could("make a namespace", apart(sub { syscall(272, 0x10000000) == 0 }));
could("mount", syscall(165, my $none = 'none', my $at = '/tmp', my $type = 'tmpfs', 0, 0) == 0);
my $time = "\0" x 16;
could("set the clock", syscall(228, 0, $time) == 0 && syscall(227, 0, $time) == 0);
could("use raw I/O ports", apart(sub { syscall(173, 0x80, 1, 1) == 0 }));
# A file that is not there is looked for only by a caller that may.
could("use swap", syscall(167, my $swap = '/nonexistent', 0) == -1 && $!{ENOENT});
# PROT_READ | PROT_WRITE | PROT_EXEC of MAP_PRIVATE | MAP_ANONYMOUS.
could("map memory to write and run", syscall(9, 0, 4096, 7, 0x22, -1, 0) > 0);
my $suid = "/var/tmp/bedplate-probe-$$";
open(my $file, '>', $suid);
could("make a set-user-ID file", chmod 04755, $suid);
unlink $suid;
open(my $status, '<', '/proc/self/status');
print grep { /^CapBnd/ } <$status>;
