//! Properties over generated lines.

use proptest::prelude::*;

use super::super::{ApplyError, CommandLine, KernelDefaults, Status, Token};
use super::kernel::{parse_args, passthrough, pci_state, same_name};
use super::{edit_of, tokens};

/// Text with every character that the lexer treats specially.
fn any_line() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just(" ".to_owned()),
        1 => "[ \t\n]{1,3}",
        2 => Just("\"".to_owned()),
        2 => Just("=".to_owned()),
        1 => Just("--".to_owned()),
        4 => "[a-z_.,;:'\\\\-]{1,4}",
        1 => "é|ß|日",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Arguments that both profiles and operators set.
fn argument() -> impl Strategy<Value = String> {
    let lists =
        prop_oneof![Just("intel_iommu"), Just("intel-iommu"), Just("iommu"), Just("amd_iommu"),];
    let options = prop::sample::subsequence(
        vec!["on", "off", "sm_on", "pt", "nopt", "soft", "igfx_off", "usedac", "", "junk"],
        1..4,
    );
    let pci = prop::sample::subsequence(
        vec![
            "realloc",
            "realloc=off",
            "realloc=on",
            "noaer",
            "noats",
            "nocrs",
            "config_acs=xx@1;yy@2",
            "config_acs=zz@3",
            "pcie_bus_safe",
            "pcie_bus_perf",
            "disable_acs_redir=0:1.0",
            "",
            "strange",
        ],
        1..5,
    );
    prop_oneof![
        3 => (lists, options.prop_shuffle()).prop_map(|(name, options)| format!("{name}={}", options.join(","))),
        3 => pci.prop_shuffle().prop_map(|options| format!("pci={}", options.join(","))),
        1 => prop::sample::select(vec![
            "iommu.passthrough=1", "iommu.passthrough=0", "iommu.passthrough=off", "iommu.passthrough",
        ]).prop_map(str::to_owned),
        1 => prop::sample::select(vec![
            "hugepages=4", "hugepagesz=2M", "hugepagesz=1G", "default_hugepagesz=1G", "console=tty0",
        ]).prop_map(str::to_owned),
        1 => prop::sample::select(vec![
            "modprobe.blacklist=nouveau", "modprobe.blacklist=a,nouveau,b-c", "module_blacklist=x,y",
        ]).prop_map(str::to_owned),
        2 => prop::sample::select(vec![
            "ro", "quiet", "root=UUID=7-8", "\"dyndbg=file a +p\"", "dyndbg=\"file b +p\"", "foo_iommu=pt",
            "nosmt", "nosmt=force", "vfio-pci.ids=1:2", "vfio_pci.ids=3:4", "isolcpus=1-3", "a=\"\"",
        ]).prop_map(str::to_owned),
    ]
}

fn line_of_arguments() -> impl Strategy<Value = String> {
    let gap = prop_oneof![4 => Just(" "), 1 => Just("  "), 1 => Just("\t")];
    let tail =
        prop_oneof![3 => Just(""), 1 => Just("\n"), 1 => Just(" -- iommu=off pci=realloc \"x")];
    (prop::collection::vec((gap, argument()), 0..8), tail).prop_map(|(all, tail)| {
        all.into_iter().map(|(gap, a)| format!("{gap}{a}")).collect::<String>() + tail
    })
}

fn wishes() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    let absent = prop_oneof![
        argument(),
        prop::sample::select(vec![
            "pci=realloc",
            "pci=config_acs",
            "pci",
            "nosmt",
            "quiet",
            "iommu"
        ])
        .prop_map(str::to_owned),
    ];
    (prop::collection::vec(argument(), 0..4), prop::collection::vec(absent, 0..2))
}

/// Arguments like those of profiles, including whole sequences.
fn owned_wishes() -> impl Strategy<Value = Vec<String>> {
    let sequence = prop::sample::subsequence(
        vec![
            "default_hugepagesz=1G",
            "hugepagesz=1G",
            "hugepages=16",
            "hugepagesz=2M",
            "hugepages=512",
            "console=tty0",
            "console=ttyS0,115200",
            "earlycon",
        ],
        0..7,
    );
    (sequence.prop_shuffle(), prop::collection::vec(argument(), 0..3))
        .prop_map(|(sequence, more)| sequence.into_iter().map(str::to_owned).chain(more).collect())
}

fn names(tokens: &[String]) -> Vec<Vec<u8>> {
    tokens.iter().flat_map(|token| parse_args(token).0).map(|(name, _)| name).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn parsing_matches_kernel(text in any_line()) {
        let line = CommandLine::parse(&text);
        prop_assert_eq!(line.to_string(), text.clone());
        let ours: Vec<_> = line
            .tokens()
            .map(|t| (t.name().as_bytes().to_vec(), t.value().map(|v| v.as_bytes().to_vec())))
            .collect();
        let (kernel, init) = parse_args(&text);
        prop_assert_eq!(ours, kernel);
        let trim = |text: &str| text.trim().to_owned();
        prop_assert_eq!(line.init_arguments().map(trim), init.as_deref().map(trim));
    }

    #[test]
    fn name_folding_matches_kernel(a in "[a-c_.-]{1,5}", b in "[a-c_.-]{1,5}") {
        let token = |name: &str| Token::new(&format!("{name}=x")).expect("one argument");
        let kernel = same_name(a.as_bytes(), b.as_bytes());
        prop_assert_eq!(token(&a).same_for_kernel(&token(&b)), kernel);
    }

    #[test]
    fn quoted_value_reaches_kernel_unchanged(name in "[a-z]{1,3}", value in "[a-c \"=,'\\\\]{0,8}") {
        if let Ok(token) = Token::from_parts(&name, Some(&value)) {
            let (args, init) = parse_args(&format!("x {token} y"));
            prop_assert_eq!(init, None);
            prop_assert_eq!(args.len(), 3);
            prop_assert_eq!(&args[1], &(name.into_bytes(), Some(value.into_bytes())));
        } else {
            prop_assert!(value.contains('"'), "only a double quote can be in the way");
        }
    }

    #[test]
    fn second_edit_changes_nothing(text in line_of_arguments(), (set, absent) in wishes()) {
        let Ok(edit) = edit_of(&set, &absent) else { return Ok(()) };
        let once = edit.apply(&CommandLine::parse(&text)).expect("no quotes inside lists here");
        prop_assert_eq!(edit.apply(&once), Ok(once.clone()));
        prop_assert_eq!(CommandLine::parse(&once.to_string()), once.clone());
        for finding in edit.satisfied_by(&once, &KernelDefaults::default()) {
            prop_assert!(finding.status.is_satisfied(), "{:?} on {}", finding, once);
        }
    }

    #[test]
    fn satisfied_line_stays_unchanged(text in line_of_arguments(), (set, absent) in wishes()) {
        let Ok(edit) = edit_of(&set, &absent) else { return Ok(()) };
        let line = CommandLine::parse(&text);
        let settled = |status: &Status| matches!(status, Status::Present | Status::Gone);
        let one_pci = line.named("pci").filter(|token| token.value().is_some()).count() < 2;
        if one_pci && edit.satisfied_by(&line, &KernelDefaults::default()).iter().all(|f| settled(&f.status)) {
            prop_assert_eq!(edit.apply(&line).expect("editable").to_string(), text);
        }
    }

    #[test]
    fn unmanaged_arguments_stay_unchanged(text in line_of_arguments(), (set, absent) in wishes()) {
        let Ok(edit) = edit_of(&set, &absent) else { return Ok(()) };
        let mut mine = names(&set);
        mine.extend(names(&absent));
        if mine.iter().any(|name| name.starts_with(b"iommu") || name.starts_with(b"huge")) {
            mine.extend([&b"iommu"[..], b"iommu.passthrough", b"hugepages", b"hugepagesz"].map(<[u8]>::to_vec));
        }
        let foreign = |line: &CommandLine| -> Vec<String> {
            let owned = |token: &&Token| !mine.iter().any(|name| same_name(token.name().as_bytes(), name));
            line.tokens().filter(owned).map(|token| token.as_str().to_owned()).collect()
        };
        let old = CommandLine::parse(&text);
        let new = edit.apply(&old).expect("editable");
        prop_assert_eq!(foreign(&old), foreign(&new));
        prop_assert_eq!(old.init_arguments(), new.init_arguments());
        prop_assert_eq!(parse_args(&new.to_string()).1, parse_args(&text).1);
    }

    #[test]
    fn merging_pci_changes_only_owned_options(text in line_of_arguments()) {
        let edit = edit_of(&["pci=noari".to_owned()], &[]).expect("one wish");
        let new = edit.apply(&CommandLine::parse(&text)).expect("editable").to_string();
        let mut expected = pci_state(&text);
        expected.flags.push("noari".to_owned());
        expected.flags.sort();
        expected.flags.dedup();
        prop_assert_eq!(pci_state(&new), expected);
        let valued = parse_args(&new).0.into_iter().filter(|(name, value)| name == b"pci" && value.is_some());
        prop_assert_eq!(valued.count(), 1);
    }

    #[test]
    fn edit_sets_passthrough_as_seen_by_kernel(text in line_of_arguments(), on: bool, long: bool) {
        let wish = match (on, long) {
            (true, false) => "iommu=pt",
            (false, false) => "iommu=nopt",
            (true, true) => "iommu.passthrough=1",
            (false, true) => "iommu.passthrough=0",
        };
        let edit = edit_of(&[wish.to_owned()], &[]).expect("one wish");
        let line = CommandLine::parse(&text);
        let new = edit.apply(&line).expect("editable");
        prop_assert_eq!(passthrough(&new.to_string()), Some(on));
        let finding = edit.satisfied_by(&line, &KernelDefaults::default()).remove(0);
        prop_assert_eq!(finding.status.is_satisfied(), passthrough(&text) == Some(on));
    }

    /// The arguments of one profile never block those of the next one, or its own.
    #[test]
    fn owned_arguments_are_kept_or_removed(text in line_of_arguments(), first in owned_wishes(), second in owned_wishes()) {
        let Ok(edit) = edit_of(&first, &[]) else { return Ok(()) };
        let once = edit.apply(&CommandLine::parse(&text)).expect("editable");
        prop_assert_eq!(edit.disowned(&tokens(&first)), [""; 0]);
        let Ok(next) = edit_of(&second, &[]) else { return Ok(()) };
        let gone = next.disowned(&tokens(&first));
        let next = next.without(gone).expect("nothing that is wanted is taken back");
        let twice = next.apply(&once).expect("editable");
        prop_assert_eq!(next.apply(&twice), Ok(twice.clone()));
        for finding in next.satisfied_by(&twice, &KernelDefaults::default()) {
            prop_assert!(finding.status.is_satisfied(), "{:?} on {}", finding, twice);
        }
        let fresh = edit.rendered().expect("short");
        let names = names(&second);
        for token in next.apply(&fresh).expect("editable").tokens() {
            let name = token.name().as_bytes().to_vec();
            let related = |other: &Vec<u8>| same_name(other, &name) || other.starts_with(b"iommu") || token.name().contains("huge");
            prop_assert!(names.iter().any(related), "{} is nobody's", token);
        }
    }

    #[test]
    fn any_text_is_edited_or_rejected(text in any_line(), (set, absent) in wishes()) {
        let Ok(edit) = edit_of(&set, &absent) else { return Ok(()) };
        match edit.apply(&CommandLine::parse(&text)) {
            Ok(new) => prop_assert_eq!(edit.apply(&new), Ok(new)),
            Err(ApplyError::Line(_) | ApplyError::Unwritable { .. }) => {}
        }
    }
}
