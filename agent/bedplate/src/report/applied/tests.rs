use super::*;
use bedplate_base::value::{PciAddress, RegisterBits};
use bedplate_core::plan::KindId;

fn register(address: &str) -> Step {
    let address: PciAddress = address.parse().unwrap();
    let register = "ACS control".to_owned();
    let bits = RegisterBits { mask: 0x7f, value: 0x1d };
    Step::Register(SetConfigBits { address, offset: 0x106, bits, before: 0x11, register })
}

/// A reboot would not bring what was undone.
#[test]
fn a_failed_apply_says_what_became_of_its_changes() {
    let change = |outcome| ChangeReport {
        id: "c".into(),
        kind: KindId::Cmdline,
        subject: "c".into(),
        effect: bedplate_core::plan::Effect::ColdBoot,
        outcome,
        deferred: Vec::new(),
    };
    let one = Outcome::Failed {
        action: "run update-grub".into(),
        why: "it failed".into(),
        output: None,
        restored: Restored { back: vec!["/etc/x".into()], left: Vec::new() },
    };
    let blocked = Outcome::Blocked { by: vec!["c".into()] };
    let changes = vec![change(one), change(blocked), change(Outcome::Done)];
    let report = ApplyReport { changes, warnings: Vec::new() };
    let terminal = super::super::style::terminal;
    let said =
        |waiting| anstream::adapter::strip_str(&terminal(&failed(&report, waiting))).to_string();
    assert_eq!(said(0), "1 change failed and was undone, 1 not tried, 1 done\n");
    assert!(said(2).ends_with(", 2 waiting for a boot\n"));
}

#[test]
fn failure_that_wrote_nothing_is_not_called_undone() {
    let outcome = Outcome::Failed {
        action: "write /etc/x".into(),
        why: "it has changed since".into(),
        output: None,
        restored: Restored::default(),
    };
    let change = ChangeReport {
        id: "c".into(),
        kind: KindId::Cmdline,
        subject: "c".into(),
        effect: bedplate_core::plan::Effect::Now,
        outcome,
        deferred: Vec::new(),
    };
    let report = ApplyReport { changes: vec![change], warnings: Vec::new() };
    let text = super::super::style::terminal(&failed(&report, 0));
    let text = anstream::adapter::strip_str(&text).to_string();
    assert_eq!(text, "1 change failed, with nothing written\n");
}

#[test]
fn what_stays_of_an_item_that_went_is_said_after_the_apply() {
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

/// As the plan says it: `SV RR CR UF (001d) → SV UF (0011)`, and the twenty ports of one node on one line.
#[test]
fn a_revert_names_bits_and_folds_ports() {
    let steps: Vec<Step> = (0..20).map(|port| register(&format!("0000:17:{port:02x}.0"))).collect();
    let plan = RevertPlan { steps, ..RevertPlan::default() };
    assert_eq!(
        anstream::adapter::strip_str(&super::super::style::terminal(&revert_plan(&plan, false)))
            .to_string(),
        "↶ ACS control of 0000:17:00.0, ACS control of 0000:17:01.0, ACS control of 0000:17:02.0, … and 17 more; -v: \
         SV UF (0011) → SV RR CR UF (001d)\n"
    );
    assert_eq!(revert_plan(&plan, true).lines().count(), 20);
}
