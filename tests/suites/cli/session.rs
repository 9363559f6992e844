//! A temporary directory with profiles and recorded hosts, in which the program runs, and its transcript.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bedplate_testhosts::HostSpec;
use bedplate_tests::{expected, program};

/// One user at one prompt.
pub struct Session {
    directory: tempfile::TempDir,
}

impl Session {
    pub fn new() -> Self {
        Session { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file and creates its parent directories.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, content).expect("a file");
        self
    }

    /// Writes a recorded host made from a description.
    pub fn host(&self, name: &str, description: &str) -> &Self {
        let spec = HostSpec::from_toml(description).expect("a host description");
        self.file(name, spec.build().to_text())
    }

    /// Writes an Ubuntu image root that boots with GRUB.
    pub fn image(&self, name: &str) -> PathBuf {
        self.file(
            &format!("{name}/etc/os-release"),
            "ID=ubuntu\nVERSION_ID=\"24.04\"\nPRETTY_NAME=\"Ubuntu 24.04\"\n",
        )
        .file(&format!("{name}/etc/default/grub"), "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n")
        .file(
            &format!("{name}/boot/grub/grub.cfg"),
            "menuentry 'Ubuntu' {\n linux /vmlinuz root=UUID=1 ro quiet\n}\n",
        );
        self.path(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = program::bedplate(args);
        command.current_dir(self.directory.path()).env("COLUMNS", "100");
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("bedplate starts")
    }

    /// Runs the program and returns its exit status.
    pub fn status(&self, args: &[&str]) -> i32 {
        self.run(args).status.code().expect("it was not killed")
    }

    /// Runs the program as a user without privileges, if this process has more.
    pub fn run_as_nobody(&self, args: &[&str]) -> Output {
        if !is_root() {
            return self.run(args);
        }
        // The user needs access to the program and the directory.
        let copy = self.path("bedplate");
        std::fs::copy(program::path(), &copy).expect("a copy of the program");
        set_mode(self.directory.path(), 0o755);
        set_mode(&copy, 0o755);
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(copy)
            .args(args)
            .current_dir(self.directory.path())
            .env("TERM", "dumb")
            .output()
            .expect("setpriv starts")
    }

    /// The user's view: the prompt, stdout, then stderr, then the exit status if it is not 0.
    pub fn transcript(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let words: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
        let mut text = format!("$ bedplate {}\n{}", words.join(" "), text(&output.stdout));
        if !output.stderr.is_empty() {
            text.push_str(&format!("[stderr]\n{}", self::text(&output.stderr)));
        }
        match output.status.code() {
            Some(0) => steady(text),
            status => {
                steady(text) + &format!("[exit status {}]\n", status.expect("it was not killed"))
            }
        }
    }

    /// Compares transcripts of several commands with `tests/data/cli/NAME.txt`.
    pub fn expect(&self, name: &str, commands: &[&[&str]]) {
        let texts: Vec<String> = commands.iter().map(|args| self.transcript(args)).collect();
        expect(name, &texts.join("\n"));
    }
}

/// Digest and version in the headings of rendered files change with every key that profiles get, and every release.
fn steady(text: String) -> String {
    let Some((before, after)) = text.split_once("profile sha256:") else { return text };
    let (stamp, rest) = after.split_once('\n').unwrap_or((after, ""));
    let (digest, version) = stamp.split_once(", bedplate ").expect("a stamp");
    assert!(digest.len() == 64 && version == env!("CARGO_PKG_VERSION"), "{stamp}");
    format!("{before}profile sha256:DIGEST, bedplate VERSION\n{}", steady(rest.to_owned()))
}

pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) { arg.to_owned() } else { format!("'{arg}'") }
}

/// Compares with `tests/data/cli/NAME.txt`, or writes it under `BLESS`.
pub fn expect(name: &str, actual: &str) {
    let path = bedplate_tests::data(&format!("cli/{name}.txt"));
    expected::file(&path, actual, "cli").unwrap_or_else(|difference| panic!("{difference}"));
}
