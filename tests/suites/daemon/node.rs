//! The whole program on the rig's directories: daemon and worker are real, in their own namespaces.

use std::path::Path;
use std::process::{Child, Command, Output};

use bedplate_daemon::observation::ChangeKey;
use bedplate_tests::{fixtures, program};

use super::rig::Rig;

/// Mounts the rig's directories over those of the running machine.
pub struct Node<'a>(&'a Rig);

/// File that lists the profile's modules.
pub const LIST: &str = "etc/modules-load.d/bedplate.conf";
/// Id of the change that writes it.
pub const CHANGE: &str = "modules/etc/modules-load.d/bedplate.conf";

/// Returns the worker's argument for the change with this id.
pub fn only(id: &str) -> String {
    format!("--only={}", ChangeKey::of(id))
}

impl Node<'_> {
    /// A node whose profile requests a module that is loaded.
    pub fn new(rig: &Rig) -> Node<'_> {
        fixtures::user_namespaces();
        rig.write("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
        rig.write("etc/modules-load.d/README", "");
        rig.write("proc/modules", "loop 40960 0 - Live 0x0\n");
        rig.write("run/README", "");
        // The unit's StateDirectory=.
        rig.write("var/lib/bedplate/README", "");
        rig.write(
            "etc/bedplate/profile.toml",
            "schema = 1\nname = \"node\"\n[modules]\ngpudirect = \"none\"\nload = [\"loop\"]\n[agent]\nmode = \"enforce\"\n",
        );
        Node(rig)
    }

    /// A node on the rig's directories without changes.
    pub fn new_as_it_is(rig: &Rig) -> Node<'_> {
        Node(rig)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        let binds = "for at in etc run var/lib boot proc/modules; do [ -e \"/$at\" ] && [ -e \"$0/$at\" ] || continue; mount --bind \"$0/$at\" \"/$at\" || exit 99; done; exec \"$@\"";
        command
            .args(["-rm", "sh", "-c", binds])
            .arg(self.0.dir.path())
            .arg(program::path())
            .args(args);
        command.env("DBUS_SYSTEM_BUS_ADDRESS", self.0.address());
        command.env("SUDO_USER", "ada").env_remove("JOURNAL_STREAM").env_remove("NOTIFY_SOCKET");
        command
    }

    pub fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let Output { status, stdout, stderr } = self.command(args).output().expect("it starts");
        (
            status.code(),
            String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr),
        )
    }

    pub fn daemon(&self) -> Daemon {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.0.path("log"))
            .expect("ours");
        Daemon(self.command(&["daemon"]).stderr(log).spawn().expect("it starts"))
    }

    pub fn applied(&self) -> bool {
        Path::new(&self.0.path(LIST)).exists()
    }
}

/// A daemon that runs until it is dropped.
pub struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
