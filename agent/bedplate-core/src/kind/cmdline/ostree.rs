//! rpm-ostree and bootc: the deployments own their kernel arguments, and only their own tool may change them. In a
//! bootc *image* the arguments are in a file of the image, in /usr/lib/bootc/kargs.d (handbook §10.4).
//!
//! Both tools copy each argument verbatim, with its quotes, into the deployment's boot entry. GRUB reads the entry as a
//! script, so its separators must be in quotes, which GRUB removes (bootc-dev/bootc issue 1737 shows both; handbook
//! §10.1). Only systemd-boot passes the text on unchanged.

use super::bls::entry_files;
use super::boot_files::{self, replace, verify};
use super::{Context, ObservedLines, Obstacle, Steps, grub};
use crate::plan::{Action, ToolUndo};
use bedplate_base::{Arch, OptionalRead as _, Reading, Reason};
use bedplate_cmdline::boot::bls::{BlsEntry, Reader as BlsReader, grub_menu};
use bedplate_cmdline::boot::grub_quote::{self, GrubQuoteError, grub_token};
use bedplate_cmdline::{CommandLine, Edit, KernelDefaults, Token};
use bedplate_facts::boot::{started_by_grub, started_by_systemd_boot};
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::{HostKind, Reader};

const ENTRIES: &str = "/boot/loader/entries";
/// bedplate's own file in an image.
pub const KARGS_FILE: &str = "/usr/lib/bootc/kargs.d/50-bedplate.toml";
const RPM_OSTREE: &str = "/usr/bin/rpm-ostree";

/// `kargs.d` file, as bootc reads it (bootc, building/kernel-arguments.md).
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Kargs {
    kargs: Vec<String>,
    /// Architectures, in Rust's spelling, to which the file applies. `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    match_architectures: Option<Vec<String>>,
}

impl Kargs {
    /// Whether bootc applies the file on this architecture. `None`: unknown.
    fn count_on(&self, arch: &Reading<Arch>) -> Option<bool> {
        let Some(wanted) = &self.match_architectures else { return Some(true) };
        let own = match arch.known()? {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
            Arch::Other => return None,
        };
        Some(wanted.iter().any(|name| name == own))
    }
}

/// Reads both states from the deployment that boots next. Only an image has a separate configuration.
pub(super) fn observe(reader: &dyn Reader, facts: &Facts) -> ObservedLines {
    let deployment = deployment(reader);
    let configured = match (facts.host, &facts.boot) {
        (HostKind::Image, BootLoader::Bootc) => image_kargs(reader, facts),
        _ => deployment.clone(),
    };
    let next = menu(reader).map_or_else(Reading::Unknown, |()| deployment);
    ObservedLines { configured, next, remarks: Vec::new() }
}

/// Checks that the menu of a host that GRUB starts leads to the deployments. The menu is a fixed script (bootupd) or
/// was generated once, and `rpm-ostree kargs` does not change it (handbook §10.4).
///
/// # Errors
/// With the reason why GRUB may not reach the entries.
fn menu(reader: &dyn Reader) -> Result<(), Reason> {
    let has_grub = || !started_by_systemd_boot(reader) && reader.exists("/boot/grub2") == Ok(true);
    if reader.kind() == HostKind::Image || !(started_by_grub(reader) || has_grub()) {
        return Ok(());
    }
    let elsewhere =
        || boot_files::raw(reader, "/boot/grub/grub.cfg").is_ok_and(|text| grub::leads_on(&text));
    let paths = grub::configurations(reader).map_err(|obstacle| Reason::from(obstacle.reason))?;
    paths.iter().try_for_each(|path| match boot_files::raw(reader, path) {
        Ok(text) if grub::leads_on(&text) => Ok(()),
        Ok(text) if boot_files::is_blank(&text) => Err(format!("{path} is empty").into()),
        Ok(_) => Err(format!("{path} has no entry, and no `blscfg` that reads {ENTRIES}").into()),
        Err(error) if error.is_absent() && elsewhere() => Ok(()),
        Err(error) if error.is_absent() => Err(format!("{path} does not exist").into()),
        Err(error) => Err(error.into()),
    })
}

fn deployment(reader: &dyn Reader) -> Reading<CommandLine> {
    let loader = match started_by_systemd_boot(reader) {
        true => BlsReader::SystemdBoot,
        false => BlsReader::Grub,
    };
    first_entry(reader).and_then(|entry| boot_files::line_of_entry(&entry, loader))
}

/// Quoting of arguments in the boot entry of the deployment.
struct Spelling {
    /// Whether GRUB reads the entry, as a script.
    grub: bool,
    /// Words of the entry: as the kernel gets them, and as written.
    words: Vec<(String, String)>,
}

impl Spelling {
    fn of_deployment(reader: &dyn Reader) -> Spelling {
        let grub = !started_by_systemd_boot(reader);
        let options = match first_entry(reader) {
            Reading::Known(entry) if grub => entry.systemd_cmdline(),
            _ => String::new(),
        };
        let words = grub_quote::split(&options).unwrap_or_default();
        Spelling { grub, words: words.into_iter().map(|word| (word.kernel, word.raw)).collect() }
    }

    fn added(&self, token: &Token) -> Result<String, GrubQuoteError> {
        if self.grub { grub_token(token) } else { Ok(token.to_string()) }
    }

    /// Returns the argument as written in the entry: the tool finds only that text.
    fn removed(&self, token: &Token) -> String {
        let written = self.words.iter().find(|(kernel, _)| kernel == token.as_str());
        written.map_or_else(|| token.to_string(), |(_, raw)| raw.clone())
    }
}

/// Returns the boot entry of the deployment that boots next.
pub(crate) fn first_entry(reader: &dyn Reader) -> Reading<BlsEntry> {
    Reading::from_result(entry_files(reader, ENTRIES)).and_then(|files| {
        let entries: Vec<_> = files.into_iter().map(|file| file.entry).collect();
        match grub_menu(&entries).first() {
            Some(entry) => match entry.expect_kernel() {
                Ok(_) => Reading::Known((*entry).clone()),
                Err(why) => Reading::unknown(why),
            },
            None => Reading::unknown(format!("{ENTRIES} has no deployment")),
        }
    })
}

const KARGS_DIRECTORY: &str = "/usr/lib/bootc/kargs.d";

/// Returns the line of all `kargs` of the image, in file order.
fn image_kargs(reader: &dyn Reader, facts: &Facts) -> Reading<CommandLine> {
    match kargs_files(reader, facts) {
        Ok(files) => Reading::Known(kargs_line(files.into_iter().flat_map(|(_, words)| words))),
        Err(why) => Reading::Unknown(why),
    }
}

fn kargs_line(words: impl Iterator<Item = String>) -> CommandLine {
    let line = words.collect::<Vec<_>>().join(" ");
    // An image for systemd-boot may have a line that GRUB could not parse. It is used verbatim.
    let line = grub_quote::kernel_line(&line).unwrap_or(line);
    CommandLine::parse(&line)
}

/// Returns the files that apply to this architecture, with their arguments as written.
fn kargs_files(reader: &dyn Reader, facts: &Facts) -> Result<Vec<(String, Vec<String>)>, Reason> {
    let names = reader.list(KARGS_DIRECTORY).optional()?.unwrap_or_default();
    let mut files = Vec::new();
    for name in names.iter().filter(|name| name.ends_with(".toml")) {
        let path = format!("{KARGS_DIRECTORY}/{name}");
        let text = reader.text(&path)?;
        let file = toml::from_str::<Kargs>(&text)
            .map_err(|error| Reason::from(format!("{path}: {}", error.message())))?;
        match file.count_on(&facts.arch) {
            Some(true) => files.push((path, file.kargs)),
            Some(false) => {}
            None => {
                let why = "lists architectures, and the architecture of this image is unknown";
                return Err(format!("{path} {why}").into());
            }
        }
    }
    Ok(files)
}

/// Plans the actions that make the next deployment satisfy the edit.
pub(crate) fn steps(context: &Context, edit: &Edit) -> Result<Steps, Obstacle> {
    if context.facts.host == HostKind::Image && context.facts.boot == BootLoader::Bootc {
        return image(context, edit);
    }
    if context.facts.host == HostKind::Image {
        return Err(unbooted(edit));
    }
    if context.reader.exists(RPM_OSTREE) != Ok(true) {
        return Err(Obstacle {
            reason: "no rpm-ostree on this host, and bootc changes kernel arguments only with a new image".into(),
            fix: "run `bedplate apply --root` in the image build: it adds the arguments as a file in \
                     /usr/lib/bootc/kargs.d"
                .into(),
        });
    }
    menu(context.reader).map_err(|why| Obstacle {
        reason: format!("the next boot's command line is unknown: {why}"),
        fix: "restore GRUB's configuration (if bootupd made it, from the parts in /usr/lib/bootupd/grub2-static, else \
                 with `grub2-mkconfig -o /boot/grub2/grub.cfg`), then plan again"
            .into(),
    })?;
    let line = match deployment(context.reader) {
        Reading::Known(line) => line,
        Reading::Absent => return Err(boot_files::nothing_to_edit(ENTRIES)),
        Reading::Unknown(why) => {
            return Err(Obstacle { reason: why.into(), fix: "check `rpm-ostree kargs`".into() });
        }
    };
    let target = edit
        .apply(&line)
        .map_err(|error| boot_files::cannot("the deployment's arguments", &error))?;
    let diff = edit.difference(&line, &target);
    let mut argv = vec!["rpm-ostree".to_owned(), "kargs".into()];
    let spelling = Spelling::of_deployment(context.reader);
    let unwritable = |error| boot_files::cannot("the deployment's arguments", &error);
    let added: Result<Vec<String>, _> =
        diff.added.iter().map(|token| spelling.added(token)).collect();
    let added = added.map_err(unwritable)?;
    let removed: Vec<String> = diff.removed.iter().map(|token| spelling.removed(token)).collect();
    argv.extend(removed.iter().map(|text| format!("--delete={text}")));
    argv.extend(added.iter().map(|text| format!("--append={text}")));
    // Options that tolerate a partial change: an interrupted run may have left some of it undone.
    let mut back = vec!["rpm-ostree".to_owned(), "kargs".into()];
    back.extend(added.iter().map(|text| format!("--delete-if-present={text}")));
    back.extend(removed.iter().map(|text| format!("--append-if-missing={text}")));
    let tool = Action::RunTool {
        argv,
        purpose: "make a deployment with these kernel arguments".into(),
        touches: Vec::new(),
        undo: ToolUndo::Run { argv: back },
        // A deployment copies /etc and may pull SELinux labels: minutes on slow disks.
        limit_s: 600,
    };
    Ok(Steps {
        subject: "rpm-ostree deployment".into(),
        actions: vec![tool, verify(context)],
        disrupts: vec!["a new deployment is staged; the running one stays for rollback".into()],
    })
}

/// Returns the obstacle for an image of rpm-ostree: only a booted system has a deployment whose arguments can change.
fn unbooted(edit: &Edit) -> Obstacle {
    let wanted = edit.rendered().unwrap_or_default();
    let options: Vec<String> =
        wanted.tokens().map(|token| format!("--append-if-missing {}", token.as_str())).collect();
    Obstacle {
        reason:
            "rpm-ostree image without bootc: only the booted system can change its kernel arguments"
                .into(),
        fix: format!(
            "on the booted system, run `bedplate apply` or `rpm-ostree kargs {}`",
            options.join(" ")
        ),
    }
}

fn image(context: &Context, edit: &Edit) -> Result<Steps, Obstacle> {
    let rendered = edit.rendered().map_err(|error| boot_files::cannot(KARGS_FILE, &error))?;
    let words: Result<Vec<String>, _> = rendered.tokens().map(grub_token).collect();
    let kargs = words.map_err(|error| boot_files::cannot(KARGS_FILE, &error))?;
    let kargs = Kargs { kargs, match_architectures: None };
    let text = toml::to_string(&kargs).map_err(|error| boot_files::cannot(KARGS_FILE, &error))?;
    let before = context.reader.text(KARGS_FILE).optional()?;
    expect_no_unwanted_kargs(context, edit, &kargs.kargs)?;
    let actions: Vec<Action> =
        replace(KARGS_FILE, before.as_deref(), Some(&text)).into_iter().collect();
    Ok(Steps { subject: KARGS_FILE.into(), actions, disrupts: Vec::new() })
}

/// Refuses if another file of the image has an unwanted or conflicting argument: bootc adds the arguments of all files
/// and can remove no argument.
fn expect_no_unwanted_kargs(
    context: &Context,
    edit: &Edit,
    own: &[String],
) -> Result<(), Obstacle> {
    let unreadable = |reason: Reason| Obstacle {
        reason: reason.to_string(),
        fix: format!("correct the files of {KARGS_DIRECTORY}, then plan again"),
    };
    let mut files = kargs_files(context.reader, context.facts).map_err(unreadable)?;
    files.retain(|(path, _)| path != KARGS_FILE);
    files.push((KARGS_FILE.to_owned(), own.to_vec()));
    files.sort();
    let line = kargs_line(files.iter().flat_map(|(_, words)| words).cloned());
    let findings = edit.satisfied_by(&line, &KernelDefaults::default());
    let Some(wrong) = findings.iter().find(|finding| !finding.status.is_satisfied()) else {
        return Ok(());
    };
    let found = wrong.status.found().map_or_else(|| wrong.entries.join(" "), str::to_owned);
    let holds = |words: &[String]| {
        let line = kargs_line(words.iter().cloned());
        line.tokens().any(|token| found.split(' ').any(|one| one == token.as_str()))
    };
    let holder = files.iter().find(|(path, words)| path != KARGS_FILE && holds(words));
    let path = holder.map_or(KARGS_DIRECTORY, |(path, _)| path);
    Err(Obstacle {
        reason: format!("{path} adds {found} to the kernel arguments of the image"),
        fix: format!(
            "remove {found} from {path}; bootc cannot remove arguments that another file of the image adds"
        ),
    })
}
