//! QEMU and bedplate for the machines of one architecture.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::machine::Arch;
use super::{Result, fail, patched_qemu};

/// QEMU and bedplate for one architecture.
pub(super) struct Emulator {
    /// Path of the QEMU copy with the emulated GPU.
    pub(super) qemu: PathBuf,
    /// First line that QEMU prints for `--version`.
    pub(super) version: String,
    /// Path of the program that nodes get.
    pub(super) program: PathBuf,
}

impl Emulator {
    /// Runs `setup` for this architecture, which installs missing packages if it can, and builds bedplate.
    ///
    /// # Errors
    /// QEMU or another tool is missing (names the script that installs it), or bedplate does not build.
    pub(super) fn new(arch: Arch, dir: &Path, sources: &Path) -> Result<Self> {
        let setup = Command::new(sources.join("setup"))
            .arg(arch.debian())
            .stdout(Stdio::null())
            .output()?;
        if !setup.status.success() {
            return fail(String::from_utf8_lossy(&setup.stderr).trim().to_owned());
        }
        let stock = on_path(&format!("qemu-system-{}", arch.name()))?;
        let version = Command::new(&stock).arg("--version").output()?.stdout;
        let program = match std::env::var_os(arch.program_variable()) {
            Some(program) => PathBuf::from(program),
            None => build(arch, dir, &sources.join("../..").canonicalize()?)?,
        };
        // The name contains the GPU's id: a copy with another id must not be reused.
        let copy = dir.join(format!("patched-qemu-{:04x}-{}", arch.gpu(), arch.name()));
        Ok(Self {
            qemu: patched_qemu::patched(&stock, &copy, arch.gpu())?,
            version: String::from_utf8_lossy(&version)
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
            program,
        })
    }
}

/// Builds the program for nodes of this architecture: the release program, or the static one for arm64, which goes to `dir`.
fn build(arch: Arch, dir: &Path, workspace: &Path) -> Result<PathBuf> {
    let (mut command, program) = match arch {
        Arch::X86 => {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut cargo = Command::new(cargo);
            cargo.args(["build", "--release", "--locked", "--quiet", "--package", "bedplate"]);
            let target = std::env::var_os("CARGO_TARGET_DIR")
                .map_or_else(|| workspace.join("target"), PathBuf::from);
            (cargo, target.join("release/bedplate"))
        }
        Arch::Arm => {
            // It finds a compiler and a linker. --fast: the size limit is for packages.
            let mut script = Command::new(workspace.join("packaging/build"));
            script.args(["--static", "--fast", "--version", "node"]);
            script.args(["--target", "aarch64-unknown-linux-musl", "--out"]).arg(dir);
            (script, dir.join("bedplate-node-aarch64"))
        }
    };
    // Cargo sets variables for tests of a package, and build scripts (ring's) depend on them. With the values of another
    // package, cargo rebuilds every crate above, which takes minutes.
    let of_this_package = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_this_package(name)) {
        command.env_remove(name);
    }
    if !command.current_dir(workspace).status()?.success() {
        return fail(format!("bedplate does not build for {}", arch.name()));
    }
    Ok(program)
}

/// Searches `PATH` for a program.
fn on_path(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file());
    found.map_or_else(|| fail(format!("{program} is not installed: run tests/vm/setup")), Ok)
}
