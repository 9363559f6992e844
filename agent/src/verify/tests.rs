//! From outcomes to an answer. What checks say of hosts is in tests/verify.

use std::collections::BTreeMap;

use super::*;
use crate::demo::HostSpec;
use crate::engine::profile_source::Choice;
use crate::engine::{Request, verify};

/// The report of a made-up host, by these checks.
fn report(host: &str, check: &[&str]) -> Report {
    let host = HostSpec::from_toml(host).unwrap().build();
    let check: Vec<String> = check.iter().map(|id| (*id).to_owned()).collect();
    let selection = Selection::new(&check, &[]).unwrap();
    let choice = Choice::HostOnly;
    let request =
        Request { choice, cpu: None, live_only: false, needs_ledger: false, allowed: &[] };
    verify(&host, &request, &selection).unwrap().report
}

/// A host on which relaxed ordering is off and a link is narrow, with these severities.
fn with(severities: &str) -> String {
    format!(
        "iommu = \"passthrough\"\nacs = false\n[[pci]]\nat = \"0000:19:00.0\"\nrelaxed-ordering = false\n\
         link-now = [5, 8]\n[files]\n\
         \"/etc/bedplate/profile.toml\" = '''\nschema = 1\n[verify.severity]\n{severities}'''\n"
    )
}

const BOTH: [&str; 2] = ["pcie.link-width", "pcie.relaxed-ordering"];

fn verdicts(report: &Report) -> BTreeMap<&str, Verdict> {
    report.checks.iter().map(|judged| (judged.id, judged.verdict)).collect()
}

#[test]
fn a_warning_leaves_a_host_ready_and_a_failure_does_not() {
    let both = report(&with(""), &BOTH);
    assert_eq!(both.answer, Answer::NotReady);
    assert!(both.because.unwrap().ends_with("(pcie.link-width)"));
    assert!(both.next.unwrap().ends_with("(pcie.link-width)"));
    let warned = report(&with(""), &["pcie.relaxed-ordering"]);
    assert_eq!((warned.answer, warned.because, warned.partial), (Answer::Ready, None, true));
    assert!(warned.next.unwrap().ends_with("(pcie.relaxed-ordering)"));
}

#[test]
fn the_profile_lowers_and_raises_what_a_check_means() {
    let lowered = with("\"pcie.link-width\" = { level = \"warn\", reason = \"x8 slots\" }");
    let lowered = report(&lowered, &BOTH);
    assert_eq!(verdicts(&lowered)["pcie.link-width"], Verdict::Warn);
    assert_eq!(lowered.answer, Answer::Ready);
    let raised = with("\"pcie.relaxed-ordering\" = { level = \"fail\", reason = \"slow\" }");
    let raised = report(&raised, &["pcie.relaxed-ordering"]);
    assert_eq!(raised.answer, Answer::NotReady);
    assert_eq!(raised.checks[0].severity_reason.as_deref(), Some("slow"));
    let ignored = with("\"pcie.link-width\" = { level = \"ignore\", reason = \"x8 slots\" }");
    let ignored = report(&ignored, &["pcie.link-width"]);
    assert_eq!((ignored.answer, ignored.next), (Answer::Ready, None));
    assert_eq!(ignored.checks[0].verdict, Verdict::Fail, "it says what it found all the same");
}

#[test]
fn what_is_not_known_is_never_ready_unless_it_could_only_warn() {
    let host = "iommu = \"passthrough\"\nacs = false\nunprivileged = true";
    assert_eq!(report(host, &["pcie.mps"]).answer, Answer::CannotTell);
    let warning = report(host, &["pcie.mrrs"]);
    assert_eq!((warning.answer, warning.checks[0].verdict), (Answer::Ready, Verdict::Unknown));
    let both = report(host, &["pcie.mps", "pcie.mrrs"]);
    assert!(both.next.unwrap().contains("as root"));
}
