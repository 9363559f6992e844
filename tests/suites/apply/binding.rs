//! VFs that get a driver by name, and tools whose state is in no file.

use bedplate_core::apply::Outcome;
use bedplate_core::plan::{Action, Change, Check, KindId, ToolUndo};
use bedplate_tests::fake::tree::{foreign, times};
use bedplate_tests::fake::{Fuse, Machine};

use crate::scenario::{NUMVFS, change, ledger, machine, plan_of, revert, run, write};

const AUTOPROBE: &str = "/sys/bus/pci/devices/0000:18:00.0/sriov_drivers_autoprobe";

/// As planned by the sriov kind: no probing while the VFs are created, then each gets its driver, then probing as before.
fn give(driver: &str) -> Change {
    let pf = "0000:18:00.0".parse().unwrap();
    let bind = Action::BindVfs { pf, count: 9, driver: driver.into(), limit_s: 5 };
    let actions =
        vec![write(AUTOPROBE, "1", "0"), write(NUMVFS, "0", "9"), bind, write(AUTOPROBE, "0", "1")];
    change(KindId::Sriov, "0000:18:00.0", actions)
}

fn drivers(machine: &Machine) -> Vec<Option<String>> {
    let link = |number: u16| {
        let device =
            machine.at(&format!("/sys/bus/pci/devices/0000:18:00.0/virtfn{number}/driver"));
        let target = std::fs::read_link(device).ok()?;
        target.file_name().map(|name| name.to_string_lossy().into_owned())
    };
    (0..9).map(link).collect()
}

#[test]
fn every_vf_gets_the_driver_and_probing_is_as_before() {
    let machine = machine();
    machine.put("/sys/bus/pci/drivers/vfio-pci/bind", "");
    let plan = plan_of(vec![give("vfio-pci")]);
    let report = run(&machine, &plan, &Fuse::none());
    assert_eq!(report.changes[0].outcome, Outcome::Done, "{report:?}");
    assert_eq!(drivers(&machine), vec![Some("vfio-pci".to_owned()); 9]);
    assert_eq!((machine.text(NUMVFS).as_str(), machine.text(AUTOPROBE).as_str()), ("9\n", "1\n"));
    let before = times(machine.root());
    assert_eq!(run(&machine, &plan, &Fuse::none()).changes[0].outcome, Outcome::AlreadyDone);
    assert_eq!(times(machine.root()), before);
    // A guest may have them: they are not removed without `--force`.
    let (plan, _) = revert(&machine, &Fuse::none(), false);
    assert!(plan.refused.iter().any(|refused| refused.subject == NUMVFS), "{plan:?}");
    let (_, report) = revert(&machine, &Fuse::none(), true);
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(machine.text(NUMVFS), "0\n");
    assert!(ledger(&machine).attributes.is_empty());
}

#[test]
fn unset_driver_override_is_cleared_by_revert() {
    let machine = machine();
    let path = "/sys/bus/pci/devices/0000:18:00.0/driver_override";
    machine.put(path, "(null)\n");
    assert!(
        run(
            &machine,
            &plan_of(vec![change(KindId::Sriov, "name", vec![write(path, "(null)", "mlx5_core")])]),
            &Fuse::none()
        )
        .succeeded()
    );
    let (_, report) = revert(&machine, &Fuse::none(), false);
    assert!(report.succeeded(), "{report:?}");
    assert_eq!(machine.text(path), "(null)\n");
}

#[test]
fn missing_driver_rolls_everything_back() {
    let machine = machine();
    let before = foreign(machine.root());
    let report = run(&machine, &plan_of(vec![give("vfio-pci")]), &Fuse::none());
    let Outcome::Failed { why, restored, .. } = &report.changes[0].outcome else {
        panic!("{report:?}")
    };
    assert!(
        why.contains("run `modprobe vfio-pci`") && restored.left.is_empty(),
        "{why}: {restored:?}"
    );
    assert_eq!(foreign(machine.root()), before, "VFs gone, probing on again");
    assert!(ledger(&machine).attributes.is_empty());
}

#[test]
fn vf_bound_to_another_driver_is_not_changed() {
    let machine = machine();
    machine.put("/sys/bus/pci/drivers/vfio-pci/bind", "");
    let made = plan_of(vec![change(KindId::Sriov, "made", vec![write(NUMVFS, "0", "9")])]);
    assert!(run(&machine, &made, &Fuse::none()).succeeded());
    let vf = machine.at("/sys/bus/pci/devices/0000:18:00.0/virtfn4/driver");
    std::os::unix::fs::symlink("../../../bus/pci/drivers/mlx5_core", vf).unwrap();
    let before = foreign(machine.root());
    let bind = Action::BindVfs {
        pf: "0000:18:00.0".parse().unwrap(),
        count: 9,
        driver: "vfio-pci".into(),
        limit_s: 5,
    };
    let report =
        run(&machine, &plan_of(vec![change(KindId::Sriov, "bind", vec![bind])]), &Fuse::none());
    let Outcome::Failed { why, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert!(why.contains("is bound to mlx5_core"), "{why}");
    assert_eq!(foreign(machine.root()), before);
}

/// `state TOKEN` and `unstate TOKEN` keep tokens outside the files that bedplate records.
fn keep(token: &str, verified: bool) -> Change {
    let tool = Action::RunTool {
        argv: vec!["state".into(), token.into()],
        purpose: format!("keep {token}"),
        touches: Vec::new(),
        undo: ToolUndo::Run { argv: vec!["unstate".into(), token.into()] },
        limit_s: 5,
    };
    let present = if verified { Vec::new() } else { vec!["not=there".into()] };
    change(
        KindId::Cmdline,
        token,
        vec![tool, Action::Verify(Check::NextBoot { present, absent: Vec::new(), before: None })],
    )
}

#[test]
fn tools_without_files_are_undone_in_reverse_order() {
    let machine = machine();
    let fuse = Fuse::none();
    for token in ["a", "b"] {
        let mut once = keep(token, true);
        once.actions.truncate(1);
        assert!(run(&machine, &plan_of(vec![once]), &fuse).succeeded());
    }
    assert_eq!(machine.text("/state"), "a\nb\n");
    let report = run(&machine, &plan_of(vec![keep("c", false)]), &fuse);
    let Outcome::Failed { restored, .. } = &report.changes[0].outcome else { panic!("{report:?}") };
    assert_eq!((restored.back.as_slice(), restored.left.len()), (&["keep c".to_owned()][..], 0));
    assert_eq!(
        machine.text("/state"),
        "a\nb\n",
        "it ran, was not what it should be, and was taken back"
    );
    assert_eq!(ledger(&machine).undo.len(), 2);
    let (plan, report) = revert(&machine, &Fuse::none(), false);
    assert!(report.succeeded());
    let subjects: Vec<String> = plan.steps.iter().map(|step| step.subject()).collect();
    assert_eq!(subjects, ["unstate b", "unstate a"]);
    assert_eq!(machine.text("/state"), "");
    assert!(ledger(&machine).undo.is_empty());
}
