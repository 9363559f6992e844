//! Faults are shown at their place, with a fix.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

#[test]
fn all_errors_are_reported_at_once_with_suggestions() {
    assert_eq!(
        wrong(
            "schema = 1\npolicy = 3\n\n[acs]\npolciy = \"keep\"\npolicy = \"keepp\"\nroot_port = 1\n"
        ),
        "\
error[unknown-key]: unknown key `policy` in a profile
 --> /etc/bedplate/profile.toml:2:1
  |
2 | policy = 3
  | ^^^^^^ unknown
  |
  = help: `policy` is a key of `[acs]` or `[reboot]`

error[unknown-key]: unknown key `polciy` in `acs`
 --> /etc/bedplate/profile.toml:5:1
  |
5 | polciy = \"keep\"
  | ^^^^^^ unknown
  |
  = help: did you mean `policy`?

error[unknown-value]: invalid value `keepp` for `acs.policy`
 --> /etc/bedplate/profile.toml:6:10
  |
6 | policy = \"keepp\"
  |          ^^^^^^^ expected `direct-p2p`, `clear` or `keep`
  |
  = help: did you mean `keep`?

error[wrong-type]: `acs.root_port` must be true or false, not an integer
 --> /etc/bedplate/profile.toml:7:13
  |
7 | root_port = 1
  |             ^ expected true or false"
    );
}

#[test]
fn contradictions_show_both_places() {
    assert_eq!(
        wrong("schema = 1\n[cmdline]\nargs = [\"foo=1\"]\nabsent = [\"foo\"]\n"),
        "\
error[contradiction]: `foo=1` is required, but `foo` must be absent; keep one
 --> /etc/bedplate/profile.toml:4:11
  |
3 | args = [\"foo=1\"]
  |         ------- requested here
4 | absent = [\"foo\"]
  |           ^^^^^ conflicting entry"
    );
}

#[test]
fn argument_with_blank_suggests_two_arguments() {
    assert_eq!(
        wrong("schema = 1\n[cmdline]\nargs = [\"intel_iommu=on iommu=pt\"]\n"),
        "\
error[bad-argument]: `intel_iommu=on iommu=pt` is several kernel arguments; put double quotes around the value to keep its spaces
 --> /etc/bedplate/profile.toml:3:9
  |
3 | args = [\"intel_iommu=on iommu=pt\"]
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^ more than one
  |
  = help: list them separately: \"intel_iommu=on\", \"iommu=pt\""
    );
}

#[test]
fn hexadecimal_ids_must_be_quoted() {
    assert_eq!(
        wrong("schema = 1\n[[sriov.devices]]\nname = \"x\"\nselect = { device = 1021 }\nvfs = 8\n"),
        "\
error[wrong-type]: `sriov.devices.select.device` must be a string, not an integer
 --> /etc/bedplate/profile.toml:4:21
  |
4 | select = { device = 1021 }
  |                     ^^^^ expected a string
  |
  = help: put it in quotes: \"1021\""
    );
}

#[test]
fn unknown_word_lists_all_accepted_types() {
    for right in ["true", "false", "\"auto\""] {
        load_text(&format!("schema = 1\n[acs]\nguests = {right}\n")).expect(right);
    }
    assert_eq!(
        wrong("schema = 1\n[acs]\nguests = \"false\"\n"),
        "\
error[unknown-value]: invalid value `false` for `acs.guests`
 --> /etc/bedplate/profile.toml:3:10
  |
3 | guests = \"false\"
  |          ^^^^^^^ expected `auto`, or true or false
  |
  = help: write it without quotes: false"
    );
    assert_eq!(
        wrong("schema = 1\n[acs]\nguests = [1]\n"),
        "\
error[wrong-type]: `acs.guests` must be a string or true or false, not an array
 --> /etc/bedplate/profile.toml:3:10
  |
3 | guests = [1]
  |          ^^^ expected a string or true or false"
    );
}

#[test]
fn shipped_names_are_suggested() {
    assert_eq!(
        wrong("schema = 1\nextends = \"hgx-h10\"\n"),
        "\
error[unknown-profile]: unknown shipped profile `hgx-h10`
 --> /etc/bedplate/profile.toml:2:11
  |
2 | extends = \"hgx-h10\"
  |           ^^^^^^^^^ unknown
  |
  = help: did you mean `hgx-h100`?"
    );
}

#[test]
fn bad_window_names_the_faulty_part() {
    assert_eq!(
        wrong("schema = 1\n[reboot]\nwindows = [\"Sat 02:00-05:00\", \"Sat 02:00-05:00 CEST\"]\n"),
        "\
error[bad-window]: `Sat 02:00-05:00` is not a reboot window: missing time zone
 --> /etc/bedplate/profile.toml:3:12
  |
3 | windows = [\"Sat 02:00-05:00\", \"Sat 02:00-05:00 CEST\"]
  |            ^^^^^^^^^^^^^^^^^ end it with a time zone: `UTC`, `Europe/Amsterdam`
  |
  = help: write days, hours and a time zone: `Sat,Sun 02:00-05:00 Europe/Amsterdam`

error[bad-window]: `Sat 02:00-05:00 CEST` is not a reboot window: `CEST` is not a time zone
 --> /etc/bedplate/profile.toml:3:31
  |
3 | windows = [\"Sat 02:00-05:00\", \"Sat 02:00-05:00 CEST\"]
  |                               ^^^^^^^^^^^^^^^^^^^^^^ expected an IANA name: `UTC`, `Europe/Amsterdam`
  |
  = help: write days, hours and a time zone: `Sat,Sun 02:00-05:00 Europe/Amsterdam`"
    );
}

#[test]
fn duplicate_rules_show_the_first() {
    let rule = "[[sriov.devices]]\nname = \"x\"\nvfs = 1\n";
    assert_eq!(
        wrong(&format!("schema = 1\n{rule}{rule}")),
        "\
error[duplicate]: two rules in this file are called `x`
 --> /etc/bedplate/profile.toml:6:8
  |
3 | name = \"x\"
  |        --- first here
...
6 | name = \"x\"
  |        ^^^ again here
  |
  = help: give each rule its own name: a later file replaces rules by it"
    );
}

#[test]
fn unsupported_schema_and_non_profile_are_rejected() {
    assert_eq!(wrong_ids(""), ["empty-file"]);
    assert_eq!(wrong_ids(" \r\n\t\n"), ["empty-file"]);
    assert_eq!(wrong_ids("\u{feff}"), ["empty-file"]);
    assert_eq!(wrong_ids("schema = 1\n\0"), ["nul-byte"]);
    assert_eq!(wrong_ids("s\0c\0h\0e\0m\0a\0"), ["nul-byte"]);
    assert_eq!(wrong_ids("acs = 1\nx = 2"), ["missing-schema"]);
    assert_eq!(wrong_ids("schema = 2\nx = 2"), ["unsupported-schema"]);
    assert_eq!(wrong_ids("schema = \"1\"\nx = 2"), ["wrong-type"]);
    assert_eq!(wrong_ids("schema: 1\n")[0], "not-toml");
    assert_eq!(wrong_ids("schema = 1\n[acs\n"), ["not-toml"]);
    assert_eq!(wrong_ids("schema = 1\nschema = 1\n"), ["not-toml"]);
    assert_eq!(wrong_ids("schema = 99999999999999999999\n"), ["unsupported-schema"]);
}

#[test]
fn syntax_error_is_shown_at_its_place() {
    assert_eq!(
        wrong("schema = 1\n[acs]\npolicy = keep\n"),
        "\
error[not-toml]: not TOML: string values must be quoted, expected literal string
 --> /etc/bedplate/profile.toml:3:10
  |
3 | policy = keep
  |          ^^^^"
    );
}

#[test]
fn byte_order_marks_and_windows_line_ends_are_harmless() {
    let loaded = good("\u{feff}schema = 1\r\n[acs]\r\npolicy = \"clear\"\r\n");
    assert_eq!(loaded.profile.acs.policy, model::AcsPolicy::Clear);
    assert_eq!(loaded.origins["acs.policy"].line, 3);
    let errors = load_text("\u{feff}x = 1\r\nschema = 1\r\ny = 1\r\n").unwrap_err();
    assert_eq!(errors.0[0].line_column(), (1, 1));
    assert_eq!(errors.0[1].line_column(), (3, 1));
    assert!(!errors.render(false).contains('\r'), "{:?}", errors.render(false));
}

#[test]
fn columns_count_characters() {
    let errors =
        load_text("schema = 1\nname = \"é\"\nx.\"éé\".y = 1\n[acs]\npolicy = { \"ü\" = 1 }\n")
            .unwrap_err();
    assert_eq!(errors.0[1].line_column(), (5, 10));
}

#[test]
fn each_value_is_checked() {
    let cases = [
        ("[modules]\nload = [\"a b\"]", "bad-module-name"),
        ("[modules]\nload = [{ name = \"../x\" }]", "bad-module-name"),
        ("[modules.options.\"a/b\"]\nx = 1", "bad-module-name"),
        ("[modules.options.a]\n\"x y\" = 1", "bad-parameter"),
        ("[modules.options.a]\nx = \"1\\n2\"", "bad-parameter"),
        ("[modules]\nload = [\"nvidia-uvm\", \"nvidia_uvm\"]", "duplicate"),
        ("[modules]\nload = [\"a\"]\nblacklist = [\"a\"]", "contradiction"),
        ("[modules]\nload = [\"a\"]\nunload = [\"a\"]", "contradiction"),
        ("[modules]\nunload = [{ name = \"a\", load = \"now\" }]", "load-without-load"),
        ("[match]\npci = [{ id = \"10de\" }]", "bad-pci-id"),
        ("[match]\npci = [{ id = \"10de:xyz\" }]", "bad-pci-id"),
        ("[match]\npci = [{ id = \"10de:*\", at_least = 3, at_most = 2 }]", "empty-range"),
        ("[match]\nsys_vendor = \"[\"", "bad-pattern"),
        ("name = \" \"", "bad-name"),
        ("[cmdline]\nargs = [\"foo=1\", \"foo=2\"]", "contradiction"),
        ("[cmdline]\nargs = [\"hugepagesz=1G\"]\nabsent = [\"hugepages\"]", "contradiction"),
        ("[cmdline]\nargs = [\"pci=noats\"]\nabsent = [\"pci\"]", "contradiction"),
        ("[cmdline]\nargs = [\"pci=\"]", "bad-argument"),
        ("[cmdline]\nargs = [\"--\"]", "bad-argument"),
        ("[cmdline]\nargs = [\"a=\\\"b\"]", "bad-argument"),
        ("[cmdline]\nabsent = [\"a b\"]", "bad-argument"),
        ("[iommu]\nwhy = \"x\"", "lonely-reason"),
        ("[acs]\nsource = \"x\"", "lonely-reason"),
        ("[agent]\ninterval = \"soon\"", "bad-interval"),
        ("[agent]\ninterval = \"-10m\"", "bad-interval"),
        ("[agent]\ninterval = \"25h\"", "bad-interval"),
        ("[reboot]\ndelay = \"25h\"", "bad-interval"),
        ("[reboot]\ninhibitor_wait = \"169h\"", "bad-interval"),
        ("[reboot]\nmethods = []", "no-method"),
        ("[reboot]\ncommand = [\"reboot\"]", "bad-command"),
        ("[reboot]\nfleetlock = { url = \"lock:9090\" }", "bad-url"),
        ("[reboot]\nfleetlock = { url = \"http://\" }", "bad-url"),
        ("[reboot]\nfleetlock = { group = \"a/b\" }", "bad-group"),
        ("[[sriov.devices]]\nname = \"\"\nvfs = 1", "bad-name"),
        (
            "[[sriov.devices]]\nname = \"x\"\nvfs = 1\nselect = { vendor = \"mellanox\" }",
            "bad-pci-id",
        ),
        (
            "[[sriov.devices]]\nname = \"x\"\nvfs = 1\nselect = { address = \"17.0\" }",
            "bad-pci-address",
        ),
        ("[[sriov.devices]]\nname = \"x\"\nvfs = 1\nselect = { interface = \"[\" }", "bad-pattern"),
        ("[[sriov.devices]]\nname = \"x\"\nvfs = 1\nvf_driver = \"../vfio\"", "bad-driver"),
    ];
    for (text, id) in cases {
        assert_eq!(wrong_ids(&format!("schema = 1\n{text}\n")), [id], "{text}");
    }
    let long = format!("schema = 1\n[cmdline]\nargs = [\"a={}\"]\n", "x".repeat(2046));
    assert_eq!(wrong_ids(&long), ["argument-too-long"]);
    let longest = format!("schema = 1\n[cmdline]\nargs = [\"a={}\"]\n", "x".repeat(2045));
    assert_eq!(args(&good(&longest)).len(), 1);
}

#[test]
fn colour_is_optional() {
    let errors = load_text("schema = 1\nx = 1\n").unwrap_err();
    assert!(!errors.render(false).contains('\u{1b}'));
    assert!(errors.render(true).contains('\u{1b}'));
}

#[test]
fn findings_serialize_as_data() {
    let errors = load_text("schema = 1\n[acs]\npolcy = \"keep\"\n").unwrap_err();
    assert_eq!(
        serde_json::to_value(&errors).unwrap(),
        serde_json::json!([{
            "severity": "error", "id": "unknown-key", "message": "unknown key `polcy` in `acs`",
            "file": PATH, "line": 3, "column": 1, "label": "unknown", "help": ["did you mean `policy`?"],
        }])
    );
}

#[test]
fn every_toml_table_form_is_accepted() {
    let inline = good("schema = 1\nmatch = { pci = [{ id = \"10de:2330\", at_least = 8 }] }\n");
    let headed = good("schema = 1\n[[match.pci]]\nid = [\"10DE:0x2330\"]\nat_least = 0x8\n");
    let dotted = good("schema = 1\nmatch.pci = [{ id = '10de:2330', at_least = 8 }]\n");
    assert_eq!(inline.profile.matching, headed.profile.matching);
    assert_eq!(inline.profile.matching, dotted.profile.matching);
    assert_eq!(headed.origins["match.pci"].line, 2);
}

/// A shipped text with a part of it replaced.
fn damaged() -> impl Strategy<Value = String> {
    let texts: Vec<&str> = super::super::shipped().iter().map(|shipped| shipped.text).collect();
    (proptest::sample::select(texts), any::<(Index, Index)>(), "(?s).{0,6}").prop_map(
        |(text, (a, b), new)| {
            let mut chars: Vec<char> = text.chars().collect();
            let start = a.index(chars.len());
            let end = (start + b.index(12)).min(chars.len());
            chars.splice(start..end, new.chars());
            chars.into_iter().collect()
        },
    )
}

proptest! {
    #[test]
    fn no_text_breaks_loading_or_its_messages(text in prop_oneof![damaged(), "(?s).{0,80}", "schema = 1\n(?s).{0,80}"]) {
        match load_text(&text) {
            Ok(loaded) => {
                // A loaded profile is shown as text that loads again.
                let shown = show(&loaded, true);
                prop_assert!(load_text(&shown).is_ok(), "{}", shown);
            }
            Err(errors) => {
                prop_assert!(!errors.0.is_empty());
                prop_assert!(errors.0.iter().all(|e| e.severity == Severity::Error && !e.message.is_empty()));
                prop_assert!(errors.render(false).contains(PATH) || errors.render(false).contains("shipped:"));
            }
        }
    }
}

#[test]
fn sysctl_that_names_a_program_is_refused() {
    let set = |key: &str| format!("schema = 1\n[sysctl]\nset = {{ \"{key}\" = \"x\" }}\n");
    for key in [
        "kernel.core_pattern",
        "kernel/core_pattern",
        "kernel.modprobe",
        "kernel.poweroff_cmd",
        "kernel.usermodehelper.bset",
        "fs.binfmt_misc.register",
        "fs.ocfs2.nm.hb_ctl_path",
    ] {
        assert_eq!(wrong_ids(&set(key)), ["bad-sysctl"], "{key}");
    }
    for key in ["kernel.core_uses_pid", "kernel.core_pipe_limit", "kernel.modules_disabled"] {
        assert!(load_text(&set(key)).is_ok(), "{key}");
    }
}
