//! Fake hosts on which tests carry out plans. Small imitations of the boot loader tools regenerate the entries: real
//! shells source the files of GRUB, everything else is text.

mod instances;
mod property;
mod tuned;

use std::path::Path;
use std::process::Command;

use super::*;
use crate::kind::{plan_alone, resolve};
use crate::ledger::Ledger;
use crate::profile::of_text;
use bedplate_facts::{Depth, observe};
use bedplate_host::snapshot::{Node, Snapshot};
use bedplate_testhosts::HostSpec;
use bedplate_testhosts::fixture::unified_image;

/// Kernel release of the fake hosts.
const KERNEL: &str = "6.8.0-45-generic";
const ROOT: &str = "root=UUID=6a4d3b2c-1f0e-4d5c-8b7a-990011223344 ro";

/// Fake host with its ledger and the settings of its tools.
struct Host {
    files: Snapshot,
    ledger: Ledger,
    /// Text that grub-mkconfig writes before the entries.
    menu_head: &'static str,
    /// Text that grub-mkconfig writes after the configured arguments.
    menu_tail: &'static str,
}

impl Host {
    /// Creates a host: `description` has `loader` and further keys.
    fn new(description: &str) -> Host {
        let text = format!("machine = 'plain'\nkernel = '{KERNEL}'\n{description}");
        let files = HostSpec::from_toml(&text).unwrap().build();
        let mut host = Host { files, ledger: Ledger::default(), menu_head: "", menu_tail: "" };
        // Without a kernel configuration no argument is satisfied by default.
        host.remove(&format!("/boot/config-{KERNEL}"));
        host
    }

    fn put(&mut self, path: &str, text: &[u8]) {
        let path = self.files.canonical(path);
        self.files.insert(&path, Node::File(text.to_vec()));
        self.files.complete();
    }

    fn remove(&mut self, path: &str) {
        self.files.remove(path);
        self.files.complete();
    }

    fn text(&self, path: &str) -> Option<String> {
        boot_files::raw(&self.files, path).ok()
    }

    fn plan(&self, cmdline: &str) -> KindPlan {
        let profile = of_text(&format!("schema = 1\nname = \"t\"\n[cmdline]\n{cmdline}\n"));
        let facts = observe(&self.files, Depth::Plan);
        let desired = resolve(&profile, &facts, &self.ledger);
        plan_alone(&KIND, (&profile, &desired), &facts, &self.files, &self.ledger)
    }

    /// Returns the line of the next boot.
    fn next(&self) -> CommandLine {
        match next_boot(&self.files, &observe(&self.files, Depth::Plan)) {
            Reading::Known(line) => line,
            other => panic!("no line: {other:?}"),
        }
    }

    /// Carries out the plan of a profile, or returns why it could not.
    fn apply(&mut self, cmdline: &str) -> Result<(), String> {
        let plan = self.plan(cmdline);
        if let Some(blocker) = plan.blockers.first() {
            return Err(blocker.reason.clone());
        }
        for change in plan.changes {
            for action in change.actions {
                self.act(action)?;
            }
            if let Some(owns) = change.owns {
                self.ledger.owned.insert(NAME, owns);
            }
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::ReplaceFile { path, before, after } => {
                let now = self.files.read(&path).ok();
                assert_eq!(
                    now.as_deref(),
                    before.as_ref().map(|content| content.bytes.as_slice()),
                    "{path}"
                );
                match after {
                    Some(after) => self.put(&path, &after.bytes),
                    None => self.remove(&path),
                }
                Ok(())
            }
            Action::RunTool { argv, .. } => {
                self.run(&argv);
                Ok(())
            }
            Action::Verify(check) => {
                let facts = observe(&self.files, Depth::Plan);
                match crate::readback::check(&self.files, &facts, &check) {
                    crate::apply::Answer::Holds => Ok(()),
                    crate::apply::Answer::Not(why) | crate::apply::Answer::Unknown(why) => Err(why),
                }
            }
            other => panic!("not of the command line: {other:?}"),
        }
    }

    fn run(&mut self, argv: &[String]) {
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["update-grub"] => self.regenerate_grub("/bin/sh", "/boot/grub/grub.cfg"),
            ["grub2-mkconfig", "-o", path] => self.regenerate_grub("/bin/bash", path),
            ["kernel-install", "add", ..] => self.regenerate_entry(),
            ["rpm-ostree", "kargs", options @ ..] => self.deploy(options),
            other => panic!("no imitation of {other:?}"),
        }
    }

    /// Writes the menu as grub-mkconfig does, from variables that a real shell evaluates.
    fn regenerate_grub(&mut self, shell: &str, menu: &str) {
        let directory = tempfile::tempdir().unwrap();
        let paths: Vec<String> = self
            .files
            .nodes()
            .map(|(path, _)| path.to_owned())
            .filter(|path| path.starts_with("/etc/default/grub"))
            .collect();
        for path in paths.iter().filter(|path| self.files.read(path).is_ok()) {
            let to = directory.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(to, self.files.read(path).unwrap()).unwrap();
        }
        let arguments = source(shell, directory.path());
        let (head, tail) = (self.menu_head, self.menu_tail);
        let text = format!(
            "set default=\"0\"\n{head}menuentry 'A' --id a {{\n\tlinux\t/boot/vmlinuz-{KERNEL} {ROOT} {arguments}{tail}\n\tinitrd\t/boot/initrd.img-{KERNEL}\n}}\n"
        );
        self.put(menu, &bedplate_base::lossless_text::encode(&text));
    }

    /// Imitates 90-loaderentry.install and ukify.
    fn regenerate_entry(&mut self) {
        let line = self.text("/etc/kernel/cmdline").unwrap();
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let entry = self.entry("/boot/efi/loader/entries");
        match entry {
            Some(path) => self.write_options(&path, &line),
            None => {
                let path = format!("/boot/efi/EFI/Linux/0123-{KERNEL}.efi");
                self.put(&path, &unified_image(&line));
            }
        }
    }

    /// Imitates `rpm-ostree kargs`: copies each argument verbatim into the entry.
    fn deploy(&mut self, options: &[&str]) {
        let path = self.entry("/boot/loader/entries").unwrap();
        let entry =
            bedplate_cmdline::boot::bls::BlsEntry::parse("x.conf", &self.text(&path).unwrap());
        let mut line = format!(" {} ", entry.options().join(" "));
        for option in options {
            if let Some(text) = option.strip_prefix("--delete=") {
                assert!(line.contains(&format!(" {text} ")), "{text:?} is not in {line:?}");
                line = line.replacen(&format!(" {text} "), " ", 1);
            } else if let Some(text) = option.strip_prefix("--append=") {
                line = format!("{line}{text} ");
            }
        }
        self.write_options(&path, line.trim());
    }

    fn entry(&self, directory: &str) -> Option<String> {
        let names = self.files.list(directory).ok()?;
        names.first().map(|name| format!("{directory}/{name}"))
    }

    fn write_options(&mut self, path: &str, options: &str) {
        let text = self.text(path).unwrap();
        let line = |line: &str| match line.starts_with("options ") {
            true => format!("options {options}\n"),
            false => format!("{line}\n"),
        };
        let text: String = text.lines().map(line).collect();
        self.put(path, text.as_bytes());
    }
}

/// Sources the main file and the drop-ins, and returns the arguments of a normal entry.
fn source(shell: &str, root: &Path) -> String {
    let script = "cd \"$1\"; . ./etc/default/grub; \
                  for f in etc/default/grub.d/*.cfg; do [ -e \"$f\" ] && . \"./$f\"; done; \
                  printf '%s %s' \"$GRUB_CMDLINE_LINUX\" \"$GRUB_CMDLINE_LINUX_DEFAULT\"";
    let output = Command::new(shell).args(["-ec", script, "sh"]).arg(root).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    bedplate_base::lossless_text::decode(&output.stdout)
}
