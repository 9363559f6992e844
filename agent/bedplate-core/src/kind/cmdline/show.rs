//! View of the command line for operators: its states side by side, with the owner and the reader of each argument.

use std::collections::BTreeMap;

use serde::Serialize;

use super::owned_arguments::owned;
use super::{ObservedLines, arch, backend};
use crate::ledger::Ledger;
use bedplate_base::Reading;
use bedplate_cmdline::{CommandLine, Edit, RepeatedParameter, Token, repeated};
use bedplate_facts::Facts;
use bedplate_facts::iommu_groups::iommu_groups;
use bedplate_host::{HostKind, Reader};

/// States and arguments of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandLineView {
    /// Line that the boot configuration gives new entries.
    pub configured: Reading<String>,
    /// Line of the default entry.
    pub next_boot: Reading<String>,
    /// Line of the running kernel.
    pub running: Reading<String>,
    /// Types of the IOMMU groups of GPUs and NICs, counted by function: the effect of the arguments.
    pub effective: BTreeMap<String, usize>,
    /// Every argument of any state.
    pub arguments: Vec<Argument>,
    /// Parameters that are given more than once, at the next boot or else now.
    pub repeated: Vec<RepeatedParameter>,
}

/// Argument with its states, reader and owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Argument {
    /// Text as written.
    pub argument: String,
    /// Whether the configured line has the argument. `null`: unknown.
    pub configured: Option<bool>,
    /// Whether the line of the next boot has it. `null`: unknown.
    pub next_boot: Option<bool>,
    /// Whether the running line has it. `null`: unknown.
    pub running: Option<bool>,
    /// Reader: kernel, module or program.
    pub read_by: String,
    /// Owner: bedplate, a boot loader file, or other tools.
    pub owner: String,
}

/// Reads all states.
pub fn read(reader: &dyn Reader, facts: &Facts) -> CommandLineView {
    let observed = match backend(&facts.boot) {
        Ok(backend) => (backend.observe)(reader, facts),
        Err(obstacle) => ObservedLines {
            configured: Reading::unknown(obstacle.reason.clone()),
            next: Reading::unknown(obstacle.reason),
            remarks: Vec::new(),
        },
    };
    // bedplate's own part alone is not the configured line.
    let configured = match observed.remarks.first() {
        Some(why) => Reading::unknown(why.clone()),
        None => observed.configured,
    };
    let running = match facts.host {
        HostKind::Image => Reading::Absent,
        _ => Reading::from_result(super::running_line(reader)),
    };
    let lines = [configured, observed.next, running];
    let arch = arch(facts);
    let shown = lines[1].known().or(lines[2].known()).or(lines[0].known());
    let [configured, next_boot, now] = lines.clone().map(|line| line.map(|line| line.to_string()));
    CommandLineView {
        configured,
        next_boot,
        running: now,
        effective: iommu_groups(reader, facts).types,
        arguments: arguments(&lines, reader, facts),
        repeated: shown.map(|line| repeated(line, arch)).unwrap_or_default(),
    }
}

/// Returns the arguments of the next boot, then those of other states only, then init's.
fn arguments(
    lines: &[Reading<CommandLine>; 3],
    reader: &dyn Reader,
    facts: &Facts,
) -> Vec<Argument> {
    let own = own(reader, facts);
    let [configured, next, running] = lines;
    let mut all: Vec<Token> = Vec::new();
    for line in [next, running, configured].into_iter().filter_map(Reading::known) {
        for token in line.tokens() {
            if !all.iter().any(|other| other.same_for_kernel(token)) {
                all.push(token.clone());
            }
        }
    }
    let has = |line: &Reading<CommandLine>, token: &Token| {
        line.known().map(|line| line.tokens().any(|other| other.same_for_kernel(token)))
    };
    let shown = all.iter().map(|token| {
        let states = [configured, next, running].map(|line| has(line, token));
        Argument {
            argument: token.as_str().to_owned(),
            configured: states[0],
            next_boot: states[1],
            running: states[2],
            read_by: read_by(token, reader),
            owner: owner(token, states, own.as_ref()),
        }
    });
    let mut shown: Vec<Argument> = shown.collect();
    let init = |line: &Reading<CommandLine>| {
        line.known().and_then(|line| line.init_arguments().map(str::to_owned))
    };
    if let Some(text) = init(next).or_else(|| init(running)) {
        let has = |line: &Reading<CommandLine>| {
            line.known().map(|line| line.init_arguments() == Some(text.as_str()))
        };
        shown.push(Argument {
            argument: format!("-- {text}"),
            configured: has(configured),
            next_boot: has(next),
            running: has(running),
            read_by: "init".to_owned(),
            owner: "others".to_owned(),
        });
    }
    shown
}

/// Returns the arguments that bedplate owns by the ledger.
fn own(reader: &dyn Reader, facts: &Facts) -> Option<Edit> {
    let ledger = Ledger::load(reader).ok()?;
    Edit::new(arch(facts), owned(&ledger)).ok()
}

fn owner(token: &Token, [configured, next, _]: [Option<bool>; 3], own: Option<&Edit>) -> String {
    let ours = own.and_then(|own| {
        let line = own.rendered().ok()?;
        match line.tokens().any(|other| other.same_for_kernel(token)) {
            true => Some("bedplate".to_owned()),
            false => own.staying(token, &line).map(|part| match part == *token {
                true => "bedplate".to_owned(),
                false => format!("bedplate ({part}) and others"),
            }),
        }
    });
    if let Some(ours) = ours {
        return ours;
    }
    match (token.folded_name().as_str(), configured, next) {
        ("BOOT_IMAGE" | "initrd", ..) => "boot loader".to_owned(),
        (_, Some(true), _) => "boot configuration".to_owned(),
        // root= and related arguments: the tool that makes entries adds them.
        (_, Some(false), Some(true)) => "boot entry".to_owned(),
        _ => "others".to_owned(),
    }
}

/// User space programs that read their own arguments in /proc/cmdline, by the prefix of the name.
const USER_SPACE: &[(&str, &str)] = &[
    ("rd.", "initramfs (dracut)"),
    ("luks.", "systemd"),
    ("systemd.", "systemd"),
    ("fsck.", "systemd"),
    ("quotacheck.", "systemd"),
    ("vconsole.", "systemd"),
    ("udev.", "udev"),
    ("net.ifnames", "udev"),
    ("biosdevname", "udev"),
    ("modprobe.", "modprobe"),
    ("ostree", "ostree"),
    ("ignition.", "Ignition"),
    ("talos.", "Talos"),
    ("plymouth.", "plymouth"),
    ("splash", "plymouth"),
    ("rhgb", "plymouth"),
    ("cloud_init", "cloud-init"),
    ("ds=", "cloud-init"),
    ("crashkernel", "kernel, kdump"),
];

/// Words that init interprets (systemd(1), init(8)).
const INIT: [&str; 9] = ["single", "emergency", "rescue", "s", "S", "1", "2", "3", "5"];

/// Returns the reader of an argument, by its name and the loaded modules.
fn read_by(token: &Token, reader: &dyn Reader) -> String {
    let name = token.folded_name();
    if name == "BOOT_IMAGE" {
        return "nobody".to_owned();
    }
    if INIT.contains(&name.as_str()) && token.value().is_none() {
        return "init".to_owned();
    }
    let starts = |(start, _): &&(&str, &str)| token.as_str().replace('-', "_").starts_with(start);
    if let Some((_, program)) = USER_SPACE.iter().find(starts) {
        return (*program).to_owned();
    }
    // Built-in parts of the kernel are in /sys/module as well, without `initstate`.
    match name.split_once('.') {
        None => "kernel".to_owned(),
        Some((module, _))
            if reader.exists(&format!("/sys/module/{module}/initstate")) == Ok(true) =>
        {
            format!("module {module}")
        }
        Some((module, _)) if reader.exists(&format!("/sys/module/{module}")) == Ok(true) => {
            "kernel".to_owned()
        }
        Some(("iommu", _)) => "kernel".to_owned(),
        Some((module, _)) => format!("module {module}, once loaded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_facts::{Depth, observe};
    use bedplate_testhosts::HostSpec;

    fn arguments_of(spec: &str) -> CommandLineView {
        let host = HostSpec::from_toml(spec).unwrap().build();
        read(&host, &observe(&host, Depth::Plan))
    }

    #[test]
    fn every_argument_has_its_states_owner_and_reader() {
        let shown = arguments_of(
            "machine = 'plain'\ncmdline = 'pci=noaer,realloc isolcpus=1 isolcpus=2 nvidia.NVreg_X=1 splash'\n\
             running-cmdline = 'nosmt -- single'\n[modules]\nnvidia = 'live'\n[files]\n\
             '/var/lib/bedplate/ledger.json' = '{\"version\":1,\"owed\":[],\"owned\":{\"cmdline\":[\"pci=realloc\"]}}'",
        );
        let row = |name: &str| {
            let found = shown.arguments.iter().find(|row| row.argument.starts_with(name));
            let row = found.unwrap_or_else(|| panic!("{name} is not shown"));
            let states = [row.configured, row.next_boot, row.running];
            (states, row.read_by.as_str(), row.owner.as_str())
        };
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(row("pci="), ([yes, yes, no], "kernel", "bedplate (pci=realloc) and others"));
        assert_eq!(row("nosmt"), ([no, no, yes], "kernel", "others"));
        assert_eq!(row("nvidia."), ([yes, yes, no], "module nvidia", "boot configuration"));
        assert_eq!(row("splash"), ([yes, yes, no], "plymouth", "boot configuration"));
        assert_eq!(row("root="), ([no, yes, yes], "kernel", "boot entry"));
        assert_eq!(row("BOOT_IMAGE"), ([no, no, yes], "nobody", "boot loader"));
        assert_eq!(row("-- single"), ([no, no, yes], "init", "others"));
        let repeated: Vec<&str> = shown.repeated.iter().map(|one| one.result.as_str()).collect();
        assert!(repeated.contains(&"the last one applies: `isolcpus=2`"), "{repeated:?}");
        assert!(repeated.iter().any(|text| text.contains("/dev/console")), "{repeated:?}");
    }

    #[test]
    fn unevaluable_configuration_is_shown_as_unknown() {
        let shown = arguments_of(
            "machine = 'plain'\n[files]\n'/etc/default/grub.d/60-x.cfg' = 'GRUB_CMDLINE_LINUX=$(x)'",
        );
        assert!(matches!(&shown.configured, Reading::Unknown(why) if why.contains("60-x.cfg:1")));
        assert!(shown.arguments.iter().all(|row| row.configured.is_none()));
    }
}
