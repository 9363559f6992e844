use super::*;
use crate::report::style::strip_marks;
use bedplate_base::value::{PciAddress, RegisterBits};
use bedplate_core::plan::KindId;

fn register(address: &str) -> Step {
    let address: PciAddress = address.parse().unwrap();
    let register = "ACS control".to_owned();
    let bits = RegisterBits { mask: 0x7f, value: 0x1d };
    Step::Register(SetConfigBits { address, offset: 0x106, bits, before: 0x11, register })
}

/// Returns the last line for these outcomes, with `waiting` changes pending reboot.
fn last_line(outcomes: &[Outcome], waiting: usize) -> String {
    let change = |outcome: &Outcome| ChangeReport {
        id: "c".into(),
        kind: KindId::Cmdline,
        subject: "c".into(),
        effect: bedplate_core::plan::Effect::ColdBoot,
        outcome: outcome.clone(),
        deferred: Vec::new(),
    };
    let changes = outcomes.iter().map(change).collect();
    strip_marks(&failed(&ApplyReport { changes, warnings: Vec::new() }, waiting))
}

fn failure(back: &[&str]) -> Outcome {
    let back = back.iter().map(|path| (*path).to_owned()).collect();
    Outcome::Failed {
        action: "run update-grub".into(),
        why: "it failed".into(),
        output: None,
        restored: Restored { back, left: Vec::new() },
    }
}

/// A reboot would not apply changes that were rolled back.
#[test]
fn failed_apply_reports_outcome_of_changes() {
    let blocked = Outcome::Blocked { by: vec!["c".into()] };
    let outcomes = [failure(&["/etc/x"]), blocked, Outcome::Done];
    let said = last_line(&outcomes, 0);
    assert_eq!(said, "1 change failed and was rolled back, 1 skipped, 1 done\n");
    assert!(last_line(&outcomes, 2).ends_with(", 2 pending reboot\n"));
}

#[test]
fn failure_without_writes_is_not_called_rolled_back() {
    assert_eq!(last_line(&[failure(&[])], 0), "1 change failed, nothing written\n");
}

#[test]
fn leftover_of_removed_item_is_reported_after_apply() {
    let item = |subject: &str, after: Option<&str>| bedplate_core::plan::Item {
        subject: subject.into(),
        before: Some("0".into()),
        after: after.map(str::to_owned),
        why: Vec::new(),
    };
    let change = Change {
        id: "c".into(),
        kind: KindId::Sysctl,
        subject: "/etc/sysctl.d/zz-bedplate.conf".into(),
        items: vec![item("kernel.a", None), item("kernel.b", Some("1"))],
        effect: bedplate_core::plan::Effect::Now,
        actions: Vec::new(),
        disrupts: Vec::new(),
        needs: Vec::new(),
        owns: None,
        deferred: None,
    };
    let note = |kind: KindId, subject: &str| kind.note(subject, "stays");
    let after = [
        note(KindId::Sysctl, "kernel.a"),
        note(KindId::Sysctl, "kernel.b"),
        note(KindId::Modules, "kernel.a"),
    ];
    let said = |outcome| {
        let changes = vec![ChangeReport::new(&change, outcome)];
        let report = ApplyReport { changes, warnings: Vec::new() };
        left_behind(&report, std::slice::from_ref(&change), &after)
    };
    assert_eq!(said(Outcome::Done), ["kernel.a: stays"]);
    assert!(said(Outcome::Blocked { by: Vec::new() }).is_empty(), "it went nowhere");
}

/// Same format as in the plan: `SV RR CR UF (001d) → SV UF (0011)`, with twenty ports of one node on one line.
#[test]
fn revert_names_bits_and_groups_ports() {
    let steps: Vec<Step> = (0..20).map(|port| register(&format!("0000:17:{port:02x}.0"))).collect();
    let plan = RevertPlan { steps, ..RevertPlan::default() };
    assert_eq!(
        strip_marks(&revert_plan(&plan, false)),
        "↶ ACS control of 0000:17:00.0, ACS control of 0000:17:01.0, ACS control of 0000:17:02.0, … and 17 more (-v): \
         SV UF (0011) → SV RR CR UF (001d)\n"
    );
    assert_eq!(revert_plan(&plan, true).lines().count(), 20);
}
