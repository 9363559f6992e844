//! Length of the whole line that the kernel gets. The boot loader and the distribution add text around the configured
//! arguments, and the kernel silently drops everything beyond its limit (handbook §1.1).

use std::collections::BTreeMap;

use super::{Context, ObservedLines, Obstacle, bls, grub, kernel_install, ostree, sdbootutil};
use bedplate_base::Reading;
use bedplate_cmdline::boot::bls::BlsEntry;
use bedplate_cmdline::{
    ApplyError, CommandLine, Edit, KernelDefaults, LineError, MAX_LINE_BYTES, is_blank,
};
use bedplate_facts::BootLoader;
use bedplate_facts::boot::started_by_systemd_boot;
use bedplate_facts::kernel_defaults::kernel_defaults;

/// Assumed device of kernels that entry files name without a device, if `/proc/cmdline` does not show it.
const USUAL_DEVICE: &str = "(hd0,msdos1)";
/// Arguments that grub-mkconfig itself puts before the configured ones (`10_linux`).
const OF_ROOT: [&str; 5] = ["root", "ro", "rw", "rootflags", "rootfstype"];
/// Placeholder of the usual length for [`OF_ROOT`], where no entry shows these arguments yet.
pub(super) const USUAL_ROOT: &str = "root=UUID=00000000-0000-0000-0000-000000000000 ro";

/// Refuses an edit after which the kernel would drop part of the line.
pub(super) fn check_changed(
    context: &Context,
    edit: &Edit,
    observed: &ObservedLines,
) -> Result<(), Obstacle> {
    // For an image that stores arguments separately, no other code applies the edit to the whole line.
    let all = [&observed.configured, &observed.next].into_iter().filter_map(Reading::known);
    let too_long = |line: &CommandLine| match edit.apply(line) {
        Err(ApplyError::Line(LineError::TooLong { bytes })) => Some(bytes),
        _ => None,
    };
    check(all.filter_map(too_long), "would have")?;
    let front = prepended_text(context);
    let target = |line: &CommandLine| edit.apply(line).ok();
    let lines = lines(context, observed, &target);
    check(lines.iter().map(|line| joined(&front, line).len()), "would have")
}

/// Refuses a converged line if the kernel drops an argument of the edit from it.
pub(super) fn check_unchanged(
    context: &Context,
    edit: &Edit,
    observed: &ObservedLines,
) -> Result<(), Obstacle> {
    let front = prepended_text(context);
    let bytes = |line: &CommandLine| joined(&front, &line.to_string()).len();
    let all: Vec<CommandLine> = match observed.next.known() {
        Some(next) => next.possible_lines().cloned().collect(),
        // An image without a menu gets its line from the configuration.
        None => {
            let texts = lines(context, observed, &|line| Some(line.clone()));
            texts.iter().map(|text| CommandLine::parse(text)).collect()
        }
    };
    let cut = all.iter().filter(|line| loses_arguments(context, edit, line, &front));
    check(cut.map(bytes), "has")
}

fn check(bytes: impl Iterator<Item = usize>, has: &str) -> Result<(), Obstacle> {
    match bytes.max() {
        Some(bytes) if bytes > MAX_LINE_BYTES => Err(Obstacle {
            reason: format!(
                "the next boot's command line {has} {bytes} bytes, including text from the boot loader; the kernel drops \
                 everything beyond {MAX_LINE_BYTES}"
            ),
            fix: format!(
                "shorten it by {} bytes, or move module options to modprobe.d",
                bytes - MAX_LINE_BYTES
            ),
        }),
        _ => Ok(()),
    }
}

/// Returns every line that kernels may get after the edit, without the text that is prepended.
fn lines(
    context: &Context,
    observed: &ObservedLines,
    target: &dyn Fn(&CommandLine) -> Option<CommandLine>,
) -> Vec<String> {
    let of_entry = || observed.next.known().and_then(target);
    let made_from_configuration = !matches!(
        context.facts.boot,
        BootLoader::GrubBls | BootLoader::RpmOstree | BootLoader::Bootc
    );
    let configured = observed.configured.known();
    let lines: Vec<CommandLine> = match (configured, made_from_configuration) {
        (Some(configured), true) => {
            let variables = match is_grub(&context.facts.boot) {
                true => grub::variables(context.reader, context.facts),
                false => BTreeMap::new(),
            };
            let Some(target) = target(configured) else { return Vec::new() };
            let (target, configured) =
                (filled(&target, &variables), filled(configured, &variables));
            return texts_around(context, observed, &configured)
                .iter()
                .map(|(before, after)| joined(&joined(before, &target.to_string()), after))
                .collect();
        }
        (None, true) => of_entry().into_iter().collect(),
        (configured, false) => of_entry().into_iter().chain(configured.and_then(target)).collect(),
    };
    lines.iter().flat_map(CommandLine::possible_lines).map(|line| line.to_string()).collect()
}

/// Replaces arguments that name a GRUB variable (`$tuned_params`) with its value.
fn filled(line: &CommandLine, variables: &BTreeMap<String, String>) -> CommandLine {
    let value = |token: &str| variables.get(token.strip_prefix('$')?).cloned();
    let texts = line.tokens().map(|token| value(token.as_str()).unwrap_or(token.to_string()));
    CommandLine::parse(&texts.collect::<Vec<_>>().join(" "))
}

/// Returns the text before and after the configured arguments in the default entry, once for each possible line.
fn texts_around(
    context: &Context,
    observed: &ObservedLines,
    configured: &CommandLine,
) -> Vec<(String, String)> {
    match observed.next.known() {
        Some(next) => next.possible_lines().map(|line| text_around(line, configured)).collect(),
        None if is_grub(&context.facts.boot) => vec![(USUAL_ROOT.to_owned(), String::new())],
        None => vec![(String::new(), String::new())],
    }
}

/// Returns the text before and after the configured arguments. In an entry that was made from other arguments, only
/// `root=` and related ones are known to return.
fn text_around(entry: &CommandLine, configured: &CommandLine) -> (String, String) {
    let texts = |line: &CommandLine| -> Vec<String> {
        line.tokens().map(|token| token.as_str().to_owned()).collect()
    };
    let (entry_words, own) = (texts(entry), texts(configured));
    let found = entry_words.windows(own.len().max(1)).position(|words| words == own);
    match found {
        Some(at) => (entry_words[..at].join(" "), entry_words[at + own.len()..].join(" ")),
        None => {
            let of_root = entry
                .tokens()
                .take_while(|token| OF_ROOT.contains(&token.folded_name().as_str()))
                .map(|token| token.as_str());
            (of_root.collect::<Vec<_>>().join(" "), String::new())
        }
    }
}

/// Whether the kernel drops an argument of the edit that the whole line has.
fn loses_arguments(context: &Context, edit: &Edit, line: &CommandLine, front: &str) -> bool {
    let defaults = kernel_defaults(context.reader, context.facts);
    let is_satisfied = |line: &CommandLine| {
        edit.satisfied_for_all(line, &defaults).iter().all(|finding| finding.status.is_satisfied())
    };
    // GRUB drops the first argument that does not fit and all after it (`grub-core/lib/cmdline.c`).
    let mut used = front.len();
    let kept = line.tokens().take_while(|token| {
        used += usize::from(used > 0) + token.as_str().len();
        used <= MAX_LINE_BYTES
    });
    let kept = CommandLine::from_tokens(kept.cloned());
    kept.len() < line.len() && is_satisfied(line) && !is_satisfied(&kept)
}

/// Returns the text that the kernel's build and the boot loader prepend to the default entry's line.
fn prepended_text(context: &Context) -> String {
    let built_in = kernel_defaults(context.reader, context.facts)
        .into_iter()
        .filter(|defaults| !defaults.overrides)
        .filter_map(|KernelDefaults { built_in, .. }| built_in)
        .max_by_key(String::len)
        .unwrap_or_default();
    joined(&built_in, &by_loader(context).unwrap_or_default())
}

/// Returns the loader's part: `BOOT_IMAGE=` of GRUB (`grub-core/loader/i386/linux.c`), or `initrd=` of systemd-boot
/// (`src/boot/boot.c`).
fn by_loader(context: &Context) -> Option<String> {
    let reader = context.reader;
    let newest = || {
        let release = context.facts.os.installed_kernels.last()?;
        Some(format!("BOOT_IMAGE=/boot/vmlinuz-{release}"))
    };
    let on_device = |image: &str| {
        let path = image.trim_start_matches("($root)");
        let bare = path.starts_with('/');
        format!("BOOT_IMAGE={}{path}", if bare { device(context) } else { String::new() })
    };
    match &context.facts.boot {
        boot if is_grub(boot) => match grub::image(reader, context.facts) {
            Reading::Known(image) if image.starts_with('$') || image.starts_with("($root)") => {
                Some(on_device(&image))
            }
            Reading::Known(image) => Some(format!("BOOT_IMAGE={image}")),
            Reading::Absent | Reading::Unknown(_) => newest(),
        },
        BootLoader::GrubBls => match bls::image(reader) {
            Reading::Known(image) => Some(on_device(&image)),
            Reading::Absent | Reading::Unknown(_) => newest(),
        },
        BootLoader::RpmOstree | BootLoader::Bootc => {
            let entry = ostree::first_entry(reader).known()?.clone();
            match started_by_systemd_boot(reader) {
                true => Some(initrds(&entry)),
                false => entry.linux().map(on_device),
            }
        }
        BootLoader::Sdbootutil { grub: true } => {
            let entry = sdbootutil::placed_entry(context.reader, context.facts);
            entry.known().and_then(|(_, entry)| entry.linux().map(on_device))
        }
        BootLoader::Sdbootutil { grub: false } => {
            sdbootutil::placed_entry(context.reader, context.facts)
                .known()
                .map(|(_, entry)| initrds(entry))
        }
        BootLoader::SystemdBoot { uki: false } => {
            kernel_install::default_entry(reader).known().map(initrds)
        }
        _ => None,
    }
}

fn is_grub(boot: &BootLoader) -> bool {
    matches!(boot, BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse)
}

/// Returns the device that GRUB puts before the image's path, by the running line.
fn device(context: &Context) -> String {
    let running = context.reader.text("/proc/cmdline").unwrap_or_default();
    let running = running.strip_prefix("BOOT_IMAGE=(").and_then(|rest| rest.split_once(')'));
    running.map_or_else(|| USUAL_DEVICE.to_owned(), |(device, _)| format!("({device})"))
}

fn initrds(entry: &BlsEntry) -> String {
    let each =
        entry.initrds(&|_| Some(String::new())).into_iter().map(|path| format!("initrd={path}"));
    each.collect::<Vec<_>>().join(" ")
}

/// Joins two texts with one blank if both are non-empty.
fn joined(one: &str, other: &str) -> String {
    let (one, other) = (one.trim_matches(is_blank), other.trim_matches(is_blank));
    let gap = if one.is_empty() || other.is_empty() { "" } else { " " };
    format!("{one}{gap}{other}")
}
