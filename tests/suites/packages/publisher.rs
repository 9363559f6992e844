//! A publisher for tests: throw-away keys, and a clone of this repository whose commit is a release.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bedplate_tests::fixtures;
use tempfile::TempDir;

use super::{REPOSITORY, builders, output_of, stripped};

/// Version of the program under test.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Names of the publisher in packages.
const SETTINGS: [(&str, &str); 3] = [
    ("BEDPLATE_MAINTAINER", "A Publisher <packages@publisher.test>"),
    ("BEDPLATE_HOMEPAGE", "https://publisher.test/bedplate"),
    ("BEDPLATE_VENDOR", "Publisher & Sons"),
];

/// Keys and a clone, in a temporary directory.
pub(crate) struct Publisher {
    directory: TempDir,
}

impl Publisher {
    /// Makes two keys of gpg (`ours`, `other`), one of minisign, and the clone. Its HEAD has the date of the release in
    /// CHANGELOG.md and the tag of the version.
    ///
    /// # Panics
    /// If a tool is missing or fails.
    pub(crate) fn new() -> Publisher {
        builders();
        fixtures::arm64_program();
        for tool in ["apt-ftparchive", "createrepo_c", "gpg", "minisign", "rpmsign"] {
            fixtures::tool(tool);
        }
        let publisher = Publisher { directory: tempfile::tempdir().expect("a directory") };
        stripped(publisher.directory.path());
        fs::DirBuilder::new().mode(0o700).create(publisher.path("gpg")).expect("ours");
        for name in ["ours", "other"] {
            let make = ["--batch", "--quiet", "--passphrase", "", "--quick-generate-key", name];
            output_of(publisher.command("gpg").args(make).args(["rsa2048", "sign", "never"]));
        }
        let mut minisign = publisher.command("minisign");
        minisign.args(["-G", "-W", "-p"]).arg(publisher.path("minisign.pub"));
        output_of(minisign.arg("-s").arg(publisher.path("minisign.key")));
        let mut clone = Command::new("git");
        clone.args(["-c", "advice.detachedHead=false", "clone", "--quiet", REPOSITORY]);
        output_of(clone.arg(publisher.clone_path()));
        publisher.date();
        publisher.tag();
        publisher
    }

    /// Path of a file of the publisher.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Path of the clone.
    pub(crate) fn clone_path(&self) -> PathBuf {
        self.path("clone")
    }

    /// Commits the date of the release, if HEAD has none.
    fn date(&self) {
        let path = self.clone_path().join("CHANGELOG.md");
        let text = fs::read_to_string(&path).expect("ours");
        let dated = format!("## [{VERSION}] - 2026-01-01");
        fs::write(&path, text.replace(&format!("## [Unreleased]: {VERSION}"), &dated))
            .expect("ours");
        self.git(&["commit", "--quiet", "--all", "--allow-empty", "--message", "Release"]);
    }

    /// Tags HEAD with the version.
    fn tag(&self) {
        self.git(&["tag", "--force", &format!("v{VERSION}")]);
    }

    /// Runs git in the clone.
    pub(crate) fn git(&self, args: &[&str]) {
        let identity = ["-c", "user.name=publisher", "-c", "user.email=packages@publisher.test"];
        output_of(Command::new("git").current_dir(self.clone_path()).args(identity).args(args));
    }

    /// Returns a command in the clone, with the publisher's settings and keys.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("GNUPGHOME", self.path("gpg")).envs(SETTINGS).env_remove("SOURCE_DATE_EPOCH");
        if program.starts_with("packaging/") {
            command.current_dir(self.clone_path());
        }
        command
    }

    /// Adds arguments that package the program under test and the one for arm64, and sign with gpg.
    pub(crate) fn sign<'a>(&self, command: &'a mut Command, url: &str) -> &'a mut Command {
        command.args(["--fast", "--key", "ours", "--url", url]);
        command.arg("--program-x86_64").arg(self.path("bedplate"));
        command.arg("--program-aarch64").arg(fixtures::arm64_program())
    }

    /// Exports the public key that signs nothing.
    pub(crate) fn export_other(&self, file: &Path) {
        let mut export = self.command("gpg");
        output_of(
            export.args(["--batch", "--armor", "--output"]).arg(file).args(["--export", "other"]),
        );
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        _ = self.command("gpgconf").args(["--kill", "all"]).status();
    }
}

/// A static web server on the loopback interface.
pub(crate) struct Server {
    child: Child,
    /// Address of the directory.
    pub(crate) url: String,
}

impl Server {
    /// Serves a directory.
    ///
    /// # Panics
    /// If Python is missing or does not name its port.
    pub(crate) fn start(directory: &Path) -> Server {
        let mut python = Command::new(fixtures::tool("python3"));
        python.args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "0", "--directory"]);
        python.arg(directory).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = python.spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("readable");
        // Serving HTTP on 127.0.0.1 port 12345 (http://127.0.0.1:12345/) ...
        let port = line.split(" port ").nth(1).and_then(|rest| rest.split(' ').next());
        let port: u16 = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        Server { child, url: format!("http://127.0.0.1:{port}") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
