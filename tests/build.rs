//! Probes this machine for test prerequisites, and sets `cfg(has = "NAME")` for each one found. Tests that need a
//! missing one are ignored, and a build warning names it. With `CI=true` all are set, so that these tests fail instead.
//! `BEDPLATE_TESTS_WITHOUT="strace root"` treats prerequisites as missing, to see which tests are ignored then.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories of distribution tools.
const PLACES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Programs in [`PLACES`].
const TOOLS: [&str; 41] = [
    "ansible-playbook",
    "apt-ftparchive",
    "busctl",
    "chromium",
    "cloud-init",
    "createrepo_c",
    "crun",
    "dash",
    "dbus-daemon",
    "dpkg-deb",
    "gdbus",
    "gpg",
    "groff",
    "grub-editenv",
    "grub-mkconfig",
    "grub-script-check",
    "ignition-validate",
    "kernel-install",
    "lintian",
    "minisign",
    "mmdebstrap",
    "munged",
    "perl",
    "promtool",
    "python3",
    "qemu-aarch64-static",
    "rpm",
    "rpmlint",
    "rpmsign",
    "scontrol",
    "setpriv",
    "shellcheck",
    "skopeo",
    "slurmctld",
    "slurmd",
    "strip",
    "systemd-analyze",
    "tuned",
    "udevadm",
    "unshare",
    "strace",
];

/// Programs in `PATH`.
const CARGO_TOOLS: [&str; 2] = ["cargo-deb", "cargo-generate-rpm"];

/// Prerequisites other than programs, each with a probe in [`is_there`].
const OTHERS: [&str; 10] = [
    "BEDPLATE_ARM64_PROGRAM",
    "arm64",
    "devices",
    "hosts",
    "immutable-files",
    "mount-namespaces",
    "root",
    "schemas",
    "target/python",
    "user-namespaces",
];

/// Names for several prerequisites that tests need together.
const GROUPS: [(&str, &[&str]); 2] = [
    ("containers", &["crun", "root", "skopeo", "unshare"]),
    (
        "release",
        &[
            "BEDPLATE_ARM64_PROGRAM",
            "apt-ftparchive",
            "cargo-deb",
            "cargo-generate-rpm",
            "createrepo_c",
            "gpg",
            "minisign",
            "rpmsign",
            "strip",
        ],
    ),
];

/// Prerequisites that `tests/run` cannot install. Their tests are also ignored in CI.
/// Debian 12 has no kubectl with Kustomize 5.
const ON_REQUEST: [&str; 2] = ["BEDPLATE_GRUBBY", "kubectl"];

/// Variables that this script reads.
const VARIABLES: [&str; 7] = [
    "BEDPLATE_ARM64_PROGRAM",
    "BEDPLATE_FIXTURES",
    "BEDPLATE_GRUBBY",
    "BEDPLATE_TESTS_WITHOUT",
    "CI",
    "HOME",
    "USER",
];

/// Stamp that `tests/run` writes after a change that cargo cannot watch.
const STAMP: &str = "../target/tests-machine";

fn main() {
    for name in VARIABLES {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let without = env::var("BEDPLATE_TESTS_WITHOUT").unwrap_or_default();
    println!("cargo::rustc-env=BEDPLATE_TESTS_WITHOUT={without}");
    let names = TOOLS.into_iter().chain(CARGO_TOOLS).chain(OTHERS).chain(ON_REQUEST);
    let names: Vec<&str> = names.collect();
    let groups = GROUPS.iter().map(|(name, _)| name);
    let quoted: Vec<String> = names.iter().chain(groups).map(|name| format!("{name:?}")).collect();
    println!("cargo::rustc-check-cfg=cfg(has, values({}))", quoted.join(", "));

    let is_hidden = |name: &str| without.split_whitespace().any(|hidden| hidden == name);
    let (found, mut missing): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| !is_hidden(name) && is_there(name));
    missing.retain(|name| !ON_REQUEST.contains(name));
    let is_ci = env::var("CI").as_deref() == Ok("true");
    let has: Vec<&str> = found.iter().chain(missing.iter().filter(|_| is_ci)).copied().collect();
    let has_all = |members: &[&str]| members.iter().all(|member| has.contains(member));
    let groups = GROUPS.iter().filter(|(_, members)| has_all(members)).map(|(name, _)| name);
    for name in has.iter().chain(groups) {
        println!("cargo::rustc-cfg=has={name:?}");
    }
    watch(&found, &missing);
    if !missing.is_empty() {
        let end = if is_ci { "fail" } else { "are ignored" };
        println!("cargo::warning=tests {end} that need: {}", missing.join(", "));
    }
}

/// Makes cargo rerun this script when a found prerequisite disappears, and when a missing one may have been installed.
fn watch(found: &[&str], missing: &[&str]) {
    for path in found.iter().filter_map(|name| tool(name)) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    if missing.iter().any(|name| TOOLS.contains(name)) {
        // Installing a package changes the directory's time. (The rest of PLACES are links to these.)
        for place in &PLACES[..2] {
            println!("cargo::rerun-if-changed={place}");
        }
    }
    // Cargo treats a missing file as changed in every build.
    let stamp = Path::new(STAMP);
    let made = stamp.parent().map(fs::create_dir_all);
    if stamp.exists() || made.is_some_and(|made| made.is_ok()) && fs::write(stamp, "").is_ok() {
        println!("cargo::rerun-if-changed={STAMP}");
    }
}

fn tool(name: &str) -> Option<PathBuf> {
    let paths = PLACES.iter().map(|place| Path::new(place).join(name));
    paths.filter(|_| TOOLS.contains(&name)).find(|path| path.exists())
}

fn is_there(name: &str) -> bool {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let probe = out.join("probe");
    let probe_text = probe.display().to_string();
    match name {
        "root" => is_root(),
        "user-namespaces" => succeeds("unshare", &["-rm", "true"]),
        "mount-namespaces" if is_root() => succeeds("unshare", &["--mount", "true"]),
        "mount-namespaces" => succeeds("unshare", &["--mount", "--map-root-user", "true"]),
        "devices" => {
            let made = succeeds("mknod", &[&probe_text, "c", "1", "3"]);
            _ = fs::remove_file(probe);
            made
        }
        "immutable-files" => {
            let made = fs::write(&probe, "").is_ok() && succeeds("chattr", &["+i", &probe_text]);
            succeeds("chattr", &["-i", &probe_text]);
            _ = fs::remove_file(probe);
            made
        }
        "schemas" | "hosts" => {
            let named = env::var_os("BEDPLATE_FIXTURES").map(PathBuf::from);
            named.unwrap_or_else(|| PathBuf::from("../../shared")).join(name).is_dir()
        }
        "target/python" => Path::new("../target/python/bin/python").exists(),
        // A path without a file must fail the tests, not skip them.
        "BEDPLATE_ARM64_PROGRAM" | "BEDPLATE_GRUBBY" => {
            env::var_os(name).is_some_and(|path| !path.is_empty())
        }
        "arm64" => {
            let emulator = Path::new("/proc/sys/fs/binfmt_misc/qemu-aarch64");
            env::consts::ARCH == "aarch64" || emulator.exists()
        }
        "qemu-aarch64-static" => tool(name).is_some_and(|path| has_openat2(&path)),
        // strace is useless without permission to trace.
        "strace" => tool(name).is_some() && succeeds("strace", &["-o", "/dev/null", "true"]),
        // Components of Kustomize.
        "kubectl" => has_kustomize_5(),
        // The script version with the plug-in that writes entries; newer versions are binaries.
        "kernel-install" => {
            Path::new("/usr/lib/kernel/install.d/90-loaderentry.install").exists()
                && tool(name).is_some_and(|path| fs::read_to_string(path).is_ok())
        }
        "grub-mkconfig" => tool(name).is_some() && Path::new("/etc/grub.d/10_linux").exists(),
        _ if CARGO_TOOLS.contains(&name) => {
            let path = env::var_os("PATH").unwrap_or_default();
            env::split_paths(&path).any(|place| place.join(name).exists())
        }
        _ => tool(name).is_some(),
    }
}

/// Whether this qemu-user emulates openat2, which bedplate needs for `--root`: QEMU 9.2 or later.
fn has_openat2(qemu: &Path) -> bool {
    let output = Command::new(qemu).arg("--version").output();
    let text = output.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
    let text = text.unwrap_or_default();
    let version = text.split_whitespace().skip_while(|word| *word != "version").nth(1);
    let mut numbers = version.unwrap_or_default().split('.').map(|part| part.parse::<u32>().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0);
    (next(), next()) >= (9, 2)
}

/// Whether kubectl has Kustomize 5, which is part of it from 1.27 on.
fn has_kustomize_5() -> bool {
    let output = Command::new("kubectl").args(["version", "--client"]).output();
    output.is_ok_and(|done| String::from_utf8_lossy(&done.stdout).contains("Kustomize Version: v5"))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn succeeds(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).output().is_ok_and(|ran| ran.status.success())
}
