//! Plans for limits, on a host of a few files. Plan texts are in tests/data/cases.

use std::collections::BTreeMap;

use super::target::SESSIONS;
use super::*;
use crate::kind::plan_alone;
use crate::ledger::Ledger;
use crate::plan::Action;
use crate::profile::of_text;
use crate::setting::WriteAttribute;
use bedplate_base::Reading;
use bedplate_facts::limits::MOUNTS;
use bedplate_testhosts::fixture::{Files, facts};
use proptest::prelude::*;

const UNIT: &str = "/usr/lib/systemd/system/slurmd.service";
const DROP_IN: &str = "/etc/systemd/system/slurmd.service.d/zz-bedplate.conf";
const UNLIMITED: &str = "memlock = \"unlimited\"";
const GROUP: &str = "/sys/fs/cgroup/system.slice";

/// Returns a host with slurmd, pam_limits, and 64 GiB of memory.
fn host() -> Files {
    Files::new(&[
        (UNIT, "[Service]\nExecStart=/usr/sbin/slurmd\n"),
        ("/etc/security/limits.conf", ""),
        ("/run/systemd/system/x", ""),
        ("/proc/meminfo", "MemTotal:       67108864 kB\n"),
        ("/sys/devices/system/node/has_memory", "0-1"),
        ("/sys/devices/system/node/has_cpu", "0"),
        ("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       67108864 kB\n"),
        ("/sys/fs/cgroup/system.slice/cron.service/cgroup.procs", ""),
        ("/proc/1/comm", "systemd\n"),
        (MOUNTS, "tmpfs /dev/shm tmpfs rw,nosuid,nodev,inode64 0 0\n"),
    ])
}

fn plan_of(section: &str, reader: &Files) -> KindPlan {
    let profile = of_text(&format!("schema = 1\n[limits]\n{section}\n"));
    let desired = Desired::default();
    plan_alone(&KIND, (&profile, &desired), &facts(Reading::Absent), reader, &Ledger::default())
}

/// Adds a process of a service; `memlock` as in /proc/PID/limits.
fn run(files: &mut Files, service: &str, (id, program): (u32, &str), memlock: &str) {
    let mut put = |path: String, text: String| files.files.insert(path, text);
    put(format!("{GROUP}/{service}.service/cgroup.procs"), format!("{id}\n"));
    put(format!("/proc/{id}/comm"), program.to_owned());
    let limits =
        format!("Max stack size   8388608 unlimited bytes\nMax locked memory {memlock} 1 bytes\n");
    put(format!("/proc/{id}/limits"), limits);
    put(format!("/proc/{id}/status"), "Uid:\t0\t0\t0\t0\n".to_owned());
}

/// Applies the plan's changes to the files.
fn apply(section: &KindPlan, reader: &mut Files) {
    for action in section.changes.iter().flat_map(|change| &change.actions) {
        match action {
            Action::ReplaceFile { path, before, after } => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let before = before.as_ref().map(|content| text(&content.bytes));
                assert_eq!(reader.files.get(path), before.as_ref(), "{path}");
                match after {
                    Some(after) => reader.files.insert(path.clone(), text(&after.bytes)),
                    None => reader.files.remove(path),
                };
            }
            Action::WriteAttribute(WriteAttribute { path, before, after, .. }) => {
                assert_eq!((path.as_str(), shm_size_of(reader)), (SHM, before.clone()));
                set_shm(reader, after);
            }
            Action::RunTool { argv, .. } => assert_eq!(argv, reload::ARGV),
            action => panic!("{action:?}"),
        }
    }
}

fn shm_size_of(reader: &Files) -> String {
    bedplate_facts::limits::shm_size(reader).unwrap()
}

fn set_shm(reader: &mut Files, size: &str) {
    reader.files.insert(MOUNTS.into(), format!("tmpfs /dev/shm tmpfs rw,size={size} 0 0\n"));
}

fn paths(section: &KindPlan) -> Vec<&str> {
    let actions = section.changes.iter().flat_map(|change| &change.actions);
    let paths = actions.filter_map(|action| match action {
        Action::ReplaceFile { path, .. } => Some(path.as_str()),
        _ => None,
    });
    paths.collect()
}

#[test]
fn only_installed_services_get_drop_ins() {
    let mut reader = host();
    let section = plan_of(UNLIMITED, &reader);
    assert_eq!(paths(&section), [SESSIONS, DROP_IN]);
    let reloads = |section: &KindPlan| {
        let actions = section.changes.iter().flat_map(|change| &change.actions);
        actions.filter(|action| matches!(action, Action::RunTool { .. })).count()
    };
    assert_eq!(reloads(&section), 1);
    apply(&section, &mut reader);
    assert!(reader.files[DROP_IN].contains("\n[Service]\n"), "{}", reader.files[DROP_IN]);
    assert!(reader.files[DROP_IN].ends_with("\nLimitMEMLOCK=infinity\n"));
    assert!(reader.files[SESSIONS].ends_with("\n* - memlock unlimited\n"));
    // A masked unit, and a system without pam_limits.
    let mut reader = host();
    reader.files.insert("/etc/systemd/system/slurmd.service".into(), String::new());
    reader.files.remove("/etc/security/limits.conf");
    let section = plan_of(UNLIMITED, &reader);
    assert_eq!((paths(&section).len(), section.notes.len()), (0, 1), "{section:?}");
}

#[test]
fn apply_to_selects_targets_and_drops_others() {
    let mut reader = host();
    apply(&plan_of(UNLIMITED, &reader), &mut reader);
    let only = format!("{UNLIMITED}\napply_to = [\"sessions\"]");
    let section = plan_of(&only, &reader);
    assert_eq!(paths(&section), [DROP_IN]);
    apply(&section, &mut reader);
    assert!(!reader.files.contains_key(DROP_IN) && reader.files.contains_key(SESSIONS));
    assert_eq!(plan_of(&only, &reader).changes, []);
}

#[test]
fn file_that_sorts_later_is_noted() {
    let mut reader = host();
    let late = "/etc/systemd/system/slurmd.service.d/zzz.conf";
    reader.files.insert(late.into(), "[Service]\nLimitMEMLOCK=64K\n".into());
    reader.files.insert("/etc/security/limits.d/zzz.conf".into(), "* soft memlock 64\n".into());
    let section = plan_of(UNLIMITED, &reader);
    let found: Vec<&str> = section.overridden.iter().map(|one| one.setting.as_str()).collect();
    assert_eq!(found, ["slurmd LimitMEMLOCK", "sessions memlock"]);
    // The same value does not contradict.
    reader.files.insert(late.into(), "[Service]\nLimitMEMLOCK=infinity\n".into());
    assert_eq!(plan_of(UNLIMITED, &reader).overridden.len(), 1);
}

#[test]
fn processes_with_earlier_limits_are_noted_and_not_restarted() {
    let mut reader = host();
    run(&mut reader, "slurmd", (812, "slurmd"), "8388608");
    assert_eq!(plan_of(UNLIMITED, &reader).notes.len(), 1, "the change alone does not help");
    apply(&plan_of(UNLIMITED, &reader), &mut reader);
    let section = plan_of(UNLIMITED, &reader);
    let subjects: Vec<&str> = section.notes.iter().map(|note| note.subject.as_str()).collect();
    assert_eq!((subjects, section.changes.len()), (vec!["slurmd"], 0));
    assert!(section.notes[0].text.contains("locked memory 8M (1 process: slurmd)"), "{section:?}");
    run(&mut reader, "slurmd", (813, "slurmd"), "unlimited");
    assert_eq!(plan_of(UNLIMITED, &reader).notes, []);
    reader.denied.insert("/proc/813/limits".into());
    let notes = plan_of(UNLIMITED, &reader).notes;
    let subjects: Vec<&str> = notes.iter().map(|note| note.subject.as_str()).collect();
    assert_eq!(subjects, ["slurmd", "services"], "both are unknown");
}

#[test]
fn unit_without_drop_in_that_starts_jobs_is_noted() {
    let mut reader = host();
    run(&mut reader, "snap.docker.dockerd", (9, "dockerd"), "8388608");
    run(&mut reader, "k3s", (10, "containerd"), "8388608");
    run(&mut reader, "cron", (11, "cron"), "8388608");
    let keys = format!("{UNLIMITED}\napply_to = [\"slurmd\"]");
    apply(&plan_of(&keys, &reader), &mut reader);
    let notes = plan_of(&keys, &reader).notes;
    let subjects: Vec<&str> = notes.iter().map(|note| note.subject.as_str()).collect();
    assert_eq!(subjects, ["k3s.service", "snap.docker.dockerd.service"]);
    assert!(notes[0].text.contains("add `k3s` to `apply_to`"), "{notes:?}");
}

#[test]
fn systemd_is_not_reloaded_while_containers_may_run() {
    let has_reload = |reader: &Files| {
        let section = plan_of(UNLIMITED, reader);
        let mut actions = section.changes.iter().flat_map(|change| &change.actions);
        actions.any(|action| matches!(action, Action::RunTool { .. }))
    };
    let mut reader = host();
    run(&mut reader, "slurmd", (812, "slurmd"), "8388608");
    assert!(has_reload(&reader));
    run(&mut reader, "snap.docker.dockerd", (9, "dockerd"), "8388608");
    assert!(!has_reload(&reader));
    // Without control groups a runtime may run.
    let mut unseen = host();
    unseen.files.retain(|path, _| !path.starts_with("/sys/fs/cgroup"));
    assert!(!has_reload(&unseen));
}

#[test]
fn fewer_tasks_than_running_are_refused() {
    let mut reader = host();
    run(&mut reader, "slurmd", (812, "slurmd"), "8388608");
    reader.files.insert(format!("{GROUP}/slurmd.service/pids.current"), "3000".into());
    let section = plan_of("tasks_max = 2000", &reader);
    assert_eq!((section.changes.len(), section.blockers.len()), (0, 1), "{section:?}");
    assert_eq!(plan_of("tasks_max = 3000", &reader).blockers, []);
}

#[test]
fn other_lines_in_own_file_are_removed() {
    let mut reader = host();
    apply(&plan_of(UNLIMITED, &reader), &mut reader);
    for (path, line) in [(SESSIONS, "* hard memlock 64\n"), (DROP_IN, "[Unit]\nLimitMEMLOCK=1\n")] {
        reader.files.get_mut(path).unwrap().push_str(line);
        assert_eq!(paths(&plan_of(UNLIMITED, &reader)), [path]);
        apply(&plan_of(UNLIMITED, &reader), &mut reader);
        assert_eq!(plan_of(UNLIMITED, &reader).changes, []);
    }
}

#[test]
fn interrupted_reload_is_run_again() {
    let mut reader = host();
    apply(&plan_of(UNLIMITED, &reader), &mut reader);
    let mut ledger = Ledger::default();
    let argv: Vec<String> = reload::ARGV.iter().map(|&word| word.to_owned()).collect();
    ledger.owe(crate::ledger::PendingTool::new(NAME, &argv, "reload"));
    let profile = of_text(&format!("schema = 1\n[limits]\n{UNLIMITED}\n"));
    let desired = (&profile, &Desired::default());
    let section = plan_alone(&KIND, desired, &facts(Reading::Absent), &reader, &ledger);
    assert_eq!(section.changes.len(), 1, "{section:?}");
}

#[test]
fn shared_memory_is_limited_by_memory() {
    let mut reader = host();
    let after = |keys: &str, reader: &Files| {
        let section = plan_of(keys, reader);
        let actions = section.changes.into_iter().flat_map(|change| change.actions);
        let mut sizes = actions.map(|action| match action {
            Action::WriteAttribute(write) => write.after,
            action => panic!("{action:?}"),
        });
        (sizes.next(), section.blockers.len())
    };
    // The kernel's default is half of memory.
    assert_eq!(after("shm_size = \"50%\"", &reader), (None, 0));
    assert_eq!(after("shm_size = \"32G\"", &reader), (None, 0));
    assert_eq!(after("shm_size = \"48G\"", &reader), (Some("50331648k".into()), 0));
    assert_eq!(after("shm_size = \"60G\"", &reader), (None, 1));
    assert_eq!(after("shm_size = \"1%\"", &reader), (None, 1));
    assert_eq!(after("shm_size = \"50331649K\"", &reader), (Some("50331648k".into()), 0));
    set_shm(&mut reader, "0k");
    assert_eq!(after("shm_size = \"48G\"", &reader), (None, 1), "no limit can be set");
    reader.files.insert(MOUNTS.into(), "none /dev/shm ramfs rw 0 0\n".into());
    assert_eq!(plan_of("shm_size = \"48G\"", &reader).unknowns.len(), 1);
    reader.files.insert(MOUNTS.into(), String::new());
    assert_eq!(after("shm_size = \"48G\"", &reader), (None, 1));
}

#[test]
fn image_gets_the_files_of_all_targets() {
    let profile = of_text(&format!("schema = 1\n[limits]\n{UNLIMITED}\nshm_size = \"75%\"\n"));
    let mut out = ImageConfig::default();
    contribute(&profile, &facts(Reading::Absent), &Desired::default(), &mut out).unwrap();
    let paths: Vec<&str> = out.files.iter().map(|file| file.path).collect();
    assert_eq!(paths, target::FILES);
    assert_eq!(out.live_only.len(), 1);
}

fn limit() -> impl Strategy<Value = Option<&'static str>> {
    proptest::option::of(prop_oneof![Just("unlimited"), Just("64G"), Just("16M")])
}

proptest! {
    /// A second plan is empty after the changes, and without the section the host is as before.
    #[test]
    fn plan_converges_and_removal_restores(
        memlock in limit(),
        stack in limit(),
        tasks in proptest::option::of(1000_u32..9000),
        services in proptest::sample::subsequence(&LimitTarget::ALL[..9], 0..9),
        apply_to in proptest::sample::subsequence(&LimitTarget::ALL[..], 0..10),
        shm in proptest::option::of(2_u8..=90),
    ) {
        let mut reader = host();
        for service in services {
            let path = format!("/usr/lib/systemd/system/{service}.service");
            reader.files.insert(path, "[Service]\n".into());
        }
        let before = reader.files.clone();
        let mut keys = String::new();
        for (name, value) in [("memlock", memlock), ("stack", stack)] {
            keys += &value.map(|value| format!("{name} = \"{value}\"\n")).unwrap_or_default();
        }
        keys += &tasks.map(|tasks| format!("tasks_max = {tasks}\n")).unwrap_or_default();
        keys += &shm.map(|share| format!("shm_size = \"{share}%\"\n")).unwrap_or_default();
        let names: Vec<&str> = apply_to.iter().map(|target| target.name()).collect();
        keys += &format!("apply_to = {names:?}\n");
        let size = shm_size_of(&reader);
        apply(&plan_of(&keys, &reader), &mut reader);
        let second = plan_of(&keys, &reader);
        prop_assert_eq!(&second.changes, &[]);
        prop_assert_eq!(&second.blockers, &[]);
        apply(&plan_of("", &reader), &mut reader);
        set_shm(&mut reader, &size);
        let files = |files: &BTreeMap<String, String>| {
            let mut files = files.clone();
            files.remove(MOUNTS);
            files
        };
        prop_assert_eq!(files(&reader.files), files(&before));
        prop_assert_eq!(shm_size_of(&reader), size);
    }
}
