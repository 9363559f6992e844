//! One test: the nodes it uses, and the logs retained when it fails.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::machine::Arch;
use super::tally::Tally;
use super::{Lab, Machine, Node, Result};

/// An entry of the suite: name and function.
pub type Scenario = (&'static str, fn(&mut Case) -> Result<()>);

/// A running test.
pub struct Case {
    lab: Lab,
    dir: PathBuf,
    nodes: Vec<Rc<Node>>,
}

impl Case {
    /// Runs one scenario. If it fails, retains the logs of its nodes and names them in the error.
    ///
    /// # Errors
    /// The reason for the failure.
    pub fn run((name, scenario): Scenario) -> std::result::Result<(), String> {
        let words = |err: Box<dyn std::error::Error + Send + Sync>| err.to_string();
        let lab = Lab::open().map_err(words)?;
        let tally = Tally::new(name);
        let dir = lab.dir().join("run").join(name.replace("::", "-"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|err| format!("{}: {err}", dir.display()))?;
        let mut case = Self { lab, dir, nodes: Vec::new() };
        let end = catch_unwind(AssertUnwindSafe(|| scenario(&mut case)));
        let said = match end {
            Ok(Ok(())) => None,
            Ok(Err(err)) => Some(err.to_string()),
            // The panic has already printed its message and location.
            Err(_) => Some("an assertion failed (see above)".to_owned()),
        };
        if said.is_some() {
            case.nodes.iter().for_each(|node| node.save_journal());
        }
        case.nodes.clear();
        tally.end();
        let Some(said) = said else {
            let _ = fs::remove_dir_all(&case.dir);
            return Ok(());
        };
        case.drop_disks();
        Err(format!("{said}\nconsole, journal, commands and QEMU events: {}", case.dir.display()))
    }

    /// Returns a booted node of this machine with bedplate installed.
    ///
    /// # Errors
    /// The node cannot be built or booted.
    pub fn node(&mut self, machine: Machine) -> Result<Rc<Node>> {
        let dir = self.place(machine)?;
        let node = self.lab.node(machine, &dir)?;
        Ok(self.keep(node))
    }

    /// Returns a node of this machine at its first boot, from a new disk. `script` was run on the root tree, its `$1`.
    ///
    /// # Errors
    /// The script fails, or the node does not boot.
    pub fn first_boot(&mut self, machine: Machine, script: &str) -> Result<Rc<Node>> {
        let dir = self.place(machine)?;
        let program = dir.join("in-tree");
        fs::write(&program, script)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let node = self.lab.new_disk(machine, &dir, &program)?;
        let node = self.keep(node);
        node.step("first boot");
        node.boot()?;
        Ok(node)
    }

    /// Returns a node at the first boot of a copy of the disk of `golden`, which is switched off.
    ///
    /// # Errors
    /// The disk cannot be copied, or the node does not boot.
    pub fn clone_of(&mut self, golden: &Node, name: &str) -> Result<Rc<Node>> {
        self.nodes.iter().for_each(|node| node.off());
        let dir = self.dir.join(name);
        super::fresh_directory(&dir)?;
        super::copy_disks(golden.dir(), &dir)?;
        let node = self.lab.switched_off_node(golden.machine, &dir)?;
        let node = self.keep(node);
        node.step(&format!("{name}: first boot"));
        node.boot()?;
        Ok(node)
    }

    /// Creates an empty directory for a node.
    fn place(&mut self, machine: Machine) -> Result<PathBuf> {
        // Only one machine runs at a time: the previous one is finished.
        self.nodes.iter().for_each(|node| node.off());
        let dir = self.dir.join(machine.name);
        super::fresh_directory(&dir)?;
        Ok(dir)
    }

    fn keep(&mut self, node: Node) -> Rc<Node> {
        let node = Rc::new(node);
        self.nodes.push(Rc::clone(&node));
        node
    }

    /// Returns the program that nodes of this architecture get. That for x86_64 also runs on this machine.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn program(&self, arch: Arch) -> Result<&Path> {
        self.lab.program(arch)
    }

    /// Removes the disks: they are large, and a node in this state takes two seconds to create.
    fn drop_disks(&self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            for disk in ["image.qcow2", "disk.qcow2", "vars.qcow2"] {
                let _ = fs::remove_file(entry.path().join(disk));
            }
        }
    }
}
