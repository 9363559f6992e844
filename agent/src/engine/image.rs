//! State of an image beside its plan: tools that its build still has to run, and units that no boot would start.

use super::profile_source::Choice;
use super::{EngineError, Planned, Request, choose};
use crate::desired::WantedAttributes;
use crate::error_chain::chain;
use crate::facts::units;
use crate::host::{HostKind, ReadError, Reader, Reading};
use crate::kind::contribution::VfRule;
use crate::kind::{self, sriov};
use crate::plan::Action;
use crate::profile::show;
use crate::verify::ImageState;

/// The target that starts bedplate's units.
const TARGET: &str = "multi-user.target";

/// The state of an image; `None`: the host is none.
pub(super) fn state(reader: &dyn Reader, planned: &Planned) -> Option<ImageState> {
    if reader.kind() != HostKind::Image {
        return None;
    }
    let unfinished = planned.ledger.cut_short().map(str::to_owned).collect();
    let owed = owed(planned);
    let (has_profile, disabled) = match leaves_to_machine(reader, planned) {
        Ok(false) => (Reading::Absent, Reading::Known(Vec::new())),
        Ok(true) => (has_profile(reader, planned), disabled(reader)),
        Err(why) => (Reading::Absent, Reading::unknown(why)),
    };
    Some(ImageState { unfinished, owed, has_profile, disabled })
}

/// Whether the image has the profile that it is judged by.
fn has_profile(reader: &dyn Reader, planned: &Planned) -> Reading<bool> {
    let mut facts = planned.facts.clone();
    let request = Request::of(Choice::HostOnly);
    match choose(reader, &mut facts, &request) {
        Ok(chosen) => Reading::Known(show(&chosen.loaded, false) == show(&planned.loaded, false)),
        Err(EngineError::NoProfile) => Reading::Known(false),
        Err(error) => Reading::unknown(chain(&error)),
    }
}

/// Commands that are all that is left of the plan.
fn owed(planned: &Planned) -> Vec<String> {
    let Planned { plan, ledger, .. } = planned;
    if !plan.is_empty() && !plan.waits_for_tools(|kind, argv| ledger.owes(kind, argv)) {
        return Vec::new();
    }
    let mut commands = plan.body.owed_elsewhere.clone();
    let doable = plan.body.changes.iter().filter(|change| change.deferred.is_none());
    for action in doable.flat_map(|change| &change.actions) {
        if let Action::RunTool { argv, .. } = action
            && !commands.contains(&argv.join(" "))
        {
            commands.push(argv.join(" "));
        }
    }
    commands
}

/// Units that no boot starts.
fn disabled(reader: &dyn Reader) -> Reading<Vec<String>> {
    let check = |unit: &str| -> Result<Option<String>, ReadError> {
        let is_wanted = units::is_wanted(reader, unit.trim_end_matches(".service"), TARGET)?;
        Ok((!is_wanted).then(|| unit.to_owned()))
    };
    let units: Result<Vec<Option<String>>, ReadError> = units::OWN.into_iter().map(check).collect();
    Reading::from_result(units.map(|units| units.into_iter().flatten().collect()))
}

/// Whether the profile asks for what only the machine can take or decide.
///
/// # Errors
/// Why that is not known.
fn leaves_to_machine(reader: &dyn Reader, planned: &Planned) -> Result<bool, String> {
    if planned.plan.body.changes.iter().any(|change| change.deferred.is_some()) {
        return Ok(true);
    }
    let profile = &planned.loaded.profile;
    let build = kind::contributions(profile, &planned.facts, &planned.desired)
        .map_err(|error| chain(&error))?;
    // Rules and `.link` files make VFs; of their attributes they set some, or none.
    let needs_more =
        |rule: &VfRule| rule.vf != WantedAttributes::default() || rule.eswitch.is_some();
    let makes_vfs = build.own_vfs().next().is_some() && !has_vf_rules(reader);
    Ok(makes_vfs
        || build.own_vfs().any(needs_more)
        || !build.live_only.is_empty()
        || build.gpudirect.is_some_and(|asked| !asked.is_decided))
}

/// Whether rendered files make VFs without bedplate: udev's rules, or `.link` files.
fn has_vf_rules(reader: &dyn Reader) -> bool {
    let names = reader.list(sriov::LINK_DIRECTORY).unwrap_or_default();
    let has_rules = |directory: &&str| {
        let path = format!("{directory}/{}", sriov::UDEV_RULES);
        reader.exists(&path).unwrap_or(false)
    };
    sriov::UDEV_DIRECTORIES.iter().any(has_rules)
        || names.iter().any(|name| name.starts_with(sriov::LINK_PREFIX))
}
