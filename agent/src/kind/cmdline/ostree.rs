//! rpm-ostree and bootc: the deployments own their kernel arguments, and only their own tool may change them.
//! In a bootc *image* the arguments are a file of the image: /usr/lib/bootc/kargs.d (handbook §10.4).

use super::bls::entry_files;
use super::files::{self, replace, verify};
use super::{Context, Observed, Obstacle, Steps};
use crate::boot::bls::{BlsEntry, grub_order};
use crate::cmdline::{CommandLine, Edit};
use crate::facts::{BootLoader, Facts};
use crate::host::{HostKind, Reader, Reading};
use crate::plan::{Action, WayBack};

const ENTRIES: &str = "/boot/loader/entries";
/// bedplate's own file of an image.
pub const KARGS_FILE: &str = "/usr/lib/bootc/kargs.d/50-bedplate.toml";
const RPM_OSTREE: &str = "/usr/bin/rpm-ostree";

/// `kargs.d` file, as bootc reads it; unknown keys are rejected by it.
#[derive(serde::Serialize, serde::Deserialize)]
struct Kargs {
    kargs: Vec<String>,
}

/// The deployment that boots next is both: there is no configuration apart from it, except in an image.
pub fn observe(reader: &dyn Reader, facts: &Facts) -> Observed {
    let next = deployment(reader);
    let configured = match (facts.host, &facts.boot) {
        (HostKind::Image, BootLoader::Bootc) => image_kargs(reader),
        _ => next.clone(),
    };
    Observed { configured, next, remarks: Vec::new() }
}

fn deployment(reader: &dyn Reader) -> Reading<CommandLine> {
    match first_entry(reader) {
        Reading::Known(entry) => files::readable(entry.id(), &entry.systemd_cmdline()),
        Reading::Absent => Reading::Absent,
        Reading::Unknown(why) => Reading::Unknown(why),
    }
}

/// The boot entry of the deployment that boots next.
pub fn first_entry(reader: &dyn Reader) -> Reading<BlsEntry> {
    let files = match entry_files(reader, ENTRIES) {
        Ok(files) => files,
        Err(error) => return Reading::from_result(Err(error)),
    };
    let entries: Vec<_> = files.into_iter().map(|file| file.entry).collect();
    match grub_order(&entries).first() {
        Some(entry) => Reading::Known((*entry).clone()),
        None => Reading::unknown(format!("{ENTRIES} holds no deployment")),
    }
}

/// All `kargs` of the image, in file order.
fn image_kargs(reader: &dyn Reader) -> Reading<CommandLine> {
    let directory = "/usr/lib/bootc/kargs.d";
    let names = match reader.list(directory) {
        Ok(names) => names,
        Err(error) if error.is_absent() => Vec::new(),
        Err(error) => return Reading::from_result(Err(error)),
    };
    let mut words = Vec::new();
    for name in names.iter().filter(|name| name.ends_with(".toml")) {
        let path = format!("{directory}/{name}");
        let text = match reader.text(&path) {
            Ok(text) => text,
            Err(error) => return Reading::unknown(error),
        };
        match toml::from_str::<toml::Table>(&text) {
            Ok(table) => words.extend(strings(table.get("kargs"))),
            Err(error) => return Reading::unknown(format!("{path}: {}", error.message())),
        }
    }
    Reading::Known(CommandLine::parse(&words.join(" ")))
}

fn strings(value: Option<&toml::Value>) -> Vec<String> {
    let items = value.and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect()
}

/// What makes the next deployment satisfy the edit.
pub fn steps(context: &Context, edit: &Edit) -> Result<Steps, Obstacle> {
    if context.facts.host == HostKind::Image && context.facts.boot == BootLoader::Bootc {
        return image(context, edit);
    }
    if context.reader.exists(RPM_OSTREE) != Ok(true) {
        return Err(Obstacle {
            reason: "this host has no rpm-ostree, and bootc itself changes kernel arguments only with a new image".into(),
            remedy: "put the arguments into the image: a file in /usr/lib/bootc/kargs.d, made by `bedplate apply --root` in the image build".into(),
        });
    }
    let line = match deployment(context.reader) {
        Reading::Known(line) => line,
        Reading::Absent => return Err(files::nothing_to_edit(ENTRIES)),
        Reading::Unknown(why) => {
            return Err(Obstacle {
                reason: why.into(),
                remedy: "look at `rpm-ostree kargs`".into(),
            });
        }
    };
    let target =
        edit.apply(&line).map_err(|error| files::cannot("the deployment's arguments", &error))?;
    let diff = edit.difference(&line, &target);
    let mut argv = vec!["rpm-ostree".to_owned(), "kargs".into()];
    argv.extend(diff.removed.iter().map(|token| format!("--delete={token}")));
    argv.extend(diff.added.iter().map(|token| format!("--append={token}")));
    // Options that allow for less than was planned: a run that was cut short left some of it undone.
    let mut back = vec!["rpm-ostree".to_owned(), "kargs".into()];
    back.extend(diff.added.iter().map(|token| format!("--delete-if-present={token}")));
    back.extend(diff.removed.iter().map(|token| format!("--append-if-missing={token}")));
    let tool = Action::RunTool {
        argv,
        purpose: "make a deployment with these kernel arguments".into(),
        touches: Vec::new(),
        way_back: WayBack::Run { argv: back },
        // A deployment copies /etc and may pull SELinux labels: minutes on slow disks.
        limit_s: 600,
    };
    Ok(Steps {
        subject: "rpm-ostree deployment".into(),
        actions: vec![tool, verify(context)],
        disrupts: vec!["a new deployment is staged; the running one stays for rollback".into()],
    })
}

fn image(context: &Context, edit: &Edit) -> Result<Steps, Obstacle> {
    let rendered = edit.rendered().map_err(|error| files::cannot(KARGS_FILE, &error))?;
    let kargs = Kargs { kargs: rendered.tokens().map(|token| token.as_str().to_owned()).collect() };
    let text = toml::to_string(&kargs).map_err(|error| files::cannot(KARGS_FILE, &error))?;
    let before = match context.reader.text(KARGS_FILE) {
        Ok(text) => Some(text),
        Err(error) if error.is_absent() => None,
        Err(error) => return Err(files::unreadable(&error)),
    };
    let actions: Vec<Action> =
        replace(KARGS_FILE, before.as_deref(), Some(&text)).into_iter().collect();
    if actions.is_empty() {
        return Err(Obstacle {
            reason: "another file in /usr/lib/bootc/kargs.d says otherwise".into(),
            remedy:
                "take the argument out of that file: bootc cannot remove what another file of the image adds"
                    .into(),
        });
    }
    Ok(Steps { subject: KARGS_FILE.into(), actions, disrupts: Vec::new() })
}
