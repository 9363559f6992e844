//! QEMU and bedplate for the machines of one architecture.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::machine::Arch;
use super::{Result, fail, gpu};

/// Rust target of the arm64 program. Its standard library brings the C library, so that no other files for arm64 are
/// required.
const ARM_TARGET: &str = "aarch64-unknown-linux-musl";

/// C compiler, its options and linker for [`ARM_TARGET`], as in packaging/build. A variable that is already set has
/// priority.
const ARM_COMPILERS: [(&str, &str); 3] = [
    ("CC_aarch64_unknown_linux_musl", "aarch64-linux-gnu-gcc"),
    ("CFLAGS_aarch64_unknown_linux_musl", "-U_FORTIFY_SOURCE"),
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"),
];

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
            None => build(arch, &sources.join("../..").canonicalize()?)?,
        };
        // The name contains the GPU's id: a copy with another id must not be reused.
        let copy = dir.join(format!("qemu-with-gpu-{:04x}-{}", arch.gpu(), arch.name()));
        Ok(Self {
            qemu: gpu::stand_in(&stock, &copy, arch.gpu())?,
            version: String::from_utf8_lossy(&version)
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
            program,
        })
    }
}

/// Builds the release program. packaging/build would also enforce the size limit of packages.
fn build(arch: Arch, workspace: &Path) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--quiet", "--package", "bedplate"]);
    if arch == Arch::Arm {
        cargo.args(["--target", ARM_TARGET]);
        for (name, value) in ARM_COMPILERS {
            if std::env::var_os(name).is_none() {
                cargo.env(name, value);
            }
        }
    }
    // Cargo sets variables for tests of a package, and build scripts (ring's) depend on them. With the values of another
    // package, cargo rebuilds every crate above, which takes minutes.
    let of_this_package = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_this_package(name)) {
        cargo.env_remove(name);
    }
    if !cargo.current_dir(workspace).status()?.success() {
        return fail(format!("bedplate does not build for {}", arch.name()));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace.join("target"), PathBuf::from);
    Ok(match arch {
        Arch::X86 => target.join("release/bedplate"),
        Arch::Arm => target.join(ARM_TARGET).join("release/bedplate"),
    })
}

/// Searches `PATH` for a program.
fn on_path(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| fs::metadata(file).is_ok_and(|file| file.is_file()));
    found.map_or_else(|| fail(format!("{program} is not installed: run tests/vm/setup")), Ok)
}
