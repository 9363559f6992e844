//! Plans for CPUs, on a host of a few files. Plan texts are in tests/data/cases.

use super::*;
use crate::kind::plan_alone;
use crate::ledger::Ledger;
use crate::plan::Action;
use crate::profile::of_text;
use crate::setting::WriteAttribute;
use bedplate_base::Reading;
use bedplate_testhosts::fixture::{Files, facts};
use proptest::prelude::*;

const SYSTEM: &str = "/sys/devices/system/cpu";
/// States of the idle driver: name and exit latency in microseconds.
const STATES: [(&str, u64); 3] = [("POLL", 0), ("C1", 2), ("C6", 133)];

/// Returns a host of two CPUs with these governors, and with these idle states disabled, by CPU and state.
fn host(governors: [&str; 2], disabled: [[bool; 3]; 2]) -> Files {
    let mut files = Files::new(&[(governor::AVAILABLE, "performance powersave")]);
    let mut put = |path: String, text: String| files.files.insert(path, text);
    for cpu in 0..2 {
        put(governor::path(cpu as u32), governors[cpu].to_owned());
        for (n, (name, latency)) in STATES.iter().enumerate() {
            let directory = format!("{SYSTEM}/cpu{cpu}/cpuidle/state{n}");
            put(format!("{directory}/name"), (*name).to_owned());
            put(format!("{directory}/latency"), latency.to_string());
            put(format!("{directory}/disable"), u8::from(disabled[cpu][n]).to_string());
        }
    }
    files
}

fn plan_of(section: &str, reader: &Files) -> KindPlan {
    let profile = of_text(&format!("schema = 1\n[cpu]\n{section}\n"));
    let mut facts = facts(Reading::Absent);
    facts.cpu.online = Reading::Known("0-1".into());
    plan_alone(&KIND, (&profile, &Desired::default()), &facts, reader, &Ledger::default())
}

fn writes(section: &KindPlan) -> Vec<WriteAttribute> {
    let actions = section.changes.iter().flat_map(|change| &change.actions);
    let write = |action: &Action| match action {
        Action::WriteAttribute(write) => write.clone(),
        action => panic!("{action:?}"),
    };
    actions.map(write).collect()
}

const ENABLED: [[bool; 3]; 2] = [[false; 3]; 2];
const PERFORMANCE: &str = "governor = \"performance\"";

#[test]
fn only_policies_with_other_governor_are_written() {
    let section = plan_of(PERFORMANCE, &host(["performance", "powersave"], ENABLED));
    let found: Vec<_> = writes(&section).into_iter().map(|one| (one.path, one.after)).collect();
    assert_eq!(found, [(governor::path(1), "performance".to_owned())]);
    let right = plan_of(PERFORMANCE, &host(["performance"; 2], ENABLED));
    assert_eq!((right.changes.len(), right.unchanged.len()), (0, 1));
}

#[test]
fn governor_that_the_kernel_lacks_is_refused() {
    let section = plan_of("governor = \"schedutil\"", &host(["powersave"; 2], ENABLED));
    assert_eq!((section.changes.len(), section.blockers.len()), (0, 1), "{section:?}");
    let none = plan_of(PERFORMANCE, &Files::new(&[]));
    assert_eq!((none.changes.len(), none.blockers.len()), (0, 1), "{none:?}");
}

#[test]
fn only_states_above_the_latency_are_disabled() {
    for (max, disabled, expected) in [
        (10, ENABLED, ["cpu0/cpuidle/state2 1", "cpu1/cpuidle/state2 1"].as_slice()),
        (133, ENABLED, &[]),
        (1, [[false, true, true], [false; 3]], &["cpu1/cpuidle/state1 1", "cpu1/cpuidle/state2 1"]),
        (
            133,
            [[false, true, true], [false; 3]],
            &["cpu0/cpuidle/state1 0", "cpu0/cpuidle/state2 0"],
        ),
    ] {
        let section =
            plan_of(&format!("max_idle_latency_us = {max}"), &host(["powersave"; 2], disabled));
        let short = |one: WriteAttribute| {
            let path = one.path.strip_prefix(SYSTEM).unwrap().trim_start_matches('/');
            format!("{} {}", path.strip_suffix("/disable").unwrap(), one.after)
        };
        let found: Vec<String> = writes(&section).into_iter().map(short).collect();
        assert_eq!(found, expected, "{max} {disabled:?}");
    }
}

#[test]
fn state_that_its_driver_disables_stays_disabled() {
    let mut reader = host(["powersave"; 2], [[false, true, false], [false; 3]]);
    let path = format!("{SYSTEM}/cpu0/cpuidle/state1/default_status");
    reader.files.insert(path, "disabled".into());
    let section = plan_of("max_idle_latency_us = 200", &reader);
    assert_eq!(section.changes, []);
}

#[test]
fn unreadable_file_is_unknown_without_changes() {
    let keys = "governor = \"performance\"\nmax_idle_latency_us = 10";
    for path in [
        governor::path(1),
        governor::AVAILABLE.to_owned(),
        format!("{SYSTEM}/cpu1/cpuidle/state2/latency"),
        format!("{SYSTEM}/cpu1/cpuidle/state2/disable"),
        format!("{SYSTEM}/cpu1/cpuidle/state2/name"),
    ] {
        let mut reader = host(["powersave"; 2], ENABLED);
        reader.denied.insert(path.clone());
        let section = plan_of(keys, &reader);
        assert_eq!((section.unknowns.len(), section.changes.len()), (1, 1), "{path} {section:?}");
    }
}

#[test]
fn policy_of_offline_cpu_is_left_alone() {
    let mut reader = host(["powersave"; 2], ENABLED);
    reader.files.insert(governor::path(7), "powersave".into());
    reader.denied.insert(governor::path(7));
    let section = plan_of(PERFORMANCE, &reader);
    assert_eq!((section.unknowns.len(), writes(&section).len()), (0, 2), "{section:?}");
}

#[test]
fn vm_without_drivers_is_noted() {
    let profile = of_text(&format!("schema = 1\n[cpu]\n{PERFORMANCE}\nmax_idle_latency_us = 10\n"));
    let mut facts = facts(Reading::Absent);
    facts.cpu.is_guest = Reading::Known(true);
    let desired = (&profile, &Desired::default());
    let section = plan_alone(&KIND, desired, &facts, &Files::new(&[]), &Ledger::default());
    assert_eq!((section.notes.len(), section.blockers.len()), (2, 0), "{section:?}");
}

#[test]
fn image_gets_the_governor_as_kernel_argument() {
    let profile = of_text(&format!("schema = 1\n[cpu]\n{PERFORMANCE}\nmax_idle_latency_us = 10\n"));
    let mut out = ImageConfig::default();
    contribute(&profile, &facts(Reading::Absent), &Desired::default(), &mut out).unwrap();
    let tokens: Vec<&str> = out.arguments.iter().map(|arg| arg.token.as_str()).collect();
    assert_eq!(tokens, ["cpufreq.default_governor=performance"]);
    assert_eq!(out.live_only.len(), 1);
}

proptest! {
    /// A second plan is empty after the writes, and the inverse writes restore the host.
    #[test]
    fn plan_converges_and_its_inverse_restores(
        disabled in proptest::array::uniform2(proptest::array::uniform3(proptest::bool::ANY)),
        governors in proptest::array::uniform2(prop_oneof![Just("powersave"), Just("performance")]),
        max in 0_u32..200,
    ) {
        let mut reader = host(governors, disabled);
        let before = reader.files.clone();
        let keys = format!("{PERFORMANCE}\nmax_idle_latency_us = {max}");
        let writes = writes(&plan_of(&keys, &reader));
        for write in &writes {
            prop_assert_eq!(reader.files.get(&write.path), Some(&write.before));
            reader.files.insert(write.path.clone(), write.after.clone());
        }
        prop_assert_eq!(&plan_of(&keys, &reader).changes, &[]);
        for write in writes {
            reader.files.insert(write.path, write.before);
        }
        prop_assert_eq!(reader.files, before);
    }
}
