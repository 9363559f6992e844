//! Whether the profile is in effect.

use std::collections::BTreeSet;

use super::super::unread::OrUnread as _;
use super::super::{
    Check, CheckInput, Evidence, Group, ImageState, Judgement, NoPlan, Outcome, ProfileFinding,
    Severity,
};
use crate::plan::{KindId, RebootNeed};

/// Directory of the links that `systemctl enable` creates for a boot.
const WANTS: &str = "multi-user.target.wants";

pub(crate) const IN_EFFECT: Check = Check {
    id: "profile.in-effect",
    group: Group::Profile,
    verifies: "the host matches its profile, and waits for no reboot",
    severity: Severity::Fail,
    needs_root: true,
    what: "The plan for the profile in /etc/bedplate of the host (or for `--profile`) is empty: no changes, no blockers, \
           nothing that waits for a reboot. Without a profile the check does not apply. For an image also: its build has no \
           tool left to run. If the profile leaves settings to the machine, the image has bedplate, this profile with `mode \
           = \"enforce\"`, and units that a boot starts.",
    why: "A setting that the host has by chance is gone after the next boot; a setting of the profile comes back.",
    source: "handbook §13.2; `bedplate plan`",
    how: "everything that `bedplate plan` reads",
    judge: in_effect,
};

fn in_effect(input: &CheckInput<'_>) -> Judgement {
    let profile = match input.profile {
        Ok(Some(profile)) => profile,
        Ok(None) => return Ok(Outcome::not_applicable("no profile in /etc/bedplate")),
        Err(NoPlan::Unusable) => return Ok(Outcome::fail([ProfileFinding::ProfileUnusable])),
        Err(why @ (NoPlan::Unread | NoPlan::Ledger)) => {
            return Ok(Outcome::unknown(why.description()).hint(why.command()));
        }
    };
    let body = &profile.plan.body;
    let at = "bedplate plan";
    let name = profile.name;
    if let Some(blocker) = body.blockers.first() {
        return Ok(Outcome::fail([ProfileFinding::ProfileBlocked {
            profile: name.to_owned(),
            setting: blocker.kind,
            subject: blocker.subject.clone(),
            reason: blocker.reason.clone(),
            fix: blocker.fix.clone(),
        }])
        .evidence(format!("{} blockers", body.blockers.len()), at));
    }
    if let Some(outcome) = profile.image.and_then(unfinished) {
        return Ok(outcome);
    }
    let differs = !profile.plan.is_empty();
    if differs || profile.plan.reboot != RebootNeed::None {
        let changes = body.changes.iter().filter(|change| change.deferred.is_none());
        let due: Vec<(KindId, &str)> = match differs {
            true => changes.map(|change| (change.kind, change.subject.text.as_str())).collect(),
            false => body.pending.iter().map(|one| (one.kind, one.subject.as_str())).collect(),
        };
        let settings: BTreeSet<KindId> = due.iter().map(|(kind, _)| *kind).collect();
        let code = |setting| ProfileFinding::NotInEffect {
            setting,
            profile: name.to_owned(),
            changes: differs.then_some(due.len()),
        };
        let mut codes: Vec<ProfileFinding> = settings.into_iter().map(code).collect();
        if codes.is_empty() {
            codes.push(ProfileFinding::ProfileWaitsForReboot { profile: name.to_owned() });
        }
        let named = due.iter().take(3).map(|(_, subject)| Evidence::new(*subject, at));
        return Ok(Outcome::fail(codes).all_evidence(named));
    }
    profile.image.map_or(Ok(()), reaches_machine)?;
    Ok(match body.unknowns.first() {
        Some(unknown) => Outcome::unknown(format!("{}: {}", unknown.subject, unknown.reason))
            .hint("run `bedplate plan` for the unreadable items and the causes"),
        None => Outcome::pass(format!("profile {name} is in effect"))
            .evidence(format!("{} settings converged", body.unchanged.len()), at),
    })
}

/// Returns the finding about unfinished work of an image build.
fn unfinished(image: &ImageState) -> Option<Outcome> {
    let code = match (image.unfinished.clone(), image.owed.clone()) {
        (files, _) if !files.is_empty() => ProfileFinding::ChangeInterrupted { files },
        (_, commands) if !commands.is_empty() => ProfileFinding::ToolsPending { commands },
        _ => return None,
    };
    Some(Outcome::fail([code]).evidence("tools pending", "bedplate plan"))
}

/// Checks that a boot of the machine applies every setting.
///
/// # Errors
/// The finding about settings that no boot would apply.
fn reaches_machine(image: &ImageState) -> Result<(), Outcome> {
    let fails =
        |code: ProfileFinding, what: &str, at: &str| Err(Outcome::fail([code]).evidence(what, at));
    if !image.overridden.is_empty() {
        let settings = image.overridden.clone();
        return fails(ProfileFinding::Overridden { settings }, "overridden", "bedplate plan");
    }
    let has_profile = image.has_profile.or_unread("the profile of the image")?;
    if has_profile == Some(&false) {
        return fails(ProfileFinding::ProfileNotInImage, "not this profile", "/etc/bedplate");
    }
    if has_profile.is_some() && !image.may_enforce {
        return fails(ProfileFinding::AgentObserves, "observe", "agent.mode");
    }
    match image.disabled.or_unread("whether the image starts bedplate")? {
        Some(units) if !units.is_empty() => {
            fails(ProfileFinding::UnitsDisabled { units: units.clone() }, "not enabled", WANTS)
        }
        _ => Ok(()),
    }
}
