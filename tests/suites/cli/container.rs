//! A running host and its containers. Each host is a process 1 in PID and mount namespaces of its own, with /etc, /boot
//! and /var/lib from a directory. Each container has its own root directory, with the host at /host.

use std::path::PathBuf;
use std::process::{Command, Output};

use bedplate_tests::{fixtures, program};

use crate::session::Session;

/// Runs a command on the host. It must not replace process 1.
const HOST: &str = r#"
mount --make-rprivate / || exit 99
for at in etc boot var/lib; do mount --bind "$0/$at" "/$at" || exit 99; done
cd / || exit 99
"$@"
exit $?
"#;

/// Runs a command in a container: the directory, commands of the test, then the command.
const CONTAINER: &str = r#"
set -e
dir=$0; setup=$1; shift
mount --rbind / "$dir/h"
mount -t tmpfs container "$dir/c"
cd "$dir/c"
mkdir host proc sys tmp
mount --move "$dir/h" host
for at in usr bin lib lib64 sbin; do
    if [ -L "/$at" ]; then cp -P "/$at" "$at"; elif [ -d "/$at" ]; then mkdir "$at"; mount --rbind "/$at" "$at"; fi
done
cp "$dir/bedplate" bedplate
chmod 755 . bedplate
mount -t proc proc proc
mount -o bind,remount,ro host
eval "$setup"
exec chroot . "$@"
"#;

const PROFILE: &str = r#"
schema = 1
name = "node"
extends = "generic-intel"
[sysctl]
set = { "net.core.rmem_max" = 7654321, "kernel.pid_max" = 1234567, "vm.max_map_count" = 7654321 }
"#;

/// A host, and the commands that run on it or in its containers.
pub struct Host(pub Session);

impl Host {
    pub fn new() -> Self {
        fixtures::root();
        let session = Session::new();
        session
            .file("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n")
            .file("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet host\"\n")
            .file(
                "etc/fstab",
                "/dev/sda1 / ext4 defaults 0 1\nLABEL=boot /boot ext4 defaults 0 2\n",
            )
            .file("etc/bedplate/profile.toml", PROFILE)
            .file(
                "boot/grub/grub.cfg",
                "menuentry 'A' --id a {\n linux /vmlinuz-6.1.0 root=/dev/sda1 ro quiet\n}\n",
            )
            .file("boot/vmlinuz-6.1.0", "")
            .file("var/lib/README", "");
        for directory in ["h", "c"] {
            std::fs::create_dir(session.path(directory)).expect("a directory");
        }
        std::fs::copy(program::path(), session.path("bedplate")).expect("a copy");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(session.path("."), open).expect("ours");
        let secret = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(session.path("boot/grub/grub.cfg"), secret).expect("ours");
        Host(session)
    }

    fn directory(&self) -> PathBuf {
        self.0.path("")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", HOST]);
        command.arg(self.directory()).env("COLUMNS", "1000").env("TERM", "dumb");
        command
    }

    /// Runs bedplate on the host itself.
    pub fn run(&self, wrapper: &[&str], args: &[&str]) -> Output {
        let mut command = self.command();
        command.args(wrapper).arg(self.directory().join("bedplate")).args(args);
        command.output().expect("unshare runs")
    }

    /// Runs bedplate in a container.
    pub fn contain(&self, own: &[&str], setup: &str, wrapper: &[&str], args: &[&str]) -> Output {
        let mut command = self.command();
        command.args(["unshare", "--mount"]).args(own).args(["--fork", "sh", "-c", CONTAINER]);
        command.arg(self.directory()).arg(setup).args(wrapper).arg("/bedplate").args(args);
        command.output().expect("unshare runs")
    }
}
