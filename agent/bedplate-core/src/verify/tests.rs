//! Tests of the summary of outcomes. Check results of hosts are in tests/data/verify.

use std::collections::BTreeMap;

use super::*;
use crate::engine::profile_source::Choice;
use crate::engine::{Request, verify};
use bedplate_testhosts::HostSpec;

/// Returns the report of a fake host, by these checks.
fn report(host: &str, check: &[&str]) -> Report {
    let host = HostSpec::from_toml(host).unwrap().build();
    let check: Vec<String> = check.iter().map(|id| (*id).to_owned()).collect();
    let selection = Selection::new(&check, &[], Stage::default()).unwrap();
    let choice = Choice::HostOnly;
    let request = Request::dry_run(choice);
    verify(&host, &request, &selection).unwrap().report
}

/// Returns a host with relaxed ordering off and a narrow link, with these severities.
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
fn only_failures_make_a_host_not_ready() {
    let both = report(&with(""), &BOTH);
    assert_eq!(both.answer, Answer::NotReady);
    assert!(both.reason.unwrap().ends_with("(pcie.link-width)"));
    assert!(both.next.unwrap().ends_with("(pcie.link-width)"));
    let warned = report(&with(""), &["pcie.relaxed-ordering"]);
    assert_eq!((warned.answer, warned.reason, warned.partial), (Answer::Ready, None, true));
    assert!(warned.next.unwrap().ends_with("(pcie.relaxed-ordering)"));
}

#[test]
fn profile_lowers_and_raises_severities() {
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
    assert_eq!(ignored.checks[0].verdict, Verdict::Fail, "an ignored check still reports it");
}

#[test]
fn unknown_check_blocks_ready_unless_warn_level() {
    let host = "iommu = \"passthrough\"\nacs = false\nunprivileged = true";
    assert_eq!(report(host, &["pcie.mps"]).answer, Answer::CannotTell);
    let warning = report(host, &["pcie.mrrs"]);
    assert_eq!((warning.answer, warning.checks[0].verdict), (Answer::Ready, Verdict::Unknown));
    let both = report(host, &["pcie.mps", "pcie.mrrs"]);
    assert!(both.next.unwrap().contains("as root"));
}

/// The release does not show which fixes the vendor took.
#[test]
fn pasids_of_vendor_kernel_are_unknown_only_beside_bridge() {
    const SHARED: &str = "[[pci]]\nat = \"0008:02:03.0\"\ngroup-with = \"0008:06:00.0\"\n";
    let verdict = |kernel: &str, groups: &str| {
        let host = format!("machine = \"gb300\"\nkernel = \"{kernel}\"\n{groups}");
        report(&host, &["iommu.mode"]).checks[0].verdict
    };
    for kernel in ["6.14.0-1007-nvidia-64k", "6.12.0-55.el10.aarch64+64k"] {
        assert_eq!(verdict(kernel, SHARED), Verdict::Unknown, "{kernel}");
        assert_eq!(verdict(kernel, ""), Verdict::Pass, "{kernel}");
    }
    assert_eq!(verdict("6.12.50", SHARED), Verdict::Fail);
    assert_eq!(verdict("6.12.93", SHARED), Verdict::Pass);
}

#[test]
fn smmu_event_of_platform_device_is_no_finding() {
    let verdict = |event: &str| {
        let log = "arm-smmu-v3 arm-smmu-v3.0.auto: event";
        let host = format!(
            "machine = \"gb200\"\nkernel = \"6.17.0-1008-nvidia-64k\"\n\
             kernel-log = [\"{log} 0x10 received:\"{event}]\n"
        );
        report(&host, &["iommu.log"]).checks[0].verdict
    };
    let named = |client: &str| {
        format!(
            ", \"arm-smmu-v3 arm-smmu-v3.0.auto: event: F_TRANSLATION client: {client} sid: 0x1 ssid: 0x0\""
        )
    };
    assert_eq!(verdict(""), Verdict::Warn);
    assert_eq!(verdict(&named("0008:01:00.0")), Verdict::Warn);
    assert_eq!(verdict(&named("fc900000.iommu")), Verdict::Pass);
}

#[test]
fn fix_omits_settings_that_the_profile_has() {
    let fix = |profile: &str| {
        let file = "[files]\n\"/etc/bedplate/profile.toml\"";
        let report =
            report(&format!("machine = \"hgx\"\n{file} = '''{profile}'''\n"), &["acs.path"]);
        assert_eq!(report.answer, Answer::NotReady);
        report.checks[0].fix.clone().unwrap()
    };
    let asks = "set [acs] policy = \"direct-p2p\" in the profile";
    assert!(fix("schema = 1\n[acs]\npolicy = \"keep\"\n").starts_with(asks));
    let due = fix("schema = 1\n[acs]\npolicy = \"direct-p2p\"\n");
    assert!(!due.contains(asks) && due.contains("`bedplate apply`"), "{due}");
}

/// A mistake in the profile is a finding; the rest is evaluated.
#[test]
fn unusable_profile_is_a_finding() {
    let wrong =
        "machine = \"hgx\"\n[files]\n\"/etc/bedplate/profile.toml\" = 'schema = 1 [iommu'\n";
    let all = report(wrong, &[]);
    assert_eq!(verdicts(&all)["profile.in-effect"], Verdict::Fail);
    let bare = report("machine = \"hgx\"\n", &[]);
    let others = |report: &Report| {
        let mut found = report.checks.clone();
        found.retain(|judged| judged.id != "profile.in-effect");
        found
    };
    assert_eq!(others(&all), others(&bare));
    assert_eq!(report(wrong, &["pcie.mps"]).answer, Answer::Ready, "only selected checks decide");
}
