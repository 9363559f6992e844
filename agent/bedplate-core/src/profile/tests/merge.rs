//! Merging of files: the behavior of each section, and laws that hold for all.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use bedplate_cmdline::fold_name;

fn merged(earlier: &str, later: &str) -> LoadedProfile {
    let (earlier, later) = (format!("schema = 1\n{earlier}"), format!("schema = 1\n{later}"));
    good_files(&[("/etc/p.toml", &earlier), ("/etc/p.d/1.toml", &later)])
}

fn cmdline(args: &str, absent: &str) -> String {
    format!("[cmdline]\nargs = {args}\nabsent = {absent}\n")
}

#[test]
fn later_argument_replaces_earlier_in_place() {
    let loaded = merged(
        &cmdline(
            r#"["quiet", "foo=1", "pci=realloc,noats", "hugepagesz=1G", "hugepages=4"]"#,
            "[]",
        ),
        &cmdline(r#"["foo=2", "pci=realloc=off", "hugepagesz=2M", "hugepages=9", "new"]"#, "[]"),
    );
    assert_eq!(
        args(&loaded),
        ["quiet", "foo=2", "pci=realloc=off", "pci=noats", "hugepagesz=2M", "hugepages=9", "new"]
    );
}

#[test]
fn both_passthrough_spellings_are_one_parameter() {
    let loaded =
        merged(&cmdline(r#"["iommu=pt"]"#, "[]"), &cmdline(r#"["iommu.passthrough=0"]"#, "[]"));
    assert_eq!(args(&loaded), ["iommu.passthrough=0"]);
}

#[test]
fn equal_arguments_keep_their_own_reasons() {
    let args = r#"["hugepagesz=2M", { arg = "hugepages=8", why = "small" }, "hugepagesz=1G", { arg = "hugepages=8", why = "large" }]"#;
    let text = show(&merged("", &cmdline(args, "[]")), true);
    for (reason, line) in [("small", 3), ("large", 3)] {
        let shown = format!(
            "{{ arg = \"hugepages=8\", why = \"{reason}\" }},  # from /etc/p.d/1.toml:{line}"
        );
        assert!(text.contains(&shown), "{text}");
    }
}

#[test]
fn absent_and_args_undo_each_other() {
    let gone = merged(
        &cmdline(r#"["foo=1", "pci=noats,realloc"]"#, "[]"),
        &cmdline("[]", r#"["foo", "pci=noats"]"#),
    );
    assert_eq!((args(&gone), absent(&gone)), (vec!["pci=realloc"], vec!["foo", "pci=noats"]));
    let back = merged(
        &cmdline("[]", r#"["foo", "pci=noats"]"#),
        &cmdline(r#"["foo=1", "pci=noats"]"#, "[]"),
    );
    assert_eq!((args(&back), absent(&back)), (vec!["foo=1", "pci=noats"], vec![]));
    let cleared = merged(&cmdline(r#"["pci=noats,realloc"]"#, "[]"), &cmdline("[]", r#"["pci"]"#));
    assert_eq!((args(&cleared), absent(&cleared)), (vec![], vec!["pci"]));
}

#[test]
fn modules_move_between_the_lists() {
    let loaded = merged(
        "[modules]\nload = [\"a\", \"b\"]\nblacklist = [\"c\"]\nunload = [\"c\"]\n",
        "[modules]\nload = [\"c\"]\nblacklist = [\"a\"]\nload_default = \"boot\"\n",
    );
    let names = |list: &[crate::desired::WantedModule]| {
        list.iter().map(|m| m.name.to_string()).collect::<Vec<_>>()
    };
    let modules = &loaded.profile.modules;
    assert_eq!(names(&modules.load), ["b", "c"]);
    assert_eq!(names(&modules.blacklist), ["a"]);
    assert_eq!(names(&modules.unload), Vec::<String>::new());
    assert!(modules.load.iter().all(|module| module.load == model::ModuleLoad::Boot));
}

#[test]
fn options_merge_by_module_and_parameter() {
    let loaded = merged(
        "[modules.options.nvidia]\nNVreg_A = 1\nNVreg_B = true\n",
        "[modules.options]\nnvidia = { NVreg_B = false }\nmlx5-core = { x = \"y\" }\n",
    );
    let options: Vec<String> = loaded
        .profile
        .modules
        .options
        .iter()
        .map(|option| format!("{}.{}={}", option.module, option.parameter, option.value))
        .collect();
    assert_eq!(options, ["mlx5_core.x=y", "nvidia.NVreg_A=1", "nvidia.NVreg_B=0"]);
}

#[test]
fn rules_are_replaced_by_name_and_in_place() {
    let rule = |name: &str, vfs: &str| {
        format!(
            "[[sriov.devices]]\nname = \"{name}\"\nselect = {{ vendor = \"15b3\" }}\nvfs = {vfs}\n"
        )
    };
    let loaded = merged(
        &(rule("a", "1") + &rule("b", "2")),
        &(rule("c", "\"max\"") + &rule("a", "\"per-gpu\"")),
    );
    let rules: Vec<_> =
        loaded.profile.sriov.rules.iter().map(|rule| (rule.name.as_str(), rule.vfs)).collect();
    use model::SriovCount::{Max, Number, PerGpu};
    assert_eq!(rules, [("a", PerGpu), ("b", Number(2)), ("c", Max)]);
}

#[test]
fn windows_and_match_lists_are_replaced_whole() {
    let loaded = merged(
        "[match]\npci = [{ id = \"10de:2330\" }]\n[reboot]\nwindows = [\"Sat 01:00-02:00 UTC\"]\n",
        "[match]\npci = [{ id = [\"10de:*\"], at_least = 4 }]\n[reboot]\npolicy = \"schedule\"\nwindows = [\"Sun 01:00-02:00 UTC\"]\n",
    );
    assert_eq!(loaded.profile.reboot.windows, ["Sun 01:00-02:00 UTC"]);
    assert_eq!(loaded.profile.matching.pci.len(), 1);
    assert_eq!(loaded.profile.matching.pci[0].at_least, 4);
}

#[test]
fn reason_is_replaced_with_its_value() {
    let loaded = merged("[iommu]\nmode = \"off\"\nwhy = \"old\"\n", "[iommu]\nmode = \"keep\"\n");
    assert_eq!(loaded.profile.iommu.why[0].reason, "requested by the profile");
}

/// Entries that a file may contain for one kernel parameter: any of `args`, or any of `absent`.
struct Topic {
    args: &'static [&'static str],
    absent: &'static [&'static str],
}

const TOPICS: &[Topic] = &[
    Topic { args: &["foo=1", "foo=2"], absent: &["foo", "foo=1"] },
    Topic { args: &["quiet"], absent: &["quiet"] },
    Topic {
        args: &["iommu=pt", "iommu.passthrough=0"],
        absent: &["iommu=pt", "iommu.passthrough"],
    },
    Topic { args: &["iommu=off"], absent: &["iommu=off"] },
    Topic {
        args: &["pci=noats", "pci=noats,realloc", "pci=realloc=off"],
        absent: &["pci=noats", "pci=realloc", "pci"],
    },
    Topic { args: &["hugepagesz=1G", "hugepages=4"], absent: &["hugepages"] },
    Topic { args: &["console=tty0"], absent: &["console"] },
    Topic {
        args: &["modprobe.blacklist=a,b", "modprobe.blacklist=c"],
        absent: &["modprobe.blacklist=a"],
    },
];

/// An entry for `args` or for `absent`, or no entry.
fn entry(
    topic: &'static Topic,
) -> impl Strategy<Value = (Option<&'static str>, Option<&'static str>)> {
    prop_oneof![
        Just((None, None)),
        select(topic.args).prop_map(|arg| (Some(arg), None)),
        select(topic.absent).prop_map(|absent| (None, Some(absent))),
    ]
}

fn kernel_arguments() -> impl Strategy<Value = String> {
    let topics: Vec<_> = TOPICS.iter().map(entry).collect();
    topics.prop_shuffle().prop_map(|entries| {
        let args: Vec<&str> = entries.iter().filter_map(|(arg, _)| *arg).collect();
        let absent: Vec<&str> = entries.iter().filter_map(|(_, absent)| *absent).collect();
        format!("[cmdline]\nargs = {args:?}\nabsent = {absent:?}\n")
    })
}

/// Lists for four modules: any combination, but no module both loaded and excluded.
fn module_lists() -> impl Strategy<Value = String> {
    let modules = Just(vec!["a", "b", "c", "d"]).prop_shuffle();
    (modules, proptest::collection::vec(0..5u8, 4), 0..8u8).prop_map(|(names, states, number)| {
        let list = |wanted: &[u8]| -> Vec<&str> {
            names
                .iter()
                .zip(&states)
                .filter(|(_, state)| wanted.contains(state))
                .map(|(name, _)| *name)
                .collect()
        };
        let (load, blacklist, unload) = (list(&[1]), list(&[2, 3]), list(&[3, 4]));
        let mut text =
            format!("[modules]\nload = {load:?}\nblacklist = {blacklist:?}\nunload = {unload:?}\n");
        for name in &names[..usize::from(number % 3)] {
            text += &format!("options.{name}.p{} = {number}\n", number % 2);
        }
        for name in &names[..usize::from(number % 4)] {
            text += &format!("[[sriov.devices]]\nname = \"{name}\"\nvfs = {number}\n");
        }
        text
    })
}

/// A file with settings of several sections, free of contradictions.
fn file() -> impl Strategy<Value = String> {
    (kernel_arguments(), module_lists(), 1..20u8).prop_map(|(cmdline, modules, number)| {
        let mut text = format!("schema = 1\n{cmdline}{modules}");
        if number % 2 == 0 {
            text += &format!("[agent]\ninterval = \"{number}m\"\n");
        }
        if number % 3 == 0 {
            text += "[iommu]\nmode = \"off\"\nwhy = \"x\"\n[acs]\nroot_port = false\n";
        }
        text
    })
}

/// Files that are merged in this order.
fn files<const N: usize>() -> impl Strategy<Value = [String; N]> {
    proptest::collection::vec(file(), N).prop_map(|texts| {
        let right = |text: &String| load_files(&[text]).is_some();
        assert!(texts.iter().all(right), "each is right by itself: {texts:#?}");
        texts.try_into().unwrap()
    })
}

/// Merges these files; `None` if they contradict each other.
fn load_files(texts: &[&String]) -> Option<LoadedProfile> {
    let paths: Vec<String> = (0..texts.len()).map(|number| format!("{number}.toml")).collect();
    let file = |(path, text): (&'_ String, &&'_ String)| (path.clone(), (*text).clone());
    let files: Vec<(String, String)> = paths.iter().zip(texts).map(file).collect();
    let layers: Vec<LayerText<'_>> =
        files.iter().map(|(path, text)| LayerText { path, text }).collect();
    load(&layers, &[]).ok()
}

/// Text of the merged profile.
fn shown(texts: &[&String]) -> Option<String> {
    load_files(texts).map(|loaded| show(&loaded, false))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn file_laid_over_twice_counts_once([a, b] in files::<2>()) {
        prop_assert_eq!(shown(&[&a, &b, &b]), shown(&[&a, &b]));
    }

    #[test]
    fn empty_file_changes_nothing([a, b] in files::<2>()) {
        let empty = "schema = 1\n".to_owned();
        prop_assert_eq!(shown(&[&a, &empty, &b]), shown(&[&a, &b]));
        prop_assert_eq!(shown(&[&empty, &a]), shown(&[&a]));
    }

    #[test]
    fn later_file_has_the_last_word([a, b] in files::<2>()) {
        // Every token in the later file is in the result, and no token that it clears is.
        let (Some(later), Some(whole)) = (load_files(&[&b]), load_files(&[&a, &b])) else {
            return Ok(());
        };
        for token in args(&later) {
            prop_assert!(args(&whole).contains(&token), "{} is lost", token);
        }
        for token in absent(&later) {
            let is_back = |arg: &&str| match token.contains('=') {
                true => *arg == token,
                false => fold_name(arg.split('=').next().unwrap()) == fold_name(token),
            };
            prop_assert!(!args(&whole).iter().any(is_back), "{} is back", token);
        }
    }
}
