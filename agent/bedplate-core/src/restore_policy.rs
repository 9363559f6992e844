//! Content that must never be restored from the ledger, regardless of its record. The ledger is a file: without this
//! policy, anybody who can write it could have modprobe, update-grub, or the kernel run a command as root. Pure.

use std::collections::BTreeSet;

use super::kind::cmdline::{KERNEL_CMDLINE, SDBOOTUTIL_PATH, SED_SPECIAL};
use super::kind::limits::restore_fault;
use super::kind::sysctl::key::Key;
use bedplate_cmdline::boot::grub_default;
use bedplate_host::Reader;

const CONTROLS: &str = "would restore control characters, which programs read as line ends";
const COMMANDS: &str =
    "would restore lines other than `options`, `blacklist`, `alias` and `softdep`";
const SCRIPT: &str = "would restore script lines other than plain settings of GRUB_ variables";
const LIMITS: &str = "would restore lines other than limits of memory, stacks and tasks";
const PROGRAM: &str = "would restore a kernel parameter that names a program";
const SED: &str = "would restore `|`, `&` or a backslash, which sdbootutil passes to sed";

/// As [`refusal`], also by the tools of this host: sdbootutil runs sed with the line of /etc/kernel/cmdline.
pub(crate) fn refusal_on(
    reader: &dyn Reader,
    path: &str,
    content: &[u8],
    now: Option<&[u8]>,
) -> Option<&'static str> {
    let is_in_sed = path == KERNEL_CMDLINE && reader.exists(SDBOOTUTIL_PATH) != Ok(false);
    let has_special = || String::from_utf8_lossy(content).contains(SED_SPECIAL);
    match is_in_sed && now != Some(content) && has_special() {
        true => Some(SED),
        false => refusal(path, content, now),
    }
}

/// Returns why this content may not replace `now`; `None` if it may. Lines in `now` are allowed.
pub fn refusal(path: &str, content: &[u8], now: Option<&[u8]>) -> Option<&'static str> {
    let rule: fn(&str, &str) -> Option<&'static str> = match path {
        _ if path.starts_with("/etc/modprobe.d/") => modprobe,
        _ if path.starts_with("/etc/sysctl.d/") => sysctl,
        _ if path.starts_with("/etc/default/") => grub,
        _ if path.starts_with("/etc/systemd/") || path.starts_with("/etc/security/") => limits,
        _ => return None,
    };
    if now == Some(content) {
        return None;
    }
    // systemd-sysctl ends lines at a carriage return and at NUL, the shell ends words at a form feed.
    if content.iter().any(|byte| byte.is_ascii_control() && !b"\t\n".contains(byte)) {
        return Some(CONTROLS);
    }
    // Programs read other encodings byte by byte: ASCII has the same meaning in them.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    rule(&text(content), &text(now.unwrap_or_default()))
}

/// Whether any of `lines`, the effective ones, is new.
fn has_new<'a>(lines: impl Iterator<Item = &'a str>, now: &BTreeSet<&str>) -> bool {
    lines.into_iter().any(|line| !now.contains(line))
}

fn modprobe(content: &str, now: &str) -> Option<&'static str> {
    // A backslash escapes the next character, and so joins lines (libkmod, libkmod-config.c: freadline_wrapped).
    let mut rest = content;
    while let Some((_, after)) = rest.split_once('\\') {
        let Some(next) = after.strip_prefix('\n') else { return Some(COMMANDS) };
        rest = next;
    }
    let joined = |text: &str| text.replace("\\\n", " ");
    let (content, now) = (joined(content), joined(now));
    let is_command = |line: &&str| {
        let word = line.split_whitespace().next().unwrap_or("#");
        !word.starts_with('#') && !["options", "blacklist", "alias", "softdep"].contains(&word)
    };
    let there: BTreeSet<&str> = now.lines().collect();
    has_new(content.lines().filter(is_command), &there).then_some(COMMANDS)
}

fn sysctl(content: &str, now: &str) -> Option<&'static str> {
    // A pattern may match any of them (sysctl.d(5)).
    let names_program = |line: &&str| {
        let key = line.trim().trim_start_matches('-').split('=').next().unwrap_or_default().trim();
        let is_comment = key.is_empty() || key.starts_with(['#', ';']);
        !is_comment && Key::new(key).map_or(true, |key| key.names_program())
    };
    let there: BTreeSet<&str> = now.lines().collect();
    has_new(content.lines().filter(names_program), &there).then_some(PROGRAM)
}

fn limits(content: &str, now: &str) -> Option<&'static str> {
    let there: BTreeSet<&str> = now.lines().collect();
    let faults = content.lines().filter(|line| restore_fault(line));
    has_new(faults, &there).then_some(LIMITS)
}

fn grub(content: &str, now: &str) -> Option<&'static str> {
    let is_variable = |name: &str| name.starts_with("GRUB_");
    let code = |text: &str| grub_default::parse(text).other_lines(&is_variable);
    let (content, now) = (code(content), code(now));
    let there: BTreeSet<&str> = now.iter().map(String::as_str).collect();
    has_new(content.iter().map(String::as_str), &there).then_some(SCRIPT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::snapshot::{Node, Snapshot};

    const MODPROBE: &str = "/etc/modprobe.d/zz-bedplate.conf";
    const SYSCTL: &str = "/etc/sysctl.d/zz-bedplate.conf";
    const GRUB: &str = "/etc/default/grub";
    const UNIT: &str = "/etc/systemd/system/slurmd.service.d/zz-bedplate.conf";
    const SESSIONS: &str = "/etc/security/limits.d/zz-bedplate.conf";

    fn is_refused(path: &str, content: &str, now: Option<&str>) -> bool {
        refusal(path, content.as_bytes(), now.map(str::as_bytes)).is_some()
    }

    #[test]
    fn commands_are_not_restored() {
        for (path, content) in [
            (MODPROBE, "install nvidia /bin/sh -c x\n"),
            (MODPROBE, "options a b=1\n\tinstall nvidia x\n"),
            (MODPROBE, "inst\\\nall nvidia x\n"),
            (MODPROBE, "remove nvidia x\n"),
            (MODPROBE, "include /tmp/x\n"),
            (MODPROBE, "options a b=1 \\\\\ninstall nvidia x\n"),
            (UNIT, "[Service]\nExecStartPre=/x\n"),
            (UNIT, "[Unit]\nLimitMEMLOCK=1\n"),
            (UNIT, "[Service]\nLimitMEMLOCK=1 \\\nx\n"),
            (UNIT, "[Service]\nLimitMEMLOCK=/x\n"),
            (SESSIONS, "* - chroot /x\n"),
            (SESSIONS, "mallory - memlock\n"),
            (SYSCTL, "kernel.core_pattern=|/x\n"),
            (SYSCTL, "# x\rkernel.core_pattern=|/x\n"),
            (SYSCTL, "# x\0kernel.core_pattern=|/x\n"),
            (SYSCTL, "fs.ocfs2.nm.hb_ctl_path=/x\n"),
            ("/etc/default/grub.d/00-x.cfg", "\x0c#||touch /x\n"),
            ("/etc/default/grub.d/00-x.cfg", "\u{a0}#||touch /x\n"),
            ("/etc/default/grub.d/00-x.cfg", "GRUB_CMDLINE_LINUX=\"${PATH:=/x}\"\n"),
            ("/etc/default/grub.d/00-x.cfg", "PATH=/x\n"),
            (SYSCTL, "-kernel/core_pattern = |/x\n"),
            (SYSCTL, "kernel.core_*=|/x\n"),
            ("/etc/default/grub.d/00-x.cfg", "touch /x\n"),
            ("/etc/default/grub.d/00-x.cfg", "GRUB_CMDLINE_LINUX=\"$(touch /x)\"\n"),
            ("/etc/default/grub.d/00-x.cfg", "GRUB_CMDLINE_LINUX=\"${X:-`touch /x`}\"\n"),
            ("/etc/default/grub.d/00-x.cfg", "GRUB_CMDLINE_LINUX=a touch /x\n"),
            ("/etc/default/grub.d/00-x.cfg", "GRUB_CMDLINE_LINUX=a; touch /x\n"),
            ("/etc/default/grub.d/00-x.cfg", "GRUB_CMDLINE_LINUX=a >/x\n"),
            ("/etc/default/grub.d/00-x.cfg", "GRUB_DISTRIBUTOR=$(touch /x)\n"),
            ("/etc/default/grub.d/00-x.cfg", "cat <<x\nGRUB_CMDLINE_LINUX=a\nx\n"),
        ] {
            assert!(is_refused(path, content, None), "{content}");
            // Also rejected if another content exists.
            assert!(is_refused(path, content, Some("# nothing\n")), "{content}");
        }
    }

    #[test]
    fn line_for_sed_is_restored_only_without_sdbootutil() {
        let (line, other) = (b"quiet x=a|b\n".as_slice(), b"quiet\n".as_slice());
        for (tool, path, now, expected) in [
            (SDBOOTUTIL_PATH, KERNEL_CMDLINE, other, Some(SED)),
            (SDBOOTUTIL_PATH, KERNEL_CMDLINE, line, None),
            (SDBOOTUTIL_PATH, "/boot/efi/loader/entries/a.conf", other, None),
            ("/usr/bin/kernel-install", KERNEL_CMDLINE, other, None),
        ] {
            let mut host = Snapshot::new(false);
            host.insert(tool, Node::Present);
            host.complete();
            assert_eq!(refusal_on(&host, path, line, Some(now)), expected, "{tool}: {path}");
            assert_eq!(refusal_on(&host, path, other, None), None, "{tool}: {path}");
        }
    }

    #[test]
    fn plain_settings_are_restored() {
        let grub = "GRUB_DISTRIBUTOR=`lsb_release -i -s`\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nif true; then x; fi\n";
        let edited = grub.replace("quiet", "quiet iommu=pt \\\n b");
        let added = format!("{grub}\nGRUB_CMDLINE_LINUX=\"a\"\n# comment\n");
        for now in [edited, added] {
            assert!(!is_refused(GRUB, grub, Some(&now)), "{now}");
            assert!(!is_refused(GRUB, &now, Some(grub)), "{now}");
        }
        let own = "# written by bedplate\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt\"\n";
        assert!(!is_refused("/etc/default/grub.d/zz-bedplate.cfg", own, None));
        let appended = "GRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }a=1\"\n";
        assert!(!is_refused("/etc/default/grub.d/40.cfg", appended, None));
        let modprobe = "# x\noptions nvidia a=1 \\\n b=2\nblacklist nouveau\nsoftdep a pre: b\n";
        assert!(!is_refused(MODPROBE, modprobe, None));
        let there = "install x /bin/true\noptions a b=1\n";
        assert!(!is_refused(MODPROBE, there, Some("options a b=2\ninstall x /bin/true\n")));
        assert!(!is_refused(SYSCTL, "# x\nkernel.numa_balancing = 0\n-vm.swappiness=1\n", None));
        // These files only contain names of modules.
        assert!(!is_refused("/etc/modules-load.d/bedplate.conf", "anything\n", None));
        assert!(!is_refused("/etc/nccl.conf", "anything\n", None));
    }
}
