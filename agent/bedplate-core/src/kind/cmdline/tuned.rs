//! Arguments that TuneD adds to the boot entry by `$tuned_params`, which grub.cfg or grubenv sets to those of its
//! active profile (TuneD, `plugin_bootloader.py`; handbook §10.4).

use super::{Context, Obstacle, bls, grub};
use bedplate_cmdline::{CommandLine, Edit, Finding, KernelDefaults, Status};
use bedplate_facts::BootLoader;

const VARIABLE: &str = "tuned_params";
const ACTIVE: &str = "/etc/tuned/active_profile";

/// Arguments that TuneD adds, and its profile.
pub(crate) struct Tuned {
    profile: Option<String>,
    line: CommandLine,
}

/// Reads the arguments that TuneD adds to the default boot entry. `None` if it adds no arguments.
pub(super) fn read(context: &Context) -> Option<Tuned> {
    let value = match context.facts.boot {
        BootLoader::GrubDebian | BootLoader::GrubRhel | BootLoader::GrubSuse => {
            grub::variables(context.reader, context.facts).remove(VARIABLE)?
        }
        BootLoader::GrubBls => bls::variable(context.reader, VARIABLE)?,
        _ => return None,
    };
    let line = CommandLine::parse(&value);
    let profile = context.reader.text(ACTIVE).ok().map(|text| text.trim().to_owned());
    let profile = profile.filter(|name| !name.is_empty());
    (!line.is_empty()).then_some(Tuned { profile, line })
}

impl Tuned {
    /// Returns the status of every argument of the edit on TuneD's line alone, in the edit's order.
    pub(super) fn statuses(&self, edit: &Edit) -> Vec<Status> {
        let findings = edit.satisfied_by(&self.line, &KernelDefaults::default());
        findings.into_iter().map(|finding| finding.status).collect()
    }

    /// Returns the source of the arguments, for messages.
    pub(super) fn source(&self) -> String {
        match &self.profile {
            Some(profile) => format!("TuneD profile {profile}"),
            None => "TuneD's profile".to_owned(),
        }
    }

    /// Refuses an edit that sets an argument to another value than TuneD, or removes an argument that TuneD adds.
    pub(super) fn check(&self, edit: &Edit, context: &Context) -> Result<(), Obstacle> {
        let absent = &context.desired.cmdline.absent;
        let conflict = |finding: Finding| match finding.status {
            Status::Other { found } | Status::Reordered { found, .. } => {
                Some((found, format!("requests `{}`", finding.entries.join(" "))))
            }
            // TuneD may keep an argument that bedplate merely gave up.
            Status::Lingering { found } => absent
                .iter()
                .any(|arg| finding.entries.contains(&arg.token))
                .then(|| (found, "removes it".to_owned())),
            _ => None,
        };
        let findings = edit.satisfied_by(&self.line, &KernelDefaults::default());
        let conflict = findings.into_iter().find_map(conflict);
        let Some((found, wish)) = conflict else { return Ok(()) };
        let source = self.source();
        Err(Obstacle {
            reason: format!(
                "{source} adds `{found}` to the boot entry, but bedplate's profile {wish}"
            ),
            fix: "remove it from [bootloader] of that profile (`tuned-adm active` names it), choose another one with \
                     `tuned-adm profile`, or drop the argument from [cmdline]"
                .into(),
        })
    }
}
