//! A root directory with a profile, as an image (`--root`) or as the running system (in its own namespaces, where the
//! directory is `/`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};

use bedplate_tests::{fixtures, program};
use serde_json::Value;
use tempfile::TempDir;

/// A root directory.
pub struct Root(TempDir);

/// Exit status and complete output.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub text: String,
}

impl Ran {
    fn from_output(output: Output) -> Ran {
        let text = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ran { code: output.status.code(), text: text.concat() }
    }
}

impl Root {
    /// A root with an os-release file and a profile that sets and removes these arguments.
    pub fn new(os_release: &str, args: &[&str], absent: &[&str]) -> Root {
        let root = Root(tempfile::tempdir().expect("a directory"));
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        root.put("etc/os-release", os_release);
        root.put(
            "etc/bedplate/profile.toml",
            &format!("schema = 1\nname = \"t\"\n[cmdline]\nargs = {args:?}\nabsent = {absent:?}\n"),
        );
        root
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    pub fn put(&self, path: &str, text: &str) {
        let file = self.at(path);
        fs::create_dir_all(file.parent().expect("below the root")).expect("ours");
        fs::write(file, text).expect("ours");
    }

    /// Copies the content of a directory into the root.
    pub fn put_all(&self, directory: &Path) {
        let copied = Command::new("cp").arg("-rT").args([directory, self.path()]).status();
        assert!(copied.expect("cp runs").success(), "{}", directory.display());
    }

    /// Sets the modification time of a file, in seconds since 1970.
    pub fn set_modified(&self, path: &str, seconds: u64) {
        let file = fs::File::options().write(true).open(self.at(path)).expect("ours");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("ours");
    }

    pub fn tool(&self, path: &str, script: &str) {
        self.put(path, script);
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o755)).expect("ours");
    }

    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn has(&self, path: &str) -> bool {
        self.at(path).symlink_metadata().is_ok()
    }

    /// Contents of all files of /boot, /etc and /usr/lib.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = ["boot", "etc", "usr/lib", "efi"].map(|name| self.at(name)).to_vec();
        while let Some(directory) = open.pop() {
            let Ok(entries) = fs::read_dir(directory) else { continue };
            for entry in entries {
                let path = entry.expect("ours").path();
                match path.symlink_metadata().expect("ours").is_dir() {
                    true => open.push(path),
                    false => _ = found.insert(path.clone(), fs::read(&path).unwrap_or_default()),
                }
            }
        }
        found
    }

    /// `plan --exit-code` of the image.
    pub fn plan(&self) -> Ran {
        self.image("plan", &["--exit-code", "--cpu", "intel"])
    }

    /// The image's plan as JSON.
    pub fn plan_json(&self) -> Value {
        let ran = self.image("plan", &["--cpu", "intel", "--json"]);
        serde_json::from_str(&ran.text).unwrap_or_else(|error| panic!("{error}: {}", ran.text))
    }

    /// `apply --yes` to the image.
    pub fn apply(&self, more: &[&str]) -> Ran {
        self.image("apply", &[&["--yes", "--cpu", "intel"], more].concat())
    }

    /// Runs a command with `--root` of this image.
    pub fn image(&self, command: &str, more: &[&str]) -> Ran {
        let directory = self.path().display().to_string();
        Ran::from_output(program::run(&[&[command, "--root", &directory], more].concat()))
    }

    /// Runs a command with this directory as the root of the running system. Needs root.
    pub fn live(&self, arguments: &[&str]) -> Ran {
        fixtures::root();
        fs::create_dir_all(self.at("proc")).expect("ours");
        self.programs(&["/bin/sh", "/bin/sed", "/bin/cat"]);
        self.copy(&program::path(), "usr/bin/bedplate");
        let output = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--mount-proc", "--root"])
            .arg(self.path())
            .args(["/usr/bin/bedplate"])
            .args(arguments)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("COLUMNS", "1000")
            .output()
            .expect("unshare runs");
        Ran::from_output(output)
    }

    /// Copies programs of this machine into the root, with their libraries.
    pub fn programs(&self, programs: &[&str]) {
        self.put("dev/null", "");
        let here = programs.iter().map(PathBuf::from).chain([program::path()]);
        for program in here {
            let listed = Command::new("ldd").arg(&program).output().expect("ldd runs");
            let text = String::from_utf8_lossy(&listed.stdout).into_owned();
            for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
                self.copy(Path::new(library), library.trim_start_matches('/'));
            }
        }
        for program in programs {
            self.copy(Path::new(program), program.trim_start_matches('/'));
        }
    }

    fn copy(&self, from: &Path, to: &str) {
        let to = self.at(to);
        if !to.exists() {
            fs::create_dir_all(to.parent().expect("below the root")).expect("ours");
            fs::copy(from, &to).expect("it can be copied");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).expect("ours");
        }
    }
}
