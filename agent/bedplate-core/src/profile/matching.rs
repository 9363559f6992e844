//! Selection of the profile for this machine: `[match]` against facts. Pure; an unknown fact never matches.

use std::fmt;

use super::model::{Match, MatchPci};
use bedplate_base::{Arch, CpuVendor, Reading};
use bedplate_facts::Facts;

/// Reason why no profile was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// No profile has only conditions that hold.
    #[error("no profile matches this machine; name one, or adapt the [match] of one of these:{}", list(.0))]
    NoneFits(Vec<ProfileMismatch>),
    /// Several profiles match with equally specific conditions.
    #[error("several profiles match this machine: {}; name one, or make the [match] of one more specific", .0.join(", "))]
    Tie(Vec<String>),
}

/// A profile that does not match, with every condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileMismatch {
    /// Name of the profile.
    pub profile: String,
    /// Reasons, one per condition.
    pub reasons: Vec<String>,
}

fn list(misfits: &[ProfileMismatch]) -> String {
    misfits.iter().map(|misfit| format!("\n  {misfit}")).collect()
}

impl fmt::Display for ProfileMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.profile, self.reasons.join("; "))
    }
}

/// Specificity of a profile's conditions, compared from the left: named PCI devices, PCI vendors, DMI names, CPU and
/// architecture.
type Specificity = [usize; 4];

/// Returns the profile with the most specific conditions among those that match.
///
/// # Errors
/// [`MatchError`]: no profile matches, or several match equally well.
pub(crate) fn pick<'a>(
    profiles: &'a [(String, Match)],
    facts: &Facts,
) -> Result<&'a str, MatchError> {
    let mut best: Vec<(Specificity, &str)> = Vec::new();
    let mut misfits = Vec::new();
    for (name, conditions) in profiles {
        let reasons = match_profile(conditions, facts).fails;
        if reasons.is_empty() {
            best.push((specificity(conditions), name));
        } else {
            misfits.push(ProfileMismatch { profile: name.clone(), reasons });
        }
    }
    let Some(most) = best.iter().map(|(specific, _)| *specific).max() else {
        return Err(MatchError::NoneFits(misfits));
    };
    best.retain(|(specific, _)| *specific == most);
    match best.as_slice() {
        [(_, name)] => Ok(name),
        several => {
            Err(MatchError::Tie(several.iter().map(|(_, name)| (*name).to_owned()).collect()))
        }
    }
}

/// Result of `[match]` on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MatchResult {
    /// Conditions that hold, as sentences.
    pub holds: Vec<String>,
    /// Conditions that do not hold, as sentences; a profile without conditions matches no host.
    pub fails: Vec<String>,
}

/// Evaluates every condition against these facts.
pub(crate) fn match_profile(conditions: &Match, facts: &Facts) -> MatchResult {
    if specificity(conditions) == Specificity::default() {
        return MatchResult { holds: Vec::new(), fails: vec![NO_CONDITIONS.to_owned()] };
    }
    let mut judged = MatchResult::default();
    for condition in verdicts(conditions, facts) {
        match condition {
            Ok(sentence) => judged.holds.push(sentence),
            Err(sentence) => judged.fails.push(sentence),
        }
    }
    judged
}

/// Result of a condition, as a sentence: `Ok` if it holds.
type Verdict = Result<String, String>;

const NO_CONDITIONS: &str = "no conditions in [match]: used only by name";

fn verdicts(conditions: &Match, facts: &Facts) -> Vec<Verdict> {
    let Match { cpu_vendor, arch, sys_vendor, product_name, pci } = conditions;
    let mut out = Vec::new();
    if let Some(wanted) = cpu_vendor {
        out.push(same("CPU vendor", wanted.name(), &facts.cpu.vendor.clone().map(CpuVendor::name)));
    }
    if let Some(wanted) = arch {
        out.push(same("architecture", wanted.name(), &facts.arch.clone().map(Arch::name)));
    }
    let names = [
        ("DMI system vendor", sys_vendor, &facts.dmi.sys_vendor),
        ("DMI product name", product_name, &facts.dmi.product_name),
    ];
    for (what, pattern, found) in names {
        out.extend(pattern.as_ref().map(|pattern| like(what, pattern, found)));
    }
    out.extend(pci.iter().map(|wanted| count(wanted, facts)));
    out
}

fn specificity(conditions: &Match) -> Specificity {
    let named =
        conditions.pci.iter().filter(|pci| pci.ids.iter().all(|id| id.device.is_some())).count();
    let dmi = usize::from(conditions.sys_vendor.is_some())
        + usize::from(conditions.product_name.is_some());
    let cpu = usize::from(conditions.cpu_vendor.is_some()) + usize::from(conditions.arch.is_some());
    [named, conditions.pci.len() - named, dmi, cpu]
}

fn same(what: &str, wanted: &str, found: &Reading<&str>) -> Verdict {
    match found {
        Reading::Known(found) if *found == wanted => Ok(format!("{what} is {found}")),
        Reading::Known(found) => Err(format!("{what} is {found}, not {wanted}")),
        Reading::Absent => Err(none(what)),
        Reading::Unknown(why) => Err(unread(what, why)),
    }
}

fn like(what: &str, pattern: &str, found: &Reading<String>) -> Verdict {
    let options = glob::MatchOptions { case_sensitive: false, ..glob::MatchOptions::default() };
    match found {
        Reading::Known(text) => {
            // Firmware pads names with blanks.
            let text = text.trim();
            match glob::Pattern::new(pattern).is_ok_and(|glob| glob.matches_with(text, options)) {
                true => Ok(format!("{what} is `{text}`")),
                false => Err(format!("{what} is `{text}`, not `{pattern}`")),
            }
        }
        Reading::Absent => Err(none(what)),
        Reading::Unknown(why) => Err(unread(what, why)),
    }
}

fn count(wanted: &MatchPci, facts: &Facts) -> Verdict {
    let ids: Vec<String> = wanted.ids.iter().map(ToString::to_string).collect();
    let ids = ids.join(" or ");
    let tree = facts.pci.optional();
    let tree = tree.map_err(|why| unread(&format!("number of PCI functions {ids}"), why))?;
    let Some(tree) = tree else {
        return Err(format!("no PCI functions on this host, expected {ids}"));
    };
    let counts = |function: &&bedplate_facts::pci::Function| {
        let has = |id: &super::model::PciIdPair| {
            id.vendor == function.vendor && id.device.is_none_or(|device| device == function.device)
        };
        !function.is_vf() && wanted.ids.iter().any(has)
    };
    let found = tree.functions.values().filter(counts).count();
    let low = usize::try_from(wanted.at_least).unwrap_or(usize::MAX);
    let high =
        wanted.at_most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let counted = match found {
        1 => format!("1 PCI function is {ids}"),
        _ => format!("{found} PCI functions are {ids}"),
    };
    if (low..=high).contains(&found) {
        return Ok(counted);
    }
    let bound = if found < low { format!("at least {low}") } else { format!("at most {high}") };
    Err(format!("{counted}, not {bound}"))
}

fn none(what: &str) -> String {
    format!("no {what} on this host")
}

fn unread(what: &str, why: &str) -> String {
    format!("{what} is unknown: {why}")
}

/// Whether a profile's text requests the best matching shipped profile as its base (`match = "auto"`). `false`
/// for text that is not TOML: loading it reports the fault.
pub(crate) fn asks_for_match(text: &str) -> bool {
    toml::from_str::<toml::Table>(text)
        .is_ok_and(|table| table.get("match").is_some_and(|asked| asked.as_str() == Some("auto")))
}
