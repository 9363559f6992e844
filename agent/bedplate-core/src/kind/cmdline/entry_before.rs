//! State of the default boot entry before a change, and the parts that the change must preserve. Tools make entries
//! from more than bedplate edits, so the check after the change compares all parts.

use super::boot_entry::{self, BootEntry};
use super::only_in_entry::{self, OF_THE_ENTRY, has};
use super::root_device::{self, SameRoot};
use super::{Context, ObservedLines, Steps, soundness};
use crate::plan::{Action, Check, EntryBefore};
use bedplate_base::Reading;
use bedplate_cmdline::{CommandLine, Edit, Token};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::Reader;

/// Arguments that find or mount the root file system, which generators add to the configured ones.
const OF_THE_ROOT: [&str; 6] = ["rootflags", "rootfstype", "ro", "rw", "cryptdevice", "cryptkey"];

/// Stores the entry in the check at the end of the steps.
pub(crate) fn note(context: &Context, edit: &Edit, observed: &ObservedLines, steps: &mut Steps) {
    for action in &mut steps.actions {
        if let Action::Verify(Check::NextBoot { before, .. }) = action {
            *before = read(context, edit, observed);
        }
    }
}

/// Returns the check that follows a tool of another resource type: the tool must not change the arguments of the
/// default entry. `None` if the entry is unknown.
pub(super) fn check_of(context: &Context, edit: &Edit, observed: &ObservedLines) -> Option<Action> {
    let before = Some(read(context, edit, observed)?);
    Some(Action::Verify(Check::NextBoot { present: Vec::new(), absent: Vec::new(), before }))
}

/// Reads the entry. `None` if the entry is unknown, so that nothing can be compared.
fn read(context: &Context, edit: &Edit, observed: &ObservedLines) -> Option<EntryBefore> {
    let ObservedLines { configured, next, .. } = observed;
    let Reading::Known(line) = next else { return None };
    let entry = boot_entry::with_line(context.reader, context.facts, line.clone());
    let Reading::Known(entry) = entry else { return None };
    let target = edit.apply(&entry.line).ok()?;
    // Only grub-mkconfig is known to drop arguments that were removed from the configuration.
    let keeps_all = !matches!(
        context.facts.boot,
        BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse
    );
    let stays = |token: &&Token| {
        let name = token.folded_name();
        let is_configured = match configured {
            // The next regeneration drops an argument that an operator removed from the configuration.
            Reading::Known(line) => has(line, token),
            Reading::Absent | Reading::Unknown(_) => true,
        };
        name != "root"
            && !OF_THE_ENTRY.contains(&name.as_str())
            && (is_configured || keeps_all || is_of_the_root(token))
            && has(&target, token)
    };
    Some(EntryBefore {
        arguments: entry.line.tokens().filter(stays).map(Token::to_string).collect(),
        root: root_device::root(&entry.line),
        initrd: has_initrd(&entry),
    })
}

/// Whether an argument finds or mounts the root file system.
pub(crate) fn is_of_the_root(token: &Token) -> bool {
    OF_THE_ROOT.contains(&token.folded_name().as_str()) || only_in_entry::is_needed(token)
}

/// Whether an entry loads or contains an initrd.
pub(crate) fn has_initrd(entry: &BootEntry) -> bool {
    entry.is_whole || !entry.initrds.is_empty()
}

/// Checks that the entry has lost nothing since `before` and has no known fault.
///
/// # Errors
/// With all losses and faults.
pub fn check(
    reader: &dyn Reader,
    facts: &Facts,
    before: Option<&EntryBefore>,
) -> Result<(), String> {
    let entry = match boot_entry::default(reader, facts) {
        Reading::Known(entry) => entry,
        Reading::Absent | Reading::Unknown(_) => return Ok(()),
    };
    let mut wrong = before.map_or_else(Vec::new, |before| lost_arguments(reader, &entry, before));
    wrong.extend(soundness(reader, facts).faults.into_iter().map(|fault| fault.reason));
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("; ")),
    }
}

/// Returns a message for each loss of the entry since `before`: arguments, the root, the initrd.
pub(crate) fn lost_arguments(
    reader: &dyn Reader,
    entry: &BootEntry,
    before: &EntryBefore,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for argument in &before.arguments {
        if Token::new(argument).is_ok_and(|token| !has(&entry.line, &token)) {
            wrong.push(format!("the entry lost {argument}"));
        }
    }
    if let Some(root) = &before.root {
        let line = CommandLine::parse(&format!("root={root}"));
        match root_device::compare(reader, &line, &entry.line) {
            SameRoot::Yes | SameRoot::Unknown => {}
            SameRoot::Lost => wrong.push(format!("the entry lost root={root}")),
            SameRoot::No => wrong.push(format!(
                "the entry has root={} and had root={root} before",
                root_device::root(&entry.line).unwrap_or_default()
            )),
        }
    }
    if before.initrd && !has_initrd(entry) {
        wrong.push("the entry no longer loads an initrd".into());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;
    use crate::profile::{LayerText, load, shipped};
    use bedplate_facts::Depth;
    use bedplate_host::snapshot::{Node, Snapshot};
    use bedplate_testhosts::HostSpec;

    const KERNEL: &str = "6.8.0-45-generic";
    const ROOT: &str = "root=UUID=6a4d3b2c-1f0e-4d5c-8b7a-990011223344";

    fn host(description: &str) -> Snapshot {
        HostSpec::from_toml(&format!("machine = 'plain'\nkernel = '{KERNEL}'\n{description}"))
            .unwrap()
            .build()
    }

    /// Returns the entry state that the plan for a profile stores.
    fn planned(host: &Snapshot, cmdline: &str) -> Option<EntryBefore> {
        let text = format!("schema = 1\nname = 'case'\n[cmdline]\n{cmdline}\n");
        let loaded = load(&[LayerText { path: "p.toml", text: &text }], shipped()).unwrap();
        let planned = engine::prepare_loaded(host, loaded).unwrap();
        let actions = planned.plan.body.changes.iter().flat_map(|change| &change.actions);
        let mut checks = actions.filter_map(|action| match action {
            Action::Verify(Check::NextBoot { before, .. }) => Some(before.clone()),
            _ => None,
        });
        checks.next().expect("the change reads the next boot back")
    }

    #[test]
    fn entry_keeps_arguments_the_profile_does_not_name() {
        for loader in ["debian", "rhel9", "rhel8", "suse", "systemd-boot", "rpm-ostree"] {
            let host = host(&format!(
                "loader = '{loader}'\ncmdline = 'crashkernel=1G site=a mitigations=off'"
            ));
            let before = planned(&host, "args = ['nosmt']\nabsent = ['mitigations']").unwrap();
            assert!(before.initrd, "{loader}");
            assert_eq!(before.root.as_deref(), ROOT.strip_prefix("root="), "{loader}");
            let has = |argument: &str| before.arguments.iter().any(|one| one == argument);
            assert!(has("crashkernel=1G") && has("site=a") && has("ro"), "{loader}: {before:?}");
            assert!(!has("mitigations=off") && !has(ROOT), "{loader}: {before:?}");
            assert!(!before.arguments.iter().any(|one| one.starts_with("ostree=")), "{before:?}");
        }
    }

    #[test]
    fn argument_removed_from_configuration_may_be_lost() {
        let mut host = host("cmdline = 'site=a'");
        let grub = "GRUB_CMDLINE_LINUX_DEFAULT=\"console=ttyS0\"\nGRUB_CMDLINE_LINUX=\"\"\n";
        host.insert("/etc/default/grub", Node::File(grub.into()));
        host.complete();
        let before = planned(&host, "args = ['nosmt']").unwrap();
        assert!(!before.arguments.contains(&"site=a".to_owned()), "{before:?}");
        assert!(before.arguments.contains(&"console=ttyS0".to_owned()), "{before:?}");
    }

    #[test]
    fn lost_root_initrd_or_argument_fails_the_check() {
        let before = EntryBefore {
            arguments: vec!["site=a".into(), "ro".into()],
            root: ROOT.strip_prefix("root=").map(str::to_owned),
            initrd: true,
        };
        let check = |linux: &str, initrd: &str| {
            let mut host = host("");
            let menu = format!("set default=0\nmenuentry 'a' {{\nlinux {linux}\n{initrd}\n}}\n");
            host.insert("/boot/grub/grub.cfg", Node::File(menu.into()));
            host.insert("/boot/vmlinuz-6.12.200", Node::Present);
            host.complete();
            let facts = engine::observe(&host, Depth::Plan);
            super::check(&host, &facts, Some(&before))
        };
        let (image, initrd) =
            (format!("/boot/vmlinuz-{KERNEL}"), format!("initrd /boot/initrd.img-{KERNEL}"));
        assert_eq!(check(&format!("{image} {ROOT} ro site=a iommu=pt"), &initrd), Ok(()));
        assert_eq!(check(&format!("{image} {ROOT} iommu=pt ro site=a"), &initrd), Ok(()), "order");
        let wrong = |linux: &str, initrd: &str| check(linux, initrd).unwrap_err();
        assert!(wrong(&format!("{image} {ROOT} ro"), &initrd).contains("lost site=a"));
        assert!(wrong(&format!("{image} ro site=a"), &initrd).contains("root=UUID=6a4d3b2c"));
        assert!(wrong(&format!("{image} root=UUID=b ro site=a"), &initrd).contains("root=UUID=b"));
        assert!(wrong(&format!("{image} {ROOT} ro site=a"), "").contains("no longer loads"));
        // Another kernel, whose initrd was never made.
        let other = wrong("/boot/vmlinuz-6.12.200 root=/dev/vda3 ro site=a", "");
        assert!(other.contains("no longer loads"), "{other}");
    }
}
