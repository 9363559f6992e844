//! Test prerequisites outside the repository: distribution tools, privileges, published schemas, recorded hosts.
//! `build.rs` probes for each once and sets `cfg(has = "NAME")`. A test ignores itself without its prerequisite:
//! `#[cfg_attr(not(has = "strace"), ignore = "needs strace")]`. With `CI=true` nothing is ignored. The functions here
//! panic if a prerequisite is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Environment variable for the directory that contains `schemas/` and `hosts/`.
pub const FIXTURES_VAR: &str = "BEDPLATE_FIXTURES";

/// Names that `build.rs` treats as missing (`BEDPLATE_TESTS_WITHOUT`), separated by blanks.
const WITHOUT: &str = env!("BEDPLATE_TESTS_WITHOUT");

/// Fails a test if its prerequisite is missing.
fn need(name: &str, is_met: bool) {
    let is_hidden = WITHOUT.split_whitespace().any(|hidden| hidden == name);
    assert!(is_met && !is_hidden, "missing on this machine: {name} (tests/build.rs)");
}

/// Path of a file in the fixtures.
///
/// # Panics
/// If it is missing.
pub fn find(name: &str) -> PathBuf {
    let path = fixtures().map(|root| root.join(name)).filter(|path| path.exists());
    let directory = name.split('/').next().unwrap_or_default();
    need(directory, path.is_some());
    path.unwrap_or_else(|| panic!("{name} is not in the directory of {FIXTURES_VAR}"))
}

/// Fixtures directory: next to the workspace, or from the environment.
fn fixtures() -> Option<PathBuf> {
    if let Some(root) = std::env::var_os(FIXTURES_VAR) {
        return Some(PathBuf::from(root));
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    Some(beside.join("shared"))
}

/// Path of a program in the directories of administration tools.
///
/// # Panics
/// If it is missing.
pub fn tool(name: &str) -> PathBuf {
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let path = places.iter().map(|place| Path::new(place).join(name)).find(|path| path.exists());
    need(name, path.is_some());
    path.unwrap_or_default()
}

/// Checks for a cargo subcommand in `PATH`.
///
/// # Panics
/// If it is missing.
pub fn cargo_tool(name: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    need(name, std::env::split_paths(&path).any(|place| place.join(name).exists()));
}

/// Static program for arm64 that `BEDPLATE_ARM64_PROGRAM` names: `packaging/build --static --target
/// aarch64-unknown-linux-musl` makes one.
///
/// # Panics
/// If the variable names no file.
pub fn arm64_program() -> PathBuf {
    named_by("BEDPLATE_ARM64_PROGRAM")
}

/// grubby of Fedora or RHEL, a shell script, that `BEDPLATE_GRUBBY` names. Debian has no package of it.
///
/// # Panics
/// If the variable names no file.
pub fn grubby() -> PathBuf {
    named_by("BEDPLATE_GRUBBY")
}

/// The file that an environment variable names.
fn named_by(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from).unwrap_or_default();
    need(variable, !path.as_os_str().is_empty());
    assert!(path.is_file(), "{variable}: {} is not a file; use an absolute path", path.display());
    path
}

/// Checks that the kernel starts programs of arm64. `tests/vm/setup arm64` registers qemu-user.
///
/// # Panics
/// If it does not.
pub fn arm64() {
    need("arm64", cfg!(has = "arm64"));
}

/// Python from the environment in which `tests/run` installs tests/requirements.txt.
///
/// # Panics
/// If it is missing.
pub fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python/bin/python");
    need("target/python", python.exists());
    python
}

/// Checks for root privileges.
///
/// # Panics
/// If another user runs the test.
pub fn root() {
    need("root", nix::unistd::geteuid().is_root());
}

/// Checks for unprivileged user and mount namespaces (`unshare -rm`).
///
/// # Panics
/// If this system does not allow them.
pub fn user_namespaces() {
    need("user-namespaces", succeeds("unshare", &["-rm", "true"]));
}

/// Checks for mount namespaces.
///
/// # Panics
/// If this system does not allow them.
pub fn mount_namespaces() {
    let user = if nix::unistd::geteuid().is_root() { "" } else { "--map-root-user" };
    let words = ["--mount", "--propagation=private", user, "true"];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    need("mount-namespaces", succeeds("unshare", &words));
}

/// Checks that device nodes can be created (`mknod`).
///
/// # Panics
/// If they cannot.
pub fn devices() {
    let directory = tempfile::tempdir().expect("a directory");
    let node = directory.path().join("node").display().to_string();
    need("devices", succeeds("mknod", &[&node, "c", "1", "3"]));
}

/// Checks that the target directory's file system supports immutable files (`chattr +i`), and that this user may set
/// them.
///
/// # Panics
/// If not.
pub fn immutable_files() {
    need("immutable-files", cfg!(has = "immutable-files"));
}

fn succeeds(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).output().is_ok_and(|ran| ran.status.success())
}

/// Parses a JSON or YAML document.
///
/// # Panics
/// If it is invalid.
pub fn document(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Paths of all fields in `value` that `schema` does not define. Schemas for Kubernetes and Ignition allow any field;
/// their consumers drop or reject unknown ones.
pub fn unknown_fields(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(root, schema, value, "", &mut found);
    found
}

fn walk(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let parts = parts(root, schema);
            let open = |part: &&Value| {
                part.get("properties").is_none()
                    || part.get("additionalProperties").is_some_and(|more| more != false)
            };
            // A bare `type: object` (Kubernetes metadata, the embedded Ignition config) is not checked here.
            if parts.iter().all(open) {
                return;
            }
            for (name, field) in fields {
                let path = format!("{at}/{name}");
                match parts.iter().find_map(|part| part.get("properties")?.get(name)) {
                    Some(schema) => walk(root, schema, field, &path, found),
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            let schemas = parts(root, schema);
            let Some(schema) = schemas.iter().find_map(|part| part.get("items")) else { return };
            for (index, item) in items.iter().enumerate() {
                walk(root, schema, item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Returns the parts of a schema, with references resolved and `allOf` expanded.
fn parts<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.trim_start_matches('#'));
        return target.map(|target| parts(root, target)).unwrap_or_default();
    }
    match schema.get("allOf").and_then(Value::as_array) {
        Some(all) => all.iter().flat_map(|schema| parts(root, schema)).collect(),
        None => vec![schema],
    }
}
