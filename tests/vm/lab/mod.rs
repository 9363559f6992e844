//! A lab of virtual GPU nodes: QEMU without KVM, with stock Debian, driven over unix sockets.
//!
//! A disk is built once per architecture, Debian release and layout. A machine is booted from it once and its running
//! state is saved; bedplate is installed and the state saved again. After that every node is a clone that runs after about
//! two seconds. All states are in `target/vm` under names that change with their inputs.

pub mod agent;
pub mod case;
mod emulator;
pub mod machine;
pub mod node;
mod patched_qemu;
pub mod qmp;
mod tally;

use std::cell::OnceCell;
use std::error::Error;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::emulator::Emulator;
use self::machine::Arch;

pub use agent::Output;
pub use case::{Case, Scenario};
pub use machine::{Firmware, Layout, Loader, MACHINES, Machine, Suite};
pub use node::Node;

/// Result with an error text for the developer.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Returns an error with this text.
///
/// # Errors
/// Always.
pub fn fail<T>(words: impl Into<String>) -> Result<T> {
    Err(words.into().into())
}

/// Path of bedplate in the guest.
pub const BEDPLATE: &str = "/usr/bin/bedplate";

/// The lab of this checkout. It locks out other processes: one machine runs at a time.
pub struct Lab {
    dir: PathBuf,
    sources: PathBuf,
    x86: Emulator,
    arm: OnceCell<Emulator>,
    _lock: File,
}

impl Lab {
    /// Opens the lab; waits until it is free.
    ///
    /// # Errors
    /// QEMU or another tool is missing (names the script that installs it), or bedplate does not build.
    pub fn open() -> Result<Self> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("vm");
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| sources.join("../../target"), PathBuf::from);
        let dir =
            std::env::var_os("BEDPLATE_VM_DIR").map_or_else(|| target.join("vm"), PathBuf::from);
        fs::create_dir_all(&dir)?;
        let dir = dir.canonicalize()?;
        let lock = File::create(dir.join("lock"))?;
        if lock.try_lock().is_err() {
            eprintln!("waiting for {}: another process runs a machine", dir.display());
            lock.lock()?;
        }
        Ok(Self {
            x86: Emulator::new(Arch::X86, &dir, &sources)?,
            arm: OnceCell::new(),
            dir,
            sources,
            _lock: lock,
        })
    }

    /// Returns QEMU and bedplate for this architecture.
    fn emulator(&self, arch: Arch) -> Result<&Emulator> {
        match arch {
            Arch::X86 => Ok(&self.x86),
            Arch::Arm => match self.arm.get() {
                Some(arm) => Ok(arm),
                None => {
                    let arm = Emulator::new(arch, &self.dir, &self.sources)?;
                    Ok(self.arm.get_or_init(|| arm))
                }
            },
        }
    }

    /// Returns a node of this machine that is switched off, with its disk in `dir`.
    fn switched_off_node(&self, machine: Machine, dir: &Path) -> Result<Node> {
        Node::new(machine, &self.emulator(machine.arch)?.qemu, dir)
    }

    /// Directory of all lab files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the program that is installed on nodes of this architecture.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn program(&self, arch: Arch) -> Result<&Path> {
        self.emulator(arch).map(|emulator| emulator.program.as_path())
    }

    /// Returns a booted node of this machine with bedplate, in `dir`, which must be empty.
    ///
    /// # Errors
    /// The node cannot be built or does not boot.
    pub fn node(&self, machine: Machine, dir: &Path) -> Result<Node> {
        let node = self.switched_off_node(machine, dir)?;
        if !machine.snapshots() {
            self.fresh_disk(machine, dir)?;
            node.boot()?;
            self.install(&node)?;
            return Ok(node);
        }
        let ready = self.ready(machine)?;
        copy_disks(&ready, dir)?;
        node.launch(Some("ready"))?;
        after_load(&node)?;
        Ok(node)
    }

    /// Returns a node that has never booted, with a new disk. `program` is run on the root tree.
    ///
    /// # Errors
    /// The disk cannot be built.
    pub fn new_disk(&self, machine: Machine, dir: &Path, program: &Path) -> Result<Node> {
        let image = dir.join("image.qcow2");
        self.build_image(machine, &image, Some(program))?;
        overlay(machine, &image, dir)?;
        self.switched_off_node(machine, dir)
    }

    /// Directory of the saved machine with bedplate installed.
    fn ready(&self, machine: Machine) -> Result<PathBuf> {
        let base = self.base(machine)?;
        let program = fs::read(&self.emulator(machine.arch)?.program)?;
        let key = key(&(base.file_name(), &program, BEDPLATE));
        let dir = self.dir.join(format!("ready-{}", machine.name));
        if fs::read_to_string(dir.join("key")).is_ok_and(|found| found == key) {
            return Ok(dir);
        }
        fresh_directory(&dir)?;
        copy_disks(&base, &dir)?;
        let node = self.switched_off_node(machine, &dir)?;
        node.launch(Some("booted"))?;
        after_load(&node)?;
        self.install(&node)?;
        // Every clone copies the file, so it should hold one state.
        node.forget("booted")?;
        node.save("ready")?;
        node.power_cut()?;
        fs::write(dir.join("key"), key)?;
        Ok(dir)
    }

    /// Directory of the saved machine with plain Debian.
    fn base(&self, machine: Machine) -> Result<PathBuf> {
        let image = self.image(machine)?;
        let anywhere = machine.arguments(Path::new(""), Path::new(""));
        // The code that makes a base matters as much as its inputs.
        let how = (include_str!("mod.rs"), include_str!("systemd-boot.sh"));
        let version = &self.emulator(machine.arch)?.version;
        let gpu = machine.arch.gpu();
        let key = key(&(image.file_name(), anywhere, version, machine, gpu, how));
        let dir = self.dir.join(format!("base-{}-{key}", machine.name));
        if dir.join("complete").exists() {
            return Ok(dir);
        }
        self.remove_older(&format!("base-{}-", machine.name))?;
        fresh_directory(&dir)?;
        self.fresh_disk(machine, &dir)?;
        let node = self.switched_off_node(machine, &dir)?;
        node.step("first boot");
        if machine.loader == Loader::Grub {
            node.boot()?;
            // Regenerate with this machine's own tools: the configuration in the image was made without its firmware.
            node.ok("update-grub && sync")?;
        } else {
            self.install_systemd_boot(&node, &image)?;
        }
        node.save("booted")?;
        node.power_cut()?;
        fs::write(dir.join("complete"), "")?;
        Ok(dir)
    }

    /// Replaces GRUB by systemd-boot, with Debian's own packages and tools, in a guest started without a boot loader.
    fn install_systemd_boot(&self, node: &Node, image: &Path) -> Result<()> {
        let file = |kind: &str| format!("{}.{kind}", image.display());
        node.with(&["-kernel", &file("vmlinuz"), "-initrd", &file("initrd")]);
        node.with(&["-append", "root=LABEL=root ro console=ttyS0,115200 mitigations=off quiet"]);
        node.boot()?;
        node.step("installing systemd-boot");
        let uki = node.machine.loader == Loader::Uki;
        node.put("/tmp/install", include_str!("systemd-boot.sh"))?;
        node.ok(&format!("sh /tmp/install {}", if uki { "uki" } else { "bls" }))?;
        node.ok("rm /tmp/install")?;
        node.without_extras();
        node.cold_cycle()
    }

    fn fresh_disk(&self, machine: Machine, dir: &Path) -> Result<()> {
        overlay(machine, &self.image(machine)?, dir)
    }

    /// Path of the disk built from Debian's packages.
    fn image(&self, machine: Machine) -> Result<PathBuf> {
        let script = self.sources.join("build-image");
        let key = key(&(fs::read(&script)?, fs::read(self.sources.join("mirror"))?));
        let name = format!(
            "{}-{}-{}-",
            machine.arch.debian(),
            machine.suite.name(),
            machine.layout.name()
        );
        let image = self.dir.join(format!("{name}{key}.qcow2"));
        if image.exists() {
            return Ok(image);
        }
        self.remove_older(&name)?;
        self.build_image(machine, &image, None)?;
        Ok(image)
    }

    fn build_image(&self, machine: Machine, image: &Path, program: Option<&Path>) -> Result<()> {
        let (arch, suite, layout) =
            (machine.arch.debian(), machine.suite.name(), machine.layout.name());
        eprintln!(
            "building the {suite} disk for {arch}, {layout} (half a minute; arm64: several minutes)"
        );
        let built = Command::new(self.sources.join("build-image"))
            .arg(arch)
            .arg(suite)
            .arg(layout)
            .arg(image)
            .arg(self.dir.join("packages"))
            .args(program)
            .stdin(Stdio::null())
            .status()?;
        if built.success() {
            return Ok(());
        }
        fail(format!("tests/vm/build-image {arch} {suite} {layout} failed"))
    }

    fn install(&self, node: &Node) -> Result<()> {
        node.put_program(BEDPLATE, fs::read(&self.emulator(node.machine.arch)?.program)?)?;
        let version = node.run("bedplate --version")?;
        if version.status == 0 {
            // Needed on the disk, not only in memory: some tests cut the power.
            node.ok("sync")?;
            return Ok(());
        }
        let arch = node.machine.arch;
        fail(format!(
            "bedplate does not run in the guest: {}\nIf this machine's C library is newer than the guest's, build for \
             {}-unknown-linux-musl and set {} to the path of that program",
            version.stderr.trim(),
            arch.name(),
            arch.program_variable()
        ))
    }

    fn remove_older(&self, prefix: &str) -> Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with(prefix) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Updates a state that was saved some time ago.
fn after_load(node: &Node) -> Result<()> {
    // The guest's clock stopped when the state was saved.
    let now = jiff::Timestamp::now().as_second();
    node.ok(&format!("date --set=@{now}"))?;
    Ok(())
}

/// Creates a machine's own disk on top of `image`, and its firmware variables.
fn overlay(machine: Machine, image: &Path, dir: &Path) -> Result<()> {
    let disk = dir.join("disk.qcow2");
    quietly(
        Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"])
            .arg(image)
            .arg(&disk),
    )?;
    let vars = dir.join("vars.qcow2");
    quietly(
        Command::new("qemu-img")
            .args(["convert", "-q", "-f", "raw", "-O", "qcow2", machine.arch.firmware().1])
            .arg(vars),
    )
}

fn copy_disks(from: &Path, to: &Path) -> Result<()> {
    for disk in ["disk.qcow2", "vars.qcow2"] {
        fs::copy(from.join(disk), to.join(disk))?;
    }
    Ok(())
}

fn fresh_directory(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    Ok(fs::create_dir_all(dir)?)
}

fn quietly(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    fail(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Key that identifies inputs.
fn key(of: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
