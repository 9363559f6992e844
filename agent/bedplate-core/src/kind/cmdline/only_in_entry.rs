//! Arguments that the default boot entry has and its configuration lacks. A tool that regenerates the entry from the
//! configuration drops them, and the host may need them to find its root file system.

use std::collections::BTreeSet;

use super::boot_files::KERNEL_CMDLINE;
use super::{Context, NAME, ObservedLines, Obstacle, grub};
use crate::plan::Note;
use bedplate_base::Reading;
use bedplate_cmdline::{CommandLine, Edit, KernelDefaults, Status, Token};
use bedplate_facts::BootLoader;

/// Arguments that naturally differ between an entry and its configuration: the image, the ostree deployment, and the
/// argument that kernel-install adds to entries named after the machine (systemd, 90-loaderentry.install).
pub(crate) const OF_THE_ENTRY: [&str; 4] = ["boot_image", "initrd", "ostree", "systemd.machine_id"];
/// Arguments that grub-mkconfig adds to the configured ones (util/grub.d/10_linux.in; Debian's adds `init` to entries
/// for another init, Ubuntu's `panic` and `vt.handoff`). The check after the change covers those of the root.
const BY_MKCONFIG: [&str; 8] =
    ["root", "ro", "rw", "rootflags", "rootfstype", "init", "panic", "vt.handoff"];
/// Arguments without which an initrd may not find the root file system (dracut.cmdline(7), initramfs-tools(7),
/// systemd-cryptsetup-generator(8)).
const NEEDED: [&str; 15] = [
    "bond",
    "bootdev",
    "bootif",
    "bridge",
    "cryptdevice",
    "cryptkey",
    "cryptopts",
    "ifname",
    "ip",
    "netroot",
    "nfsroot",
    "overlayroot",
    "rootdelay",
    "rootwait",
    "vlan",
];
/// Prefixes of further argument names with the same role.
const NEEDED_BEGINNINGS: [&str; 5] = ["iscsi_", "luks.", "nvmf.", "rd.", "rd_"];

/// Whether the host may fail to boot without the argument.
pub(crate) fn is_needed(token: &Token) -> bool {
    let name = token.folded_name();
    NEEDED.contains(&name.as_str())
        || NEEDED_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Whether a line has the argument, as the kernel reads it.
pub(crate) fn has(line: &CommandLine, token: &Token) -> bool {
    line.tokens().any(|other| other.same_for_kernel(token))
}

/// Returns the arguments of the entry that `made`, the line from the configuration, would lack, except those that the
/// edit removes.
pub(super) fn lost_arguments(entry: &CommandLine, made: &CommandLine, edit: &Edit) -> Vec<Token> {
    let Ok(target) = edit.apply(entry) else { return Vec::new() };
    let findings = edit.satisfied_by(entry, &KernelDefaults::default());
    let instead: BTreeSet<String> = findings
        .into_iter()
        .filter_map(|finding| match finding.status {
            Status::Equivalent { by } => Some(by),
            _ => None,
        })
        .collect();
    let of_one = |token: &Token| {
        let stays = match has(&target, token) {
            true => Some(token.clone()),
            false => edit.staying(token, &target),
        }?;
        if has(made, &stays) { None } else { edit.missing(&stays, made) }
    };
    entry
        .tokens()
        .filter(|token| !OF_THE_ENTRY.contains(&token.folded_name().as_str()))
        .filter(|token| !instead.contains(token.as_str()))
        .filter_map(of_one)
        .collect()
}

/// Returns the arguments as one line.
pub(crate) fn named<'t>(tokens: impl IntoIterator<Item = &'t Token>) -> String {
    tokens.into_iter().map(Token::as_str).collect::<Vec<_>>().join(" ")
}

/// Refuses to make entries from a line that lacks arguments of the default entry. `set_by_tool` names arguments that
/// the tool sets itself, which are checked after the change. `remake` is the command that regenerates an entry.
///
/// # Errors
/// With the arguments that would be lost.
pub(super) fn check(
    next: &Reading<CommandLine>,
    made: &CommandLine,
    edit: &Edit,
    set_by_tool: &[&str],
    remake: &str,
) -> Result<(), Obstacle> {
    let Some(entry) = next.known() else { return Ok(()) };
    let mut lost = lost_arguments(entry, made, edit);
    lost.retain(|token| !set_by_tool.contains(&token.folded_name().as_str()));
    if lost.is_empty() {
        return Ok(());
    }
    let lost = named(&lost);
    Err(Obstacle {
        reason: format!(
            "the default boot entry has `{lost}`, which {KERNEL_CMDLINE} lacks; regenerating the entry would drop this"
        ),
        fix: format!(
            "add these arguments to {KERNEL_CMDLINE}, then plan again; to drop them, regenerate the entry without them \
             first: `{remake}`"
        ),
    })
}

/// Returns the arguments of a generated menu's default entry that are neither from the configuration nor from
/// grub-mkconfig.
fn lost_by_mkconfig(context: &Context, observed: &ObservedLines, edit: &Edit) -> Vec<Token> {
    let is_generated = matches!(
        context.facts.boot,
        BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse
    );
    let (Reading::Known(configured), Reading::Known(entry)) =
        (&observed.configured, &observed.next)
    else {
        return Vec::new();
    };
    // With a note only a part of the configuration is known.
    if !is_generated || !observed.remarks.is_empty() {
        return Vec::new();
    }
    let variables = grub::variables(context.reader, context.facts);
    let value =
        |token: &Token| token.as_str().strip_prefix('$').and_then(|name| variables.get(name));
    let words = configured.tokens().map(|token| match value(token) {
        Some(value) => value.clone(),
        None => token.to_string(),
    });
    let Ok(made) = edit.apply(&CommandLine::parse(&words.collect::<Vec<_>>().join(" "))) else {
        return Vec::new();
    };
    let mut lost = lost_arguments(entry, &made, edit);
    lost.retain(|token| !BY_MKCONFIG.contains(&token.folded_name().as_str()));
    lost
}

/// Refuses to regenerate a menu whose default entry would lose an argument that the host may need.
///
/// # Errors
/// With the arguments that would be lost.
pub(crate) fn check_menu(
    context: &Context,
    observed: &ObservedLines,
    edit: &Edit,
) -> Result<(), Obstacle> {
    let mut lost = lost_by_mkconfig(context, observed, edit);
    lost.retain(is_needed);
    if lost.is_empty() {
        return Ok(());
    }
    let lost = named(&lost);
    Err(Obstacle {
        reason: format!(
            "the default boot entry has `{lost}`, which /etc/default/grub and its drop-ins lack; regenerating the menu \
             would drop this"
        ),
        fix: format!(
            "add these arguments to GRUB_CMDLINE_LINUX in /etc/default/grub, then plan again; to drop them, regenerate the \
             menu without them first: {}",
            match context.facts.boot {
                BootLoader::GrubDebian => "`update-grub`",
                _ => "`grub2-mkconfig`",
            }
        ),
    })
}

/// Returns a note on the other arguments that the default entry loses when the menu is regenerated.
pub(crate) fn note(context: &Context, observed: &ObservedLines, edit: &Edit) -> Option<Note> {
    let lost = lost_by_mkconfig(context, observed, edit);
    (!lost.is_empty()).then(|| NAME.note(
        "boot entry",
        format!(
            "only the default boot entry has `{}`, not the configuration; regenerating the menu drops this",
            named(&lost)
        ),
    ))
}

#[cfg(test)]
mod tests;
