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
const TOOLS: [&str; 28] = [
    "ansible-playbook",
    "busctl",
    "chromium",
    "cloud-init",
    "dash",
    "dbus-daemon",
    "dpkg-deb",
    "gdbus",
    "groff",
    "grub-editenv",
    "grub-mkconfig",
    "grub-script-check",
    "ignition-validate",
    "kernel-install",
    "lintian",
    "mmdebstrap",
    "perl",
    "promtool",
    "rpm",
    "rpmlint",
    "setpriv",
    "shellcheck",
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
const OTHERS: [&str; 8] = [
    "devices",
    "hosts",
    "immutable-files",
    "mount-namespaces",
    "root",
    "schemas",
    "target/python",
    "user-namespaces",
];

/// Stamp that `tests/run` writes after a change that cargo cannot watch.
const STAMP: &str = "../target/tests-machine";

fn main() {
    for name in ["CI", "BEDPLATE_FIXTURES", "BEDPLATE_TESTS_WITHOUT", "HOME", "USER"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let without = env::var("BEDPLATE_TESTS_WITHOUT").unwrap_or_default();
    println!("cargo::rustc-env=BEDPLATE_TESTS_WITHOUT={without}");
    let names: Vec<&str> = TOOLS.into_iter().chain(CARGO_TOOLS).chain(OTHERS).collect();
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    println!("cargo::rustc-check-cfg=cfg(has, values({}))", quoted.join(", "));

    let is_hidden = |name: &str| without.split_whitespace().any(|hidden| hidden == name);
    let (found, missing): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| !is_hidden(name) && is_there(name));
    let is_ci = env::var("CI").as_deref() == Ok("true");
    for name in found.iter().chain(missing.iter().filter(|_| is_ci)) {
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
        // strace is useless without permission to trace.
        "strace" => tool(name).is_some() && succeeds("strace", &["-o", "/dev/null", "true"]),
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

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn succeeds(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).output().is_ok_and(|ran| ran.status.success())
}
