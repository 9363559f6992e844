//! Masking of the output of tools, which may quote the files that they read. Shows words of the messages of tools and
//! kernel, and the system paths that tools read and write. Masks everything else. Pure.

use super::{MASKED, is_flag, is_kernel_image, is_plain, mask_message, quotations};

/// Prefixes of paths that reveal only a part of the system.
const SYSTEM_PATHS: [&str; 16] = [
    "/bin/",
    "/boot/efi/",
    "/boot/grub/",
    "/boot/grub2/",
    "/boot/loader/",
    "/dev/null",
    "/etc/default/grub",
    "/etc/dracut.conf",
    "/etc/grub.d/",
    "/etc/initramfs-tools/",
    "/etc/kernel/",
    "/etc/mkinitcpio.conf",
    "/lib/",
    "/sbin/",
    "/usr/",
    "/proc/",
];

/// Words of messages of `strerror`, of shells, and of the tools that bedplate runs (GRUB's tools, dracut,
/// kernel-install, update-initramfs, mlxconfig, devlink). Lower case, sorted.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a", "aborted", "aborting", "access", "address", "after", "all", "allocate", "already", "an",
    "and", "any", "are", "argument", "arguments", "as", "at", "attribute", "available", "bad",
    "bash", "be", "because", "been", "before", "block", "boot", "bootctl", "broken", "buffer",
    "building", "busy", "by", "can", "cannot", "canonical", "changed", "character", "child", "code",
    "command", "config", "configuration", "connection", "content", "copy", "core", "corrupted",
    "could", "create", "creating", "data", "dead", "denied", "depmod", "detected", "device",
    "devlink", "did", "directories", "directory", "disk", "do", "does", "done", "dracut", "driver",
    "dumped", "empty", "end", "entries", "entry", "eof", "error", "errors", "exceeded", "exec",
    "executable", "execute", "exist", "exists", "exit", "exited", "expected", "expecting",
    "expression", "failed", "failure", "fatal", "file", "files", "filesystem", "find", "firmware",
    "for", "format", "found", "from", "full", "function", "generate", "generated", "generating",
    "get", "grub", "grub-file", "grub-install", "grub-mkconfig", "grub-probe", "grub-script-check",
    "grub2-mkconfig", "grub2-probe", "grubenv", "has", "have", "help", "hook", "i", "if", "illegal",
    "image", "in", "include", "initial", "initramfs", "initrd", "input", "install", "installed",
    "interrupted", "invalid", "io", "is", "kernel", "kernel-install", "kernels", "killed", "large",
    "left", "level", "library", "line", "link", "linux", "list", "load", "loading", "lock", "long",
    "loop", "many", "may", "memory", "menu", "message", "missing", "mkdir", "mkinitramfs",
    "mlxconfig", "module", "modules", "mount", "mounted", "must", "mv", "name", "near", "new", "no",
    "not", "nothing", "number", "of", "on", "open", "opening", "operation", "option", "or",
    "os-prober", "out", "output", "package", "parse", "parser", "partition", "path", "permission",
    "permitted", "pipe", "please", "plugin", "possible", "privileges", "process", "provided",
    "query", "quota", "quoted", "read", "read-only", "reading", "refused", "regular", "removed",
    "rename", "requested", "required", "requires", "resource", "root", "run", "running", "script",
    "segmentation", "sh", "should", "size", "skipping", "space", "stale", "status", "string",
    "such", "supported", "symbolic", "syntax", "system", "temporarily", "temporary", "terminated",
    "text", "that", "the", "there", "this", "timed", "timeout", "to", "token", "too", "tool", "try",
    "type", "unable", "unavailable", "unbound", "unexpected", "unit", "unknown", "unrecognized",
    "unset", "unsupported", "unterminated", "update-grub", "update-initramfs", "usage", "use",
    "used", "using", "value", "variable", "version", "warning", "was", "were", "while", "with",
    "without", "word", "write", "writing", "wrong", "you",
];

/// Masks, line by line, every part of a tool's output that could come from a file or from the operator.
pub fn masked(printed: &str) -> String {
    printed.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn line(line: &str) -> String {
    let clean = quotations(&mask_message(line), &is_shown);
    let mut shown: Vec<String> = Vec::new();
    for word in clean.split_whitespace() {
        let core = word.trim_matches(|c: char| !c.is_alphanumeric() && !"/_=…".contains(c));
        let is_assignment = core.split_once('=').is_some_and(|(_, value)| value == MASKED);
        let word = match core.is_empty() || core == MASKED || is_assignment || is_shown(core) {
            true => word.to_owned(),
            // A colon that ends a clause stays.
            false => MASKED.to_owned() + if word.ends_with(':') { ":" } else { "" },
        };
        if word != MASKED || shown.last().is_none_or(|last| last != MASKED) {
            shown.push(word);
        }
    }
    shown.join(" ")
}

fn is_shown(word: &str) -> bool {
    is_plain(word)
        || is_flag(word)
        || is_kernel_image(word)
        || WORDS.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
        || is_system_path(word)
}

fn is_system_path(word: &str) -> bool {
    let is_system = word == "/" || SYSTEM_PATHS.iter().any(|start| word.starts_with(start));
    is_system && word.bytes().all(|c| c.is_ascii_alphanumeric() || b"/_.+-".contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted_and_unique() {
        assert!(WORDS.is_sorted());
        assert!(WORDS.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn messages_stay_readable() {
        for shown in [
            "/usr/sbin/grub-mkconfig: 12: /etc/default/grub: Syntax error: Unterminated quoted string",
            "/usr/sbin/grub-probe: error: cannot find a device for / (is the disk mounted?).",
            "cannot create /boot/grub/grub.cfg.new: No space left on device",
            "Generating grub configuration file ...",
            "Found linux image: /boot/vmlinuz-6.8.0-45-generic",
            "dracut: [E] Module could not be installed",
        ] {
            assert_eq!(masked(shown), shown.replace("[E]", MASKED));
        }
    }

    #[test]
    fn text_from_files_is_masked() {
        for (printed, said) in [
            ("/etc/default/grub: 3: hunter2: not found", "/etc/default/grub: 3: …: not found"),
            ("line 4: rd.luks.key=/hunter2: No such file", "line 4: rd.luks.key=… No such file"),
            ("bash: line 3: `GRUB_X=(hunter2'", "bash: line 3: `…"),
            ("unexpected \"hunter2 hunter3\" in file", "unexpected \"…\" in file"),
            ("number 4821 of 10.1.2.3 me@example", "number … of …"),
            ("see https://me:hunter2@lock.example/", "…"),
            ("/home/hunter2/x and /etc/kernel/\u{1b}[31m", "… and …"),
            ("the file\nhunter2", "the file\n…"),
        ] {
            assert_eq!(masked(printed), said);
        }
    }
}
