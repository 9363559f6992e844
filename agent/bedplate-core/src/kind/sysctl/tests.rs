//! Plans for kernel parameters, on a host of a few files.

use super::*;
use crate::kind::plan_alone;
use crate::ledger::Ledger;
use crate::plan::Action;
use crate::profile::of_text;
use crate::setting::WriteAttribute;
use bedplate_base::Reading;
use bedplate_testhosts::fixture::{Files, facts};

const NUMA: &str = "/proc/sys/kernel/numa_balancing";

fn plan_of(set: &str, host: HostKind, reader: &Files) -> KindPlan {
    plan_after(set, host, reader, &Ledger::default())
}

fn plan_after(set: &str, host: HostKind, reader: &Files, ledger: &Ledger) -> KindPlan {
    let profile = of_text(&format!("schema = 1\n[sysctl]\nset = {set}\n"));
    let mut facts = facts(Reading::Absent);
    facts.host = host;
    plan_alone(&KIND, (&profile, &Desired::default()), &facts, reader, ledger)
}

fn settings(text: &str) -> Files {
    Files::new(&[(conf::PATH, text), (NUMA, "0")])
}

#[test]
fn unreadable_file_is_unknown_without_changes() {
    let set = r#"{ "kernel.numa_balancing" = 0 }"#;
    for path in [NUMA, conf::PATH, "/etc/sysctl.conf"] {
        let mut reader = settings("kernel.numa_balancing = 0\n");
        reader.denied.insert(path.to_owned());
        let section = plan_of(set, HostKind::Live, &reader);
        assert_eq!(section.unknowns.len(), 1, "{path}: {section:?}");
        assert_eq!((section.changes.len(), section.blockers.len()), (0, 0), "{path}");
    }
}

#[test]
fn list_uses_tabs_only_if_kernel_shows_tabs() {
    let set = r#"{ "net.ipv4.tcp_rmem" = "1 2  3", "kernel.printk_devkmsg" = "a b" }"#;
    let reader = Files::new(&[
        ("/proc/sys/net/ipv4/tcp_rmem", "4\t5\t6"),
        ("/proc/sys/kernel/printk_devkmsg", "on"),
    ]);
    let section = plan_of(set, HostKind::Live, &reader);
    let actions = section.changes.iter().flat_map(|change| &change.actions);
    let written: Vec<&str> = actions
        .filter_map(|action| match action {
            Action::WriteAttribute(WriteAttribute { after, .. }) => Some(after.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(written, ["a b", "1\t2\t3"]);
}

#[test]
fn image_plan_writes_file_without_reading_proc() {
    let reader = Files::default();
    let set = r#"{ "kernel.numa_balancing" = 0 }"#;
    let section = plan_of(set, HostKind::Image, &reader);
    assert_eq!(section.blockers, []);
    let ids: Vec<&str> = section.changes.iter().map(|change| change.id.as_str()).collect();
    assert_eq!(ids, ["sysctl/etc/sysctl.d/zz-bedplate.conf"]);
    assert!(reader.asked.borrow().iter().all(|path| !path.starts_with("/proc")));
    let dropped = plan_of("{}", HostKind::Image, &settings("kernel.numa_balancing = 0\n"));
    assert_eq!(dropped.changes.len(), 1);
    assert_eq!(dropped.notes, [], "nothing runs there");
}

#[test]
fn empty_section_plans_nothing() {
    let section = plan_of("{}", HostKind::Live, &Files::default());
    assert_eq!(section, KindPlan::default());
}

#[test]
fn removed_key_is_noted_until_next_boot() {
    let path = bedplate_host::boot_id::PATH;
    let mut ledger = Ledger::default();
    let off =
        WriteAttribute { path: NUMA.into(), before: "1".into(), after: "0".into(), limit_s: 60 };
    ledger.begin_setting(&off, NAME, "this boot", &off.before);
    ledger.settle_setting(&off, &off.after);
    let after = |boot: &str, now: &str, set: &str| {
        let reader = Files::new(&[(path, boot), (NUMA, now)]);
        let section = plan_after(set, HostKind::Live, &reader, &ledger);
        section.notes.into_iter().map(|note| format!("{}: {}", note.subject, note.text))
    };
    let said: Vec<String> = after("this boot", "0", "{}").collect();
    let text = "kernel.numa_balancing: the running value stays until the next boot; \
                the profile no longer sets it (previously 1)";
    assert_eq!(said, [text]);
    assert_eq!(after("the next", "0", "{}").count(), 0, "the boot took it away");
    assert_eq!(after("this boot", "1", "{}").count(), 0, "others have set it since");
    assert_eq!(after("this boot", "0", "{ \"kernel.numa_balancing\" = 0 }").count(), 0);
}

#[test]
fn running_values_of_profile_are_watched() {
    let profile = of_text("schema = 1\n[sysctl]\nset = { \"kernel/numa_balancing\" = 0 }\n");
    let watch = (KIND.watch)(&profile, &facts(Reading::Absent));
    assert_eq!(watch.directories, ["/etc/sysctl.d"]);
    assert_eq!(watch.attributes, [NUMA]);
}
