//! Redaction per file: a list of paths, each with a function that extracts the parts that bedplate uses. Only the
//! existence of unlisted files is recorded. Pure.

use super::lines::lines;
use super::masker::{Masker, Style};
use super::settings::{kernel_setting, link_setting, listed_module, module_option, sysctl};
use super::{kernel_log, ledger, profile};
use crate::kind::cmdline;
use crate::record;
use bedplate_base::{lossless_text, mask};
use bedplate_cmdline::boot::grub_files::SNAPSHOT_MENU;
use bedplate_facts::{boot, imex, iort, limits, nccl_conf, nvidia_modules};
use bedplate_host::snapshot_paths;

/// Longest value of a kernel attribute.
const LONGEST: usize = 4096;

/// Returns the part of a file that a snapshot may contain; `None`: no part.
pub(super) fn redact(path: &str, bytes: &[u8], words: &mut Masker) -> Option<Vec<u8>> {
    if path.starts_with("/sys/firmware/efi/efivars/") {
        return loader_variable(bytes, words);
    }
    if path.ends_with(".efi") {
        return super::uki::redact(bytes, words);
    }
    if bytes.starts_with(b"\x7fELF") {
        return (bytes.len() <= 64).then(|| bytes.to_vec());
    }
    if path == cmdline::BOOT_PARAMS {
        return Some(cmdline::recorded_boot_params(bytes));
    }
    if path == iort::PATH {
        return Some(iort::recorded(bytes));
    }
    let text = lossless_text::decode(bytes);
    let kept = of_text(path, &text, words)?;
    let kept = if path.ends_with("/grubenv") { resized(&kept, text.len()) } else { kept };
    Some(lossless_text::encode(&kept))
}

fn of_text(path: &str, text: &str, words: &mut Masker) -> Option<String> {
    // Recorded without addresses already, so that derived addresses remain recognizable.
    if path.starts_with(snapshot_paths::ANSWERS) {
        return match path {
            snapshot_paths::ROUTES => Some(words.identities(text)),
            snapshot_paths::KERNEL_LOG => kernel_log::redact(text, words),
            snapshot_paths::GRUB_HEADER_BLOCK => {
                let block: String = serde_json::from_str(text).ok()?;
                serde_json::to_string(&environment(&block, words)).ok()
            }
            _ => Some(text.to_owned()),
        };
    }
    Some(match path {
        "/proc/cpuinfo" => fields(text, ':', &CPU, words),
        // Recorded only on request.
        record::HOSTNAME => text.to_owned(),
        "/proc/meminfo" => fields(text, ':', &["MemTotal", "Hugepagesize"], words),
        "/proc/modules" => lines(text, loaded_module),
        "/proc/net/route" => routes(text, 1, 2, words),
        "/proc/net/ipv6_route" => routes(text, 0, 4, words),
        nvidia_modules::CUSTOM => nvidia_modules::recorded_path(text),
        bedplate_facts::cufile::PATH => super::cufile::redact(text, words),
        limits::MOUNTS => lines(text, shared_memory),
        cmdline::MOUNTINFO => {
            lines(text, |line| cmdline::recorded_mount(line).map(|line| words.identities(&line)))
        }
        cmdline::FSTAB => lines(text, cmdline::recorded_fstab),
        nccl_conf::NCCL_CONF | nccl_conf::RCCL_CONF => {
            lines(text, |line| Some(super::nccl::line(line, words)))
        }
        crate::kind::nccl::topology::PATH => super::nccl::topology(text),
        "/proc/cmdline" => words.text(text, Style::Line),
        "/proc/driver/nvidia/version" => {
            lines(text, |line| line.starts_with("NVRM version:").then(|| words.identities(line)))
        }
        "/proc/driver/nvidia/params" => lines(text, |line| {
            let (_, value) = line.split_once(": ")?;
            mask::is_numeric(value).then(|| line.to_owned())
        }),
        "/etc/os-release" | "/usr/lib/os-release" => fields(text, '=', &OS, words),
        "/etc/kernel/cmdline" | "/usr/lib/kernel/cmdline" => words.text(text, Style::Entry),
        "/etc/kernel/install.conf" | "/usr/lib/kernel/install.conf" => {
            fields(text, '=', &["layout"], words)
        }
        "/etc/sysconfig/bootloader" => fields(text, '=', &["LOADER_TYPE"], words),
        "/etc/tuned/active_profile" => {
            lines(text, |line| TUNED.contains(&line).then(|| line.to_owned()))
        }
        "/etc/default/grub" => words.text(text, Style::Script),
        boot::LINUX_SCRIPT => lines(text, |line| boot::script_mark(line).map(str::to_owned)),
        "/etc/modules" => lines(text, |line| Some(listed_module(line, words))),
        "/var/lib/bedplate/ledger.json" => ledger::redacted(text, words)?,
        imex::CONFIG | imex::NODES | imex::FIB_TRIE | imex::IF_INET6 => {
            super::imex::redact(path, text, words)
        }
        _ => return by_place(path, text, words),
    })
}

/// Redacts files that exist several times, by name and directory.
fn by_place(path: &str, text: &str, words: &mut Masker) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let within = |directory: &str| path.split('/').rev().nth(1) == Some(directory);
    Some(match path {
        _ if path.starts_with("/etc/bedplate/") && name.ends_with(".toml") => {
            profile::redact(text, words)
        }
        _ if path.ends_with("pci.ids") => text.to_owned(),
        _ if path.starts_with("/boot/config-")
            || path.starts_with("/usr/lib/modules/") && name == "config" =>
        {
            lines(text, |line| kernel_setting(line, words))
        }
        _ if path == "/etc/security/limits.conf" || within("limits.d") => {
            lines(text, session_limit)
        }
        _ if path.contains("/systemd/")
            && (name.ends_with(".service") || name.ends_with(".conf")) =>
        {
            lines(text, unit_limit)
        }
        _ if name == "cgroup.procs" || path.starts_with("/proc/") && PROCESS.contains(&name) => {
            lines(text, |line| process_line(name, line))
        }
        _ if path.starts_with("/sys/devices/system/node/") && name == "meminfo" => {
            lines(text, |line| line.contains(" MemTotal:").then(|| line.to_owned()))
        }
        _ if within("gids") => gid(text, words),
        _ if name == "node_guid" => words.identity(text),
        _ if name == "modules.dep" => {
            lines(text, |line| Some(format!("{}:", line.split(':').next()?)))
        }
        _ if name == "modules.symbols" => lines(text, |line| {
            line.contains(bedplate_facts::gpu::PEER_SYMBOL).then(|| line.to_owned())
        }),
        _ if name == "modules.builtin" => {
            lines(text, |line| plain_path(line).then(|| line.to_owned()))
        }
        _ if within("modprobe.d") => lines(text, |line| Some(module_option(line, words))),
        _ if within("modules-load.d") => lines(text, |line| Some(listed_module(line, words))),
        _ if within("sysctl.d") || path == "/etc/sysctl.conf" => {
            lines(text, |line| Some(sysctl(line, words)))
        }
        _ if within("kargs.d") => words.text(text, Style::Entry),
        _ if within("grub.d") || name == "grub.cfg" || within("grub") && name.ends_with(".cfg") => {
            words.text(text, Style::Script)
        }
        _ if within("grub2") && name.ends_with(".cfg") || path == SNAPSHOT_MENU => {
            words.text(text, Style::Script)
        }
        _ if name == "grubenv" => environment(text, words),
        _ if within("entries") || name == "loader.conf" => words.text(text, Style::Entry),
        _ if within("network") && name.ends_with(".link") => lines(text, link_setting),
        _ if path.starts_with("/sys/")
            || path.starts_with("/proc/")
            || path == "/etc/kernel/tries" =>
        {
            return attribute(path, text, words);
        }
        _ => return None,
    })
}

const CPU: [&str; 9] = [
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "flags",
    "CPU implementer",
    "CPU architecture",
    "CPU part",
    "Features",
];
const OS: [&str; 7] =
    ["NAME", "ID", "ID_LIKE", "VERSION", "VERSION_ID", "PRETTY_NAME", "VARIANT_ID"];

/// Attributes with a version of firmware or of a module, which may look like an address.
const VERSIONS: [&str; 3] = ["bios_version", "fw_ver", "version"];

/// TuneD's own profiles with arguments for the kernel command line (`profiles/`). Other names are the operator's.
const TUNED: [&str; 9] = [
    "accelerator-performance",
    "cpu-partitioning",
    "cpu-partitioning-powersave",
    "hpc-compute",
    "latency-performance",
    "network-latency",
    "realtime",
    "realtime-virtual-host",
    "throughput-performance",
];

/// Keeps the named lines of `name<mark>value` lines.
fn fields(text: &str, mark: char, names: &[&str], words: &mut Masker) -> String {
    lines(text, |line| {
        let (name, _) = line.split_once(mark)?;
        names.contains(&name.trim()).then(|| words.identities(line))
    })
}

/// Redacts a value of the kernel. Module parameters are set by operators.
fn attribute(path: &str, text: &str, words: &mut Masker) -> Option<String> {
    let value = text.trim_end_matches(['\n', '\0', ' ']);
    let end = &text[value.len()..];
    if value.len() > LONGEST || value.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return None;
    }
    if path.contains("/parameters/") {
        let name = path.rsplit('/').next().unwrap_or_default();
        return Some(words.value(name, value, Style::Setting) + end);
    }
    if path.ends_with("/uevent") {
        return Some(lines(text, |line| {
            let used = ["DRIVER=", "PCI_CLASS=", "PCI_ID=", "PCI_SUBSYS_ID=", "PCI_SLOT_NAME="];
            used.iter().any(|name| line.starts_with(name)).then(|| line.to_owned())
        }));
    }
    if VERSIONS.contains(&path.rsplit('/').next().unwrap_or_default()) {
        return Some(words.version(text));
    }
    // Addresses of memory, 16 digits each.
    let numbers = |line: &str| line.split_whitespace().all(mask::is_numeric);
    match value.lines().all(numbers) {
        true => Some(text.to_owned()),
        false => Some(words.identities(text)),
    }
}

/// Returns `name size users by state`, without the address.
fn loaded_module(line: &str) -> Option<String> {
    let mut parts: Vec<&str> = line.split(' ').collect();
    let address = parts.get_mut(5)?;
    *address = "0x0000000000000000";
    Some(parts.join(" "))
}

/// Keeps the default routes of a routing table without gateways: the networks of a host are private.
fn routes(text: &str, destination: usize, gateway: usize, words: &mut Masker) -> String {
    let clean = lines(text, |line| {
        let mut parts: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if parts.first().is_none_or(|word| word != "Iface") {
            parts.get(destination).filter(|to| to.bytes().all(|digit| digit == b'0'))?;
            let gateway = parts.get_mut(gateway)?;
            *gateway = "0".repeat(gateway.len());
        }
        Some(parts.join(" "))
    });
    words.identities(&clean)
}

/// Keeps the mount of shared memory, with its size only.
fn shared_memory(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split(' ').collect();
    let (at, kind, options) = (fields.get(1)?, fields.get(2)?, fields.get(3)?);
    let size = options.split(',').find(|option| option.starts_with("size="));
    let plain = mask::is_name(kind) && size.is_none_or(|size| size[5..].len() < 24);
    let size = size.map(|size| format!(",{size}")).unwrap_or_default();
    (*at == limits::SHM && plain).then(|| format!("tmpfs {at} {kind} rw{size} 0 0"))
}

/// Keeps the limits for all users on locked memory and stacks.
fn session_limit(line: &str) -> Option<String> {
    let parsed = |item| Some((item, limits::limit_of_everybody(line, item)?));
    let (item, (kind, value)) = ["memlock", "stack"].into_iter().find_map(parsed)?;
    let plain = value.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    plain.then(|| format!("* {kind} {item} {value}"))
}

/// Files about a process.
const PROCESS: [&str; 2] = ["limits", "status"];

/// Keeps process ids, limits on locked memory and stacks, and whether a process runs as root.
fn process_line(name: &str, line: &str) -> Option<String> {
    let kept = ["Max locked memory ", "Max stack size "];
    match name {
        "limits" => kept.iter().any(|name| line.starts_with(name)).then(|| line.to_owned()),
        "status" => {
            let user = line.strip_prefix("Uid:")?.split_whitespace().next()?;
            Some(format!("Uid:\t{}", if user == "0" { "0" } else { "65534" }))
        }
        _ => mask::is_numeric(line).then(|| line.to_owned()),
    }
}

/// Keeps limits and the slice in units and systemd's configuration, and the section headings.
fn unit_limit(line: &str) -> Option<String> {
    let line = line.trim();
    let is_section =
        ["[Service]", "[Manager]"].contains(&line) || line.starts_with('[') && line.ends_with(']');
    if is_section {
        let plain = line[1..line.len() - 1].bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
        return Some(if plain { line } else { "[]" }.to_owned());
    }
    let (key, value) = line.split_once('=')?;
    let is_kept = ["LimitMEMLOCK", "DefaultLimitMEMLOCK", "LimitSTACK", "TasksMax", "Slice"];
    let plain = value.len() < 64
        && value.bytes().all(|c| c.is_ascii_alphanumeric() || b" :%.-".contains(&c));
    (is_kept.contains(&key.trim_end()) && plain).then(|| line.to_owned())
}

/// Keeps the type of a GID table entry: a link-local address, one of IPv4 or IPv6, or empty.
fn gid(text: &str, words: &mut Masker) -> String {
    const LINK_LOCAL: &str = "fe80:0000:0000:0000:";
    const IPV4: &str = "0000:0000:0000:0000:0000:ffff:";
    let start = [LINK_LOCAL, IPV4].into_iter().find(|start| text.starts_with(start));
    let (start, rest) = text.split_at(start.map_or(0, str::len));
    match start == IPV4 && rest.starts_with("0000:") {
        // Masked before: no address begins with 0.0.
        true => text.to_owned(),
        false => format!("{start}{}", words.identity(rest)),
    }
}

fn plain_path(line: &str) -> bool {
    line.bytes().all(|c| c.is_ascii_alphanumeric() || b"/_.-+".contains(&c))
}

/// Redacts an environment block: its first line identifies it, and its padding belongs to the format.
fn environment(text: &str, words: &mut Masker) -> String {
    lines(text, |line| match line {
        "# GRUB Environment Block" => Some(line.to_owned()),
        // Padding.
        _ if line.bytes().all(|byte| byte == b'#') => Some(line.to_owned()),
        _ if line.starts_with('#') => Some("#".to_owned()),
        _ => match line.split_once('=') {
            // The value is a command line: its words are masked as in other lines.
            Some((name @ ("kernelopts" | "tuned_params"), value)) => {
                Some(format!("{name}={}", words.text(value, Style::Line)))
            }
            _ => Some(words.text(line, Style::Line)),
        },
    })
}

fn resized(text: &str, length: usize) -> String {
    let body = text.trim_end_matches('#');
    if body.len() > length { text.to_owned() } else { format!("{body:#<length$}") }
}

/// Redacts the boot loader's variables about itself and its entries: four bytes of attributes, then UTF-16.
fn loader_variable(bytes: &[u8], words: &mut Masker) -> Option<Vec<u8>> {
    let (attributes, content) = bytes.split_at_checked(4)?;
    let (units, odd) = content.as_chunks::<2>();
    let text =
        String::from_utf16(&units.iter().map(|unit| u16::from_le_bytes(*unit)).collect::<Vec<_>>());
    let text = text.ok().filter(|_| odd.is_empty())?;
    let mut clean = attributes.to_vec();
    clean.extend(words.text(&text, Style::Line).encode_utf16().flat_map(u16::to_le_bytes));
    Some(clean)
}
