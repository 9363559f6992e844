//! State of an image in addition to its plan: tools that its build still has to run, and units that no boot would
//! start.

use super::profile_source::Choice;
use super::{EngineError, PreparedPlan, Request, choose};
use crate::desired::{SriovRule, WantedAttributes};
use crate::file_heading::head;
use crate::kind::{self, sriov};
use crate::ledger::Sha;
use crate::plan::{Action, KindId};
use crate::profile::model::AgentMode;
use crate::profile::show;
use crate::verify::ImageState;
use bedplate_base::{ReadError, Reading, chain};
use bedplate_facts::systemd_units;
use bedplate_host::{HostKind, Reader};

/// Target that starts bedplate's units.
const TARGET: &str = "multi-user.target";

/// Returns the state of an image. `None`: the host is not an image.
pub(super) fn state(reader: &dyn Reader, planned: &PreparedPlan) -> Option<ImageState> {
    if reader.kind() != HostKind::Image {
        return None;
    }
    let unfinished = planned.ledger.cut_short().map(str::to_owned).collect();
    let owed = pending_commands(planned);
    let (has_profile, disabled) = match leaves_to_machine(reader, planned) {
        Ok(false) => (Reading::Absent, Reading::Known(Vec::new())),
        Ok(true) => (has_profile(reader, planned), disabled(reader)),
        Err(why) => (Reading::Absent, Reading::unknown(why)),
    };
    let may_enforce = planned.loaded.profile.agent.mode == AgentMode::Enforce;
    let overridden = planned.plan.body.overridden.iter();
    let overridden = overridden.map(|one| format!("{} by {}", one.setting, one.path)).collect();
    Some(ImageState { unfinished, owed, has_profile, disabled, overridden, may_enforce })
}

/// Whether the image contains the profile that it is evaluated with.
fn has_profile(reader: &dyn Reader, planned: &PreparedPlan) -> Reading<bool> {
    let mut facts = planned.facts.clone();
    let request = Request::dry_run(Choice::HostOnly);
    match choose(reader, &mut facts, &request) {
        Ok(chosen) => Reading::Known(show(&chosen.loaded, false) == show(&planned.loaded, false)),
        Err(EngineError::NoProfile) => Reading::Known(false),
        Err(error) => Reading::unknown(chain(&error)),
    }
}

/// Returns the commands left to run, if the plan has nothing else left to do; otherwise an empty list.
fn pending_commands(planned: &PreparedPlan) -> Vec<String> {
    let plan = &planned.plan;
    if !plan.is_empty() && !plan.waits_for_tools() {
        return Vec::new();
    }
    let mut commands = plan.body.pending_commands.clone();
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

/// Returns bedplate's units that no boot starts.
fn disabled(reader: &dyn Reader) -> Reading<Vec<String>> {
    let check = |unit: &str| -> Result<Option<String>, ReadError> {
        let is_wanted =
            systemd_units::is_wanted(reader, unit.trim_end_matches(".service"), TARGET)?;
        Ok((!is_wanted).then(|| unit.to_owned()))
    };
    let units: Result<Vec<Option<String>>, ReadError> =
        systemd_units::OWN.into_iter().map(check).collect();
    Reading::from_result(units.map(|units| units.into_iter().flatten().collect()))
}

/// Whether the profile has settings that only the machine can apply or decide. Ignores resource types that the image build
/// handles.
///
/// # Errors
/// Why this is not known.
fn leaves_to_machine(reader: &dyn Reader, planned: &PreparedPlan) -> Result<bool, String> {
    let is_deferred = planned.plan.body.changes.iter().any(|change| change.deferred.is_some());
    // Rendered files include this drop-in if they leave work to the machine.
    if is_deferred || reader.exists(systemd_units::OWN_DROP_IN).unwrap_or(false) {
        return Ok(true);
    }
    let profile = &planned.loaded.profile;
    let build = kind::contributions(profile, &planned.facts, &planned.desired)
        .map_err(|error| chain(&error))?;
    let counts = |kind: KindId| !planned.without.contains(&kind);
    let kind_of = |id: &str| id.split(['/', '.']).next().and_then(kind::named).is_none_or(counts);
    // Rules and `.link` files create VFs; they set only some of the attributes, or none.
    let needs_more =
        |rule: &SriovRule| rule.vf != WantedAttributes::default() || rule.eswitch.is_some();
    let makes_vfs = build.own_vfs().next().is_some() && !has_vf_rules(reader, planned);
    Ok(counts(KindId::Sriov) && (makes_vfs || build.own_vfs().any(needs_more))
        || build.live_only.iter().any(|live| kind_of(&live.id))
        || counts(KindId::Modules) && build.gpudirect.is_some_and(|asked| !asked.is_decided))
}

/// Whether files rendered from this exact profile create VFs without bedplate: udev rules or `.link` files.
fn has_vf_rules(reader: &dyn Reader, planned: &PreparedPlan) -> bool {
    let digest = Sha::digest(show(&planned.loaded, false).as_bytes()).to_string();
    let is_of_profile = |path: &str| {
        let text = reader.text(path).unwrap_or_default();
        head(&text).any(|line| line.contains(&digest))
    };
    let name = |place: &&str| format!("{place}/{}", sriov::UDEV_RULES);
    // udev reads only one of several files with the same name.
    let mut rules = sriov::UDEV_DIRECTORIES.iter().map(name);
    let first = rules.find(|path| reader.exists(path) != Ok(false));
    let links = reader.list(sriov::LINK_DIRECTORY).unwrap_or_default();
    let links = links.iter().filter(|name| name.starts_with(sriov::LINK_PREFIX));
    let mut links = links.map(|name| format!("{}/{name}", sriov::LINK_DIRECTORY)).peekable();
    first.is_some_and(|path| is_of_profile(&path))
        || links.peek().is_some() && links.all(|path| is_of_profile(&path))
}
