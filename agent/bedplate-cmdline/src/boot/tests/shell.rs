//! Compares the shell parser with the real shell: every value that the parser returns must match that of `sh`.

use std::process::Command;

use proptest::prelude::*;

use super::super::grub_default::{parse, parse_for};
use super::super::shell::Shell;

/// Value of `A` in `sh`; `None` if the script fails. PATH is empty, so that generated words never run a program.
fn shell(script: &str) -> Option<String> {
    run(&["/bin/sh"], script)
}

fn run(program: &[&str], script: &str) -> Option<String> {
    let script = format!("A=old\n{script}\nprintf '@%s.' \"$A\"\n");
    let output = Command::new(program[0])
        .args(&program[1..])
        .env_clear()
        .env("PATH", "/nonexistent")
        .arg("-c")
        .arg(script)
        .output()
        .expect("there is a shell");
    let text = String::from_utf8(output.stdout).expect("text");
    let value = text.rsplit_once("@")?.1.strip_suffix('.')?;
    output.status.success().then(|| value.to_owned())
}

/// Right-hand sides with every kind of quoting, but without commands that have effects.
fn right_side() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z0-9=;#. ]{0,3}",
        2 => "'[a-z\" $\\\\;#]{0,4}'",
        2 => "\"[a-z' ;#]{0,4}\"",
        4 => prop::sample::select(vec![
            "$A", "${A}", "\"$A b\"", "${A:-x}", "${GRUB_X:-y}", "${GRUB_X-}", "${A:+\"z w\"}", "\\$A", "\\\\", "\\ ",
            "\\\n", "\"a\\\"b\"", "\"\\$A\\z\"", "$(echo q)", "`echo r`", "$", "\"$\"", "'", "\"", "~", ":~", "&& A=c", "|| A=d", "$\\\n", "$((A=5))",
            "$(case x in x) A=c;; esac)", "$(true # )\n)", "& A=c", "| A=c", "2>&1 A=e",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => right_side().prop_map(|right| format!("A={right}")),
        1 => right_side().prop_map(|right| format!("B={right}")),
        1 => right_side().prop_map(|right| format!("export A={right}")),
        1 => right_side().prop_map(|right| format!("if true; then A={right}; fi")),
        1 => right_side().prop_map(|right| format!("false && A={right}")),
        4 => prop::sample::select(vec![
            "# A=comment", "", "(A=c)", "case $A in old) B=1;; (x) A=e;; esac", "f() { A=c; }", "for x in 1 2; do A=$x; done",
            "{ A=c; }", "f ( ) { g; }", "g() { : \"${A:=y}\"; }", "f() { for A in 1 2; do :; done; return; }", "f", "g", "'f'",
            "f() ( A=c )", "f A=d", "$B", "\"f\"", "true && f", "A=c f", "command export A=c", "\\export A=c", "export \"A=c\"",
            "A\\\n=c", "ex\\\nport A=c", "i\\\nf false; then A=c; fi", "eval f", "unset \"A\"", "alias true='A=c'", "true",
            "trap 'A=c' EXIT", "readonly B=1", "2>/dev/null A=c", "((A=5))", "case f in f) f;; esac", "set -- A=c", "\"$@\"",
            "! true", "A=c true", "unset A", ": ${A:=x}", "true | A=c", "echo >/dev/null A=c",
        ]).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn known_value_matches_shell(lines in prop::collection::vec(line(), 1..4)) {
        let script = lines.join("\n");
        if let Ok(value) = parse(&script).value("A", Some("old"))
            && let Some(shell) = shell(&script)
        {
            prop_assert_eq!(value.unwrap_or_default(), shell);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// bash is `sh` on Red Hat's distributions.
    #[test]
    fn known_value_matches_bash(
        lines in prop::collection::vec(
            prop_oneof![3 => line(), 2 => right_side().prop_map(|right| format!("A+={right}")), 1 => Just("export A+=\" x\"".to_owned())],
            1..4,
        )
    ) {
        let script = lines.join("\n");
        if let Ok(value) = parse_for(Shell::Bash, &script).value("A", Some("old"))
            && let Some(shell) = run(&["/bin/bash", "--posix"], &script)
        {
            prop_assert_eq!(value.unwrap_or_default(), shell);
        }
    }
}

#[test]
fn shell_helper_runs_real_shell() {
    assert_eq!(run(&["/bin/bash", "--posix"], "A+=' b'").as_deref(), Some("old b"));
    assert_eq!(shell("A=\"$A b\"").as_deref(), Some("old b"));
    assert_eq!(shell("A='b"), None);
}
