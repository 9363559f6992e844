//! Public results of the checks of `bedplate verify`, and the verdict that follows from them. Pure.

use serde::{Deserialize, Serialize};

use super::state::Verdict;
use bedplate_base::{Recovery, mask, terminal};
use bedplate_core::verify::{CHECKS, Group, Judged, Report, Severity, Verdict as Outcome};

/// All outcomes, in the order of the metrics.
pub(crate) const OUTCOMES: [Outcome; 5] =
    [Outcome::Pass, Outcome::Warn, Outcome::Fail, Outcome::Unknown, Outcome::NotApplicable];

/// Longest text of a check in characters: findings name a few devices and count the rest.
const LONGEST: usize = 400;

/// Reason for a converged host without check results.
const NOT_JUDGED: &str = "the checks of `bedplate verify` were not run";

/// Public result of one check. `text` and `fix` are empty for passed and not applicable checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Id of the check.
    pub id: String,
    /// Outcome after the profile's severity settings.
    pub outcome: Outcome,
    /// Severity of a failure; with `warn` the host may still be ready.
    pub severity: Severity,
    /// Finding, in one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Recovery action after a failure.
    #[serde(default, skip_serializing_if = "is_no_recovery")]
    pub recovery: Recovery,
}

impl Checked {
    fn new(judged: &Judged) -> Self {
        let checked = Checked {
            id: judged.id.to_owned(),
            outcome: judged.verdict,
            severity: judged.severity,
            text: String::new(),
            fix: None,
            recovery: Recovery::None,
        };
        match judged.verdict {
            Outcome::Pass | Outcome::NotApplicable => checked,
            Outcome::Fail | Outcome::Warn | Outcome::Unknown => {
                // Fixes are constant texts of bedplate, such as `LimitMEMLOCK=infinity`, except in these
                // groups, which quote arguments.
                let quotes = matches!(judged.group, Group::CommandLine | Group::Profile);
                let fix = judged.fix.as_deref();
                let fix = fix.map(if quotes { mask_line } else { brief });
                let recovery = judged.recovery();
                Checked { text: mask_line(&judged.finding), fix, recovery, ..checked }
            }
        }
    }

    /// Whether this check makes the host not ready.
    pub fn fails(&self) -> bool {
        self.outcome == Outcome::Fail
    }

    /// Whether the outcome is unknown and could make the host not ready.
    pub fn is_inconclusive(&self) -> bool {
        self.outcome == Outcome::Unknown && self.severity == Severity::Fail
    }

    /// Whether there is a finding to show.
    pub fn has_finding(&self) -> bool {
        !matches!(self.outcome, Outcome::Pass | Outcome::NotApplicable)
    }

    /// Whether the result is unchanged since `before`. Ignores the text of warnings, because their counters always grow.
    fn is_no_news(&self, before: &Checked) -> bool {
        self.id == before.id
            && self.outcome == before.outcome
            && (self.text == before.text || self.outcome == Outcome::Warn)
    }

    fn reason(&self) -> String {
        format!("{} ({})", self.text, self.id)
    }
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_no_recovery(recovery: &Recovery) -> bool {
    *recovery == Recovery::None
}

/// Returns the public part of a report, in order of priority. Checks that the profile ignores are left out;
/// `bedplate verify` shows them.
pub fn public(report: &Report) -> Vec<Checked> {
    report.checks.iter().filter(|judged| !judged.is_ignored()).map(Checked::new).collect()
}

/// Returns one line of limited length, with values that may be secrets masked.
fn mask_line(text: &str) -> String {
    brief(&mask::mask_message(text))
}

fn brief(text: &str) -> String {
    terminal::brief(text, LONGEST)
}

/// Returns the verdict on a converged host, and the reason if it is not ready. `checks` is `None` if the checks were not run.
pub(crate) fn verdict(checks: Option<&[Checked]>) -> (Verdict, Option<String>) {
    let Some(checks) = checks else { return (Verdict::CannotTell, Some(NOT_JUDGED.to_owned())) };
    let of = |such: fn(&Checked) -> bool| checks.iter().filter(move |checked| such(checked));
    let reason = |such: fn(&Checked) -> bool, one: &str, more: &str| {
        let mut all = of(such);
        let first = all.next()?.reason();
        Some(match all.count() {
            0 => first,
            1 => format!("{first}, and {one}"),
            others => format!("{first}, and {others} {more}"),
        })
    };
    if let Some(why) = reason(Checked::fails, "1 more check fails", "more checks fail") {
        return (Verdict::NotReady, Some(why));
    }
    match reason(Checked::is_inconclusive, "1 more check is unknown", "more checks are unknown") {
        Some(why) => (Verdict::CannotTell, Some(why)),
        None => (Verdict::Ready, None),
    }
}

/// Whether check results are unchanged for readers that act on them.
pub(crate) fn are_no_news(now: Option<&[Checked]>, before: Option<&[Checked]>) -> bool {
    match (now, before) {
        (Some(now), Some(before)) => {
            now.len() == before.len()
                && now.iter().zip(before).all(|(now, before)| now.is_no_news(before))
        }
        (now, before) => now.is_none() && before.is_none(),
    }
}

/// Formats counts: `1 failed, 2 warned, 46 passed`.
pub fn counted(checks: &[Checked]) -> String {
    let count =
        |outcome| checks.iter().filter(|checked: &&Checked| checked.outcome == outcome).count();
    let counts = [
        (count(Outcome::Fail), "failed"),
        (count(Outcome::Unknown), "unknown"),
        (count(Outcome::Warn), "warned"),
        (count(Outcome::Pass), "passed"),
        (count(Outcome::NotApplicable), "not applicable"),
        (CHECKS.len().saturating_sub(checks.len()), "ignored by the profile"),
    ];
    let said = counts.iter().filter(|(count, _)| *count > 0);
    said.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(id: &str, outcome: Outcome, severity: Severity) -> Checked {
        Checked {
            id: id.into(),
            outcome,
            severity,
            text: format!("{id} says"),
            fix: None,
            recovery: Recovery::None,
        }
    }

    #[test]
    fn failed_checks_precede_unknown_ones() {
        use Severity::{Fail, Warn};
        let pass = checked("a.a", Outcome::Pass, Fail);
        let fail = checked("b.b", Outcome::Fail, Fail);
        let unknown = checked("c.c", Outcome::Unknown, Fail);
        let may_warn = checked("d.d", Outcome::Unknown, Warn);
        let warn = checked("e.e", Outcome::Warn, Warn);
        let of = |all: &[&Checked]| {
            verdict(Some(&all.iter().map(|&one| one.clone()).collect::<Vec<_>>()))
        };
        assert_eq!(of(&[&pass, &may_warn, &warn]), (Verdict::Ready, None));
        assert_eq!(of(&[]), (Verdict::Ready, None), "the profile ignores all of them");
        let (judged, why) = of(&[&pass, &unknown, &warn, &fail]);
        assert_eq!((judged, why.as_deref()), (Verdict::NotReady, Some("b.b says (b.b)")));
        let (judged, why) = of(&[&unknown, &unknown, &unknown]);
        let text = "c.c says (c.c), and 2 more checks are unknown";
        assert_eq!((judged, why.as_deref()), (Verdict::CannotTell, Some(text)));
        assert_eq!(verdict(None).0, Verdict::CannotTell, "nobody has looked");
    }

    #[test]
    fn changed_text_matters_for_failures_only() {
        let of = |outcome, text: &str| {
            vec![Checked { outcome, text: text.into(), ..checked("a.a", outcome, Severity::Fail) }]
        };
        let same = |now: &[Checked], before: &[Checked]| are_no_news(Some(now), Some(before));
        assert!(same(&of(Outcome::Warn, "4 errors"), &of(Outcome::Warn, "3 errors")));
        assert!(!same(&of(Outcome::Fail, "2 ports"), &of(Outcome::Fail, "1 port")));
        assert!(!same(&of(Outcome::Fail, "x"), &of(Outcome::Warn, "x")));
        assert!(!same(&[], &of(Outcome::Pass, "")) && !are_no_news(None, Some(&[])));
        assert!(are_no_news(None, None));
    }

    #[test]
    fn fix_masks_arguments_only_where_quoted() {
        let of = |group| Judged {
            id: "x.x",
            group,
            verifies: "",
            verdict: Outcome::Fail,
            finding: "`token=hunter2` does nothing".into(),
            evidence: Vec::new(),
            codes: Vec::new(),
            fix: Some("set `LimitMEMLOCK=infinity`".into()),
            in_profile: false,
            severity: Severity::Fail,
            severity_reason: Some("hunter2".into()),
        };
        let fix = |group| Checked::new(&of(group)).fix.unwrap();
        assert_eq!(fix(Group::Limits), "set `LimitMEMLOCK=infinity`");
        assert_eq!(fix(Group::CommandLine), "set `LimitMEMLOCK=…`");
        let all = format!("{:?}", Checked::new(&of(Group::Limits)));
        assert!(!all.contains("hunter2"), "{all}");
    }

    #[test]
    fn check_text_is_masked_single_line_and_bounded() {
        let text = mask_line(&format!("token=hunter2 \u{1b}[2J\n{}", "x".repeat(4 * LONGEST)));
        assert!(!text.contains("hunter2") && !text.contains(['\u{1b}', '\n']), "{text}");
        assert_eq!(text.chars().count(), LONGEST + 1);
    }
}
