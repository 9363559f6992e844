//! Fake machines: file trees that are mounted over the running machine's own directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bedplate_testhosts::{HostSpec, write_tree};

use crate::Fallible;

/// A fake machine on disk.
pub struct Machine {
    pub name: &'static str,
    pub root: PathBuf,
    pub functions: usize,
    pub bridges: Vec<String>,
}

impl Machine {
    pub fn make(name: &'static str, spec: &HostSpec, directory: &Path) -> Fallible<Self> {
        let root = directory.join(name);
        fs::create_dir(&root)?;
        write_tree(&spec.build(), &root)?;
        let mut machine = Machine { name, root, functions: 0, bridges: Vec::new() };
        machine.functions = fs::read_dir(format!("{}/devices", machine.pci()))?.count();
        let bridges = Command::new("sh").args(["-c", &machine.list_bridges()]).output()?;
        machine.bridges = String::from_utf8(bridges.stdout)?.lines().map(str::to_owned).collect();
        if machine.functions == 0 || machine.bridges.is_empty() {
            return Err(format!("lspci finds no bridge on the made-up machine {name}").into());
        }
        Ok(machine)
    }

    /// Directory for pciutils; without blanks or quotes, because its path is ours.
    pub fn pci(&self) -> String {
        format!("{}/sys/bus/pci", self.root.display())
    }

    pub fn list_bridges(&self) -> String {
        format!("lspci -A linux-sysfs -O sysfs.path={} -D -n -d ::0604 | cut -d' ' -f1", self.pci())
    }

    /// Makes this the running machine for this process and its future children: in a private mount namespace, its files
    /// cover those of the real machine.
    pub fn become_the_running_one(&self) -> Fallible<()> {
        let mut covered = vec!["sys", "etc", "boot"];
        covered.extend(["proc/cmdline", "proc/cpuinfo", "proc/modules", "proc/meminfo"]);
        for place in covered {
            let (from, to) = (self.root.join(place), Path::new("/").join(place));
            if !from.exists() || !to.exists() {
                continue;
            }
            let done = Command::new("mount").arg("--rbind").arg(&from).arg(&to).status()?;
            if !done.success() {
                return Err(
                    format!("mount --rbind {} {}: {done}", from.display(), to.display()).into()
                );
            }
        }
        Ok(())
    }
}
