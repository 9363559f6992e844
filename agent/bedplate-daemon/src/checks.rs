//! What the checks of `bedplate verify` come to, as the daemon tells everybody, and what follows from it for the verdict. Pure.

use serde::{Deserialize, Serialize};

use super::state::Verdict;
use bedplate_base::{mask, terminal};
use bedplate_core::verify::{CHECKS, Group, Judged, Report, Severity, Verdict as Outcome};

/// Every outcome, in the order of metrics.
pub(crate) const OUTCOMES: [Outcome; 5] =
    [Outcome::Pass, Outcome::Warn, Outcome::Fail, Outcome::Unknown, Outcome::NotApplicable];

/// Longest text of a check, in characters: findings name a few devices and count the others.
const LONGEST: usize = 400;

/// What is said where a host that is as its profile says was not judged.
const NOT_JUDGED: &str = "the checks of `bedplate verify` were not made";

/// One check. What passed, and what is about nothing here, has no words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Its id.
    pub id: String,
    /// What it came to, as the profile counts it.
    pub outcome: Outcome,
    /// What its not passing means: with `warn` the host may be ready all the same.
    pub severity: Severity,
    /// Finding, in one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Checked {
    fn new(judged: &Judged) -> Self {
        let checked = Checked {
            id: judged.id.to_owned(),
            outcome: judged.verdict,
            severity: judged.severity,
            text: String::new(),
            remedy: None,
        };
        match judged.verdict {
            Outcome::Pass | Outcome::NotApplicable => checked,
            Outcome::Fail | Outcome::Warn | Outcome::Unknown => {
                // Remedies are bedplate's own words, `LimitMEMLOCK=infinity`, but for those that repeat an argument.
                let quotes = matches!(judged.group, Group::CommandLine | Group::Profile);
                let remedy = judged.remedy.as_deref();
                let remedy = remedy.map(if quotes { mask_line } else { brief });
                Checked { text: mask_line(&judged.finding), remedy, ..checked }
            }
        }
    }

    /// Whether the host is not ready for it.
    pub fn fails(&self) -> bool {
        self.outcome == Outcome::Fail
    }

    /// Whether something is not known that could make the host not ready.
    pub fn is_inconclusive(&self) -> bool {
        self.outcome == Outcome::Unknown && self.severity == Severity::Fail
    }

    /// Whether there is something to say of it.
    pub fn has_finding(&self) -> bool {
        !matches!(self.outcome, Outcome::Pass | Outcome::NotApplicable)
    }

    /// Whether this is no news to who knows `before`. Counters in a warning go up for ever, and say nothing new.
    fn is_no_news(&self, before: &Checked) -> bool {
        self.id == before.id
            && self.outcome == before.outcome
            && (self.text == before.text || self.outcome == Outcome::Warn)
    }

    fn reason(&self) -> String {
        format!("{} ({})", self.text, self.id)
    }
}

/// What everybody may see of a report, in the order in which it is to be dealt with. What the profile ignores counts for
/// nothing and is left out; `bedplate verify` shows it.
pub fn public(report: &Report) -> Vec<Checked> {
    report.checks.iter().filter(|judged| !judged.is_ignored()).map(Checked::new).collect()
}

/// One line that holds no value which may be a secret, and is not longer than it has to be.
fn mask_line(text: &str) -> String {
    brief(&mask::mask_message(text))
}

fn brief(text: &str) -> String {
    terminal::brief(text, LONGEST)
}

/// The verdict on a host that is as its profile says, and why, where it is not ready. `None`: it was not judged.
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
    match reason(Checked::is_inconclusive, "1 more check cannot tell", "more checks cannot tell") {
        Some(why) => (Verdict::CannotTell, Some(why)),
        None => (Verdict::Ready, None),
    }
}

/// Whether a judgement is the same as an earlier one, for those who decide by it.
pub(crate) fn are_no_news(now: Option<&[Checked]>, before: Option<&[Checked]>) -> bool {
    match (now, before) {
        (Some(now), Some(before)) => {
            now.len() == before.len()
                && now.iter().zip(before).all(|(now, before)| now.is_no_news(before))
        }
        (now, before) => now.is_none() && before.is_none(),
    }
}

/// `1 failed, 2 warned, 46 passed`.
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
        Checked { id: id.into(), outcome, severity, text: format!("{id} says"), remedy: None }
    }

    #[test]
    fn what_fails_comes_before_what_is_not_known() {
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
        let text = "c.c says (c.c), and 2 more checks cannot tell";
        assert_eq!((judged, why.as_deref()), (Verdict::CannotTell, Some(text)));
        assert_eq!(verdict(None).0, Verdict::CannotTell, "nobody has looked");
    }

    #[test]
    fn counters_of_a_warning_are_no_news_and_what_fails_is() {
        let of = |outcome, text: &str| {
            let severity = Severity::Fail;
            vec![Checked { id: "a.a".into(), outcome, severity, text: text.into(), remedy: None }]
        };
        let same = |now: &[Checked], before: &[Checked]| are_no_news(Some(now), Some(before));
        assert!(same(&of(Outcome::Warn, "4 errors"), &of(Outcome::Warn, "3 errors")));
        assert!(!same(&of(Outcome::Fail, "2 ports"), &of(Outcome::Fail, "1 port")));
        assert!(!same(&of(Outcome::Fail, "x"), &of(Outcome::Warn, "x")));
        assert!(!same(&[], &of(Outcome::Pass, "")) && !are_no_news(None, Some(&[])));
        assert!(are_no_news(None, None));
    }

    #[test]
    fn a_remedy_can_be_followed_and_repeats_no_argument() {
        let of = |group| Judged {
            id: "x.x",
            group,
            proves: "",
            verdict: Outcome::Fail,
            finding: "`token=hunter2` does nothing".into(),
            evidence: Vec::new(),
            codes: Vec::new(),
            remedy: Some("set `LimitMEMLOCK=infinity`".into()),
            severity: Severity::Fail,
            severity_reason: Some("hunter2".into()),
        };
        let remedy = |group| Checked::new(&of(group)).remedy.unwrap();
        assert_eq!(remedy(Group::Limits), "set `LimitMEMLOCK=infinity`");
        assert_eq!(remedy(Group::CommandLine), "set `LimitMEMLOCK=…`");
        let all = format!("{:?}", Checked::new(&of(Group::Limits)));
        assert!(!all.contains("hunter2"), "{all}");
    }

    #[test]
    fn texts_hold_no_secret_steer_no_terminal_and_end() {
        let text = mask_line(&format!("token=hunter2 \u{1b}[2J\n{}", "x".repeat(4 * LONGEST)));
        assert!(!text.contains("hunter2") && !text.contains(['\u{1b}', '\n']), "{text}");
        assert_eq!(text.chars().count(), LONGEST + 1);
    }
}
