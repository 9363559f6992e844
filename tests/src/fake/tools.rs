//! Tools of the fake machine. They work in steps, as real ones do, so that they can be stopped half-way.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use bedplate_host::{ToolEnd, ToolOutput};

use super::Fuse;

/// Boot configuration that `update-grub` generates.
pub const GRUB_CFG: &str = "/boot/grub/grub.cfg";

/// Behaviour of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// It succeeds.
    #[default]
    Works,
    /// It writes half of its file and fails.
    Fails,
    /// It writes half of its file and hangs.
    Hangs,
    /// It is not installed.
    Missing,
    /// It reports success without doing anything.
    Lies,
}

/// Tools of a machine.
#[derive(Clone, Default)]
pub struct Tools {
    /// Behaviour of `update-grub`, which joins `/etc/default/grub` and its drop-ins into [`GRUB_CFG`].
    pub update_grub: Mood,
}

impl Tools {
    /// Runs a tool.
    pub fn run(&self, root: &Path, fuse: &Fuse, argv: &[String]) -> ToolOutput {
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        match words[..] {
            ["update-grub"] => self.update_grub(root, fuse),
            ["modprobe", "--", module] => {
                let directory = super::at(root, &format!("/sys/module/{module}"));
                let made = fs::create_dir_all(&directory);
                result(made.and_then(|()| fs::write(directory.join("initstate"), "live\n")))
            }
            ["modprobe", "-r", "--", module] => {
                result(fs::remove_dir_all(super::at(root, &format!("/sys/module/{module}"))))
            }
            ["state", token] => result(fs::write(
                super::at(root, "/state"),
                fs::read_to_string(super::at(root, "/state")).unwrap_or_default() + token + "\n",
            )),
            ["unstate", token] => {
                let text = fs::read_to_string(super::at(root, "/state")).unwrap_or_default();
                result(fs::write(
                    super::at(root, "/state"),
                    text.replace(&format!("{token}\n"), ""),
                ))
            }
            ["systemctl", "daemon-reload"] => exited(0, ""),
            _ => not_installed(words[0]),
        }
    }

    fn update_grub(&self, root: &Path, fuse: &Fuse) -> ToolOutput {
        if self.update_grub == Mood::Missing {
            return not_installed("update-grub");
        }
        if self.update_grub == Mood::Lies {
            return exited(0, "done\n");
        }
        let text = grub_cfg(root);
        let (first, second) = text.split_at(text.len() / 2);
        let file = fs::File::create(super::at(root, GRUB_CFG));
        let mut file =
            match file.and_then(|mut file| file.write_all(first.as_bytes()).map(|()| file)) {
                Ok(file) => file,
                Err(error) => return result(Err(error)),
            };
        match self.update_grub {
            Mood::Fails => {
                return exited(1, "Generating grub configuration file ...\nsyntax error\n");
            }
            Mood::Hangs => {
                return ToolOutput { end: ToolEnd::TimedOut, output: "Generating ...\n".into() };
            }
            Mood::Works | Mood::Missing | Mood::Lies => {}
        }
        // A signal that kills bedplate half-way may also kill the tool.
        if fuse.step("second half of grub.cfg").is_err() {
            return ToolOutput { end: ToolEnd::Signal(9), output: String::new() };
        }
        result(file.write_all(second.as_bytes()))
    }
}

/// Output of `update-grub` for the current files.
pub fn grub_cfg(root: &Path) -> String {
    let mut text = String::from("# made by update-grub\n");
    text += &fs::read_to_string(super::at(root, "/etc/default/grub")).unwrap_or_default();
    let mut drop_ins: Vec<_> = fs::read_dir(super::at(root, "/etc/default/grub.d"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    drop_ins.sort();
    for path in drop_ins.iter().filter(|path| path.extension().is_some_and(|end| end == "cfg")) {
        text += &fs::read_to_string(path).unwrap_or_default();
    }
    text
}

fn result(done: std::io::Result<()>) -> ToolOutput {
    match done {
        Ok(()) => exited(0, "done\n"),
        Err(error) => exited(1, &format!("{error}\n")),
    }
}

fn exited(status: i32, output: &str) -> ToolOutput {
    ToolOutput { end: ToolEnd::Exited(status), output: output.to_owned() }
}

fn not_installed(name: &str) -> ToolOutput {
    ToolOutput {
        end: ToolEnd::NotStarted(format!("{name} is not installed")),
        output: String::new(),
    }
}
