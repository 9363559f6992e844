//! State of an image beside its plan: tools that its build still has to run, and units that no boot would start.

use super::Planned;
use crate::facts::units;
use crate::host::{HostKind, ReadError, Reader, Reading};
use crate::kind::{self, sriov};
use crate::plan::Action;
use crate::verify::ImageState;

/// The target that starts bedplate's units.
const TARGET: &str = "multi-user.target";

/// The state of an image; `None`: the host is none.
pub(super) fn state(reader: &dyn Reader, planned: &Planned) -> Option<ImageState> {
    let is_image = reader.kind() == HostKind::Image;
    is_image.then(|| ImageState { owed: owed(planned), disabled: disabled(reader, planned) })
}

/// Commands that are all that is left of the plan.
fn owed(planned: &Planned) -> Vec<String> {
    let Planned { plan, ledger, .. } = planned;
    if !plan.waits_for_tools(|kind, argv| ledger.owes(kind, argv)) {
        return Vec::new();
    }
    let mut commands = Vec::new();
    for action in plan.body.changes.iter().flat_map(|change| &change.actions) {
        if let Action::RunTool { argv, .. } = action
            && !commands.contains(&argv.join(" "))
        {
            commands.push(argv.join(" "));
        }
    }
    commands
}

fn disabled(reader: &dyn Reader, planned: &Planned) -> Reading<Vec<String>> {
    if !leaves_to_machine(reader, planned) {
        return Reading::Known(Vec::new());
    }
    let check = |unit: &str| -> Result<Option<String>, ReadError> {
        let is_wanted = units::is_wanted(reader, unit.trim_end_matches(".service"), TARGET)?;
        Ok((!is_wanted).then(|| unit.to_owned()))
    };
    let units: Result<Vec<Option<String>>, ReadError> = units::OWN.into_iter().map(check).collect();
    Reading::from_result(units.map(|units| units.into_iter().flatten().collect()))
}

/// Whether the profile asks for what only the machine can take or decide.
fn leaves_to_machine(reader: &dyn Reader, planned: &Planned) -> bool {
    if planned.plan.body.changes.iter().any(|change| change.deferred.is_some()) {
        return true;
    }
    let profile = &planned.loaded.profile;
    let Ok(build) = kind::contributions(profile, &planned.facts, &planned.desired) else {
        return false;
    };
    let makes_vfs = !build.vfs.is_empty() && !build.vfs_are_external && !has_vf_rules(reader);
    makes_vfs
        || !build.live_only.is_empty()
        || build.gpudirect.is_some_and(|asked| !asked.is_decided)
}

/// Whether rendered files make VFs without bedplate: udev's rules, or `.link` files.
fn has_vf_rules(reader: &dyn Reader) -> bool {
    let names = reader.list(sriov::LINK_DIRECTORY).unwrap_or_default();
    let has_rules = |directory: &&str| {
        let path = format!("{directory}/{}", sriov::UDEV_RULES);
        reader.exists(&path).unwrap_or(false)
    };
    sriov::UDEV_DIRECTORIES.iter().any(|directory| has_rules(directory))
        || names.iter().any(|name| name.starts_with(sriov::LINK_PREFIX))
}
