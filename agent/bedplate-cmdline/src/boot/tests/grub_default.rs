//! `/etc/default/grub` and drop-ins.

use proptest::prelude::*;

use super::super::grub_default::{
    CMDLINE, CMDLINE_DEFAULT, DropInError, evaluate, parse, parse_drop_in, parse_for, parse_main,
    write_drop_in,
};
use super::super::grub_quote::kernel_line;
use super::super::shell::Shell;
use crate::Token;

const DEBIAN: &str = "# If you change this file, run 'update-grub' afterwards to update
# /boot/grub/grub.cfg.

GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`
GRUB_CMDLINE_LINUX_DEFAULT=\"quiet splash\" # keep it quiet
GRUB_CMDLINE_LINUX=\"\"
#GRUB_CMDLINE_LINUX_DEFAULT=\"debug\"
#GRUB_TERMINAL=console
";

const CLOUD: &str = "# Cloud Image specific Grub settings for Generic Cloud Images
# Set the recordfail timeout
GRUB_RECORDFAIL_TIMEOUT=0

# Do not wait on grub prompt
GRUB_TIMEOUT=0

# Set the default commandline
GRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1 console=ttyS0\"

# Set the grub console type
GRUB_TERMINAL=console
";

const KDUMP: &str =
    "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT crashkernel=512M-:192M\"\n";

const EL9: &str = "GRUB_TIMEOUT=5
GRUB_DISTRIBUTOR=\"$(sed 's, release .*$,,g' /etc/system-release)\"
GRUB_DEFAULT=saved
GRUB_DISABLE_SUBMENU=true
GRUB_TERMINAL_OUTPUT=\"console\"
GRUB_CMDLINE_LINUX=\"crashkernel=1G-4G:192M rd.lvm.lv=rl/root\"
GRUB_DISABLE_RECOVERY=\"true\"
GRUB_ENABLE_BLSCFG=true
GRUB_CMDLINE_LINUX_DEFAULT=\"${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }\\$tuned_params\"
";

/// Azure Linux's layout.
const AZURE: &str = "GRUB_TIMEOUT=0
GRUB_CMDLINE_LINUX=\"rd.auto=1 lockdown=integrity\"
GRUB_CMDLINE_LINUX_DEFAULT=\"console=ttyS0 $kernelopts\"

# Drop-ins.
for x in /etc/default/grub.d/*.cfg ; do
    if [ -e \"${x}\" ]; then
        . \"${x}\"
    fi
done
";

fn value(text: &str, name: &str) -> Option<String> {
    parse(text).value(name, None).expect("understood")
}

fn why(text: &str) -> (usize, usize, String) {
    let found = parse(text).value("A", Some("old")).expect_err("not understood");
    assert!(found.why.contains("drop-in"), "says what to do: {}", found.why);
    (found.line, found.column, found.why)
}

#[test]
fn distribution_files_are_read() {
    assert_eq!(value(DEBIAN, CMDLINE_DEFAULT).as_deref(), Some("quiet splash"));
    assert_eq!(value(DEBIAN, CMDLINE).as_deref(), Some(""));
    assert_eq!(value(DEBIAN, "GRUB_DEFAULT").as_deref(), Some("0"));
    assert_eq!(value(DEBIAN, "GRUB_TERMINAL"), None);
    assert_eq!(parse(DEBIAN).value("GRUB_DISTRIBUTOR", None).expect_err("a command").line, 6);
    assert_eq!(value(EL9, CMDLINE).as_deref(), Some("crashkernel=1G-4G:192M rd.lvm.lv=rl/root"));
    assert_eq!(value(EL9, "GRUB_ENABLE_BLSCFG").as_deref(), Some("true"));
    assert_eq!(value(EL9, CMDLINE_DEFAULT).as_deref(), Some("$tuned_params"));
    assert_eq!(
        parse(EL9).value(CMDLINE_DEFAULT, Some("x")),
        Ok(Some("x $tuned_params".to_owned()))
    );
}

#[test]
fn drop_ins_apply_after_main_file() {
    let (main, cloud, kdump) = (parse(DEBIAN), parse(CLOUD), parse(KDUMP));
    let ours = write_drop_in(CMDLINE_DEFAULT, &[Token::new("iommu=pt").expect("argument")], "note")
        .expect("carried");
    let ours = parse(&ours);
    let all = [&main, &cloud, &kdump, &ours];
    let value = |files: &[&_], name: &str| evaluate(files, name).expect("understood");
    assert_eq!(value(&all[..1], CMDLINE_DEFAULT).as_deref(), Some("quiet splash"));
    assert_eq!(
        value(&all, CMDLINE_DEFAULT).as_deref(),
        Some("console=tty1 console=ttyS0 crashkernel=512M-:192M iommu=pt")
    );
    assert_eq!(value(&all, "GRUB_TIMEOUT").as_deref(), Some("0"));
    let broken = parse("GRUB_CMDLINE_LINUX_DEFAULT=$(cat /proc/cmdline)\n");
    let found = evaluate(&[&main, &broken, &kdump], CMDLINE_DEFAULT).expect_err("a command");
    assert_eq!((found.file, found.source.line), (1, 1));
    assert_eq!(
        value(&[&main, &broken, &cloud], CMDLINE_DEFAULT).as_deref(),
        Some("console=tty1 console=ttyS0")
    );
}

#[test]
fn final_loop_over_drop_ins_is_followed() {
    let main = parse_main(Shell::Bash, AZURE);
    assert!(main.sources_drop_ins());
    let kdump = parse("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX crashkernel=256M\"\n");
    let value = |name: &str| evaluate(&[&main, &kdump], name).expect("understood");
    assert_eq!(value(CMDLINE).as_deref(), Some("rd.auto=1 lockdown=integrity crashkernel=256M"));
    assert_eq!(value(CMDLINE_DEFAULT).as_deref(), Some("console=ttyS0 "));
    let edited = main.edited("GRUB_DEFAULT", "0", None).expect("plain");
    assert!(edited.contains("# Drop-ins.\nGRUB_DEFAULT=\"0\"\nfor x in"), "{edited}");
    assert!(main.with_text(&edited).sources_drop_ins());
    // Debian's grub-mkconfig would source them a second time.
    assert!(parse(AZURE).value(CMDLINE, None).is_err());
    for text in [
        format!("if true; then\n{AZURE}"),
        format!("f()\n{}", &AZURE[AZURE.find("for x").expect("the loop")..]),
        format!("true &&\n{}", &AZURE[AZURE.find("for x").expect("the loop")..]),
        format!("{AZURE}GRUB_CMDLINE_LINUX=quiet\n"),
    ] {
        assert!(!parse_main(Shell::Bash, &text).sources_drop_ins(), "{text}");
    }
}

#[test]
fn quotes_escapes_and_continuations_are_parsed() {
    let read = |text: &str| value(text, "A");
    assert_eq!(read("A=b").as_deref(), Some("b"));
    assert_eq!(read("A=").as_deref(), Some(""));
    assert_eq!(read("A='b \"c\" $d \\'").as_deref(), Some("b \"c\" $d \\"));
    assert_eq!(read("A=\"b \\\"c\\\" \\$d \\\\ \\e\"").as_deref(), Some("b \"c\" $d \\ \\e"));
    assert_eq!(read("A=b\\ c'd'\"e\"").as_deref(), Some("b cde"));
    assert_eq!(read("A=\"b \\\nc\"").as_deref(), Some("b c"));
    assert_eq!(read("A=b\\\nc").as_deref(), Some("bc"));
    assert_eq!(read("A=b#c # d").as_deref(), Some("b#c"));
    assert_eq!(read("  export A=b; B=c").as_deref(), Some("b"));
    assert_eq!(read("B=x A=\"$B y\"").as_deref(), Some("x y"));
    assert_eq!(read("A=b\nA=c\n").as_deref(), Some("c"));
    assert_eq!(read("A=\"${GRUB_NONE}x${GRUB_NONE:-y}${GRUB_NONE:+z}\"").as_deref(), Some("xy"));
    assert_eq!(read("# A=b\nB='\nA=c\n'\n"), None);
    assert_eq!(read("AA=b\nBA=c"), None);
}

#[test]
fn harmless_code_is_skipped() {
    let read = |code: &str| value(&format!("A=b\n{code}\nC=d\n"), "A");
    for code in [
        "if [ -f /etc/x ]; then B=\"$A\"; elif true; then :; else D=1; fi",
        "case $A in (x) B=1 ;; y|z) B=2;; *) ;; esac",
        "for B in 1 2; do echo \"$B\"; done",
        "f() { B=1; }\nf",
        "f() { A=c; }",
        "function f { A=c; }",
        "f() { A=c; }\nB=\"$(f)\"",
        "echo A=c",
        "[ -n \"$A\" ] && B=c || B=d",
        "test \"$A\" \\\n = x",
        "( B=c )",
        "export A",
        "while false; do B=1; done 2>/dev/null",
        "B=$(sed -e 's,\\(a\\),b,' /etc/issue)",
    ] {
        assert_eq!(read(code).as_deref(), Some("b"), "{code}");
        assert_eq!(value(&format!("{code}\nC=d\n"), "C").as_deref(), Some("d"), "{code}");
    }
}

#[test]
fn code_that_must_run_is_rejected_with_place() {
    assert_eq!((why("B=1\nA=\"x $(uname) y\"\n").0, why("B=1\nA=\"x $(uname) y\"\n").1), (2, 6));
    assert!(why("A=`uname`").2.contains("needs a command"));
    assert!(why("A+=x").2.contains("+="));
    assert!(why("A=(x y)").2.contains("array"));
    assert!(why("A=$OTHER").2.contains("$OTHER is not set"));
    assert!(why("A=${B%%x}").2.contains("not followed"));
    assert!(why("A=$1").2.contains("only when the script runs"));
    assert!(why("A=~/x").2.contains("home"));
    assert!(why("A=\"x\ny\"").2.contains("line end"));
    assert!(why("A=\"x\"\r\n").2.contains("carriage return"));
    for code in [
        "if true; then A=c; fi",
        "true && A=c",
        "true &&\nA=c",
        "A=c | cat",
        "A=c &",
        "( A=c )",
        "f() { A=c; }; f",
        "f() {\n  A=c\n}\nif true; then f x; fi",
        "function f {\n A=c\n}\n'f'",
        "f() { g; }\ng() { A=c; }\nf",
        ". /lib/x\nA=b\nx_setup",
        "$RUN A=c",
        "time A=c",
        "for x in 1; do A=c; done",
        "for A in 1; do :; done",
        "case x in x) A=c;; esac",
        "A=c make",
        "unset A",
        "read A < /etc/x",
        ": ${A:=c}",
        "eval \"A=c\"",
        ". /etc/other",
        "source /etc/other",
        "if true; then exit 0; fi",
        "cat <<EOF\nA=c\nEOF",
        "A='b",
        "A=\"b",
        "if true; then",
        "x=$(",
        "declare A=c",
    ] {
        assert!(parse(code).value("A", Some("old")).is_err(), "{code}");
        assert!(parse(&format!("{code}\n")).value("A", Some("old")).is_err(), "{code}");
    }
}

#[test]
fn append_assignment_requires_bash() {
    let read = |text: &str| parse_for(Shell::Bash, text).value("A", Some("old"));
    assert_eq!(read("A+=\" x\"\nA+=y"), Ok(Some("old xy".to_owned())));
    assert_eq!(read("A=b\nexport A+=c"), Ok(Some("bc".to_owned())));
    assert!(parse("A+=x").value("A", Some("old")).is_err());
    assert!(read("A+=$(x)").is_err() && read("true && A+=x").is_err());
    let edited = |text: &str, new: &str| parse_for(Shell::Bash, text).edited("A", new, Some("old"));
    assert_eq!(edited("A+=' x'\n", "old x y").as_deref(), Ok("A+=' x y'\n"));
    assert!(edited("A+=' x'\n", "new").is_err(), "what is there before stays");
}

#[test]
fn value_from_outside_the_files_is_rejected() {
    assert!(why("A=\"root=$GRUB_DEVICE\"").2.contains("grub-mkconfig sets $GRUB_DEVICE"));
    assert!(why("A=${GRUB_DEVICE_UUID:-x}").2.contains("grub-mkconfig"));
    assert_eq!(value("GRUB_DEVICE=/dev/x\nA=$GRUB_DEVICE", "A").as_deref(), Some("/dev/x"));
    assert!(parse("A=b\nB\0=c\n").value("A", None).expect_err("a NUL").why.contains("NUL"));
    assert!(why(&bedplate_base::lossless_text::decode(b"A=\xfc")).2.contains("UTF-8"));
    let comment = bedplate_base::lossless_text::decode(b"# \xfc\nA=b # \xe9\n");
    assert_eq!(value(&comment, "A").as_deref(), Some("b"));
    let edited = parse(&comment).edited("A", "c", None).expect("plain");
    assert_eq!(bedplate_base::lossless_text::encode(&edited), b"# \xfc\nA=c # \xe9\n");
}

#[test]
fn later_plain_assignment_makes_value_known() {
    for code in ["A=$(x)", "if true; then A=c; fi", "eval x", "unset A", "A+=x"] {
        assert_eq!(value(&format!("{code}\nA=b\n"), "A").as_deref(), Some("b"), "{code}");
        assert!(parse(&format!("{code}\nA=\"$A b\"\n")).value("A", None).is_err(), "{code}");
    }
    assert!(parse("exit 0\nA=b\n").value("A", None).is_err());
}

fn edited(text: &str, new: &str) -> String {
    parse(text).edited("A", new, None).expect("editable")
}

#[test]
fn edit_changes_only_last_assignment() {
    let new = parse(DEBIAN)
        .edited(CMDLINE_DEFAULT, "quiet pci=config_acs=\"a;b\"", None)
        .expect("editable");
    assert_eq!(new, DEBIAN.replace("\"quiet splash\" #", "\"quiet pci=config_acs=\\\"a;b\\\"\" #"));
    assert_eq!(edited("A=b # c\n", "d"), "A=d # c\n");
    assert_eq!(edited("A=b # c\n", "d e"), "A=\"d e\" # c\n");
    assert_eq!(edited("A='b'\n", "d $e"), "A='d $e'\n");
    assert_eq!(edited("A='b'\n", "it's"), "A=\"it's\"\n");
    assert_eq!(edited("A=b'c'\n", "d"), "A=\"d\"\n");
    assert_eq!(edited("A=1\nA=2\nB=3\n", "4"), "A=1\nA=4\nB=3\n");
    assert_eq!(edited("B=1", "a `b` \\"), "B=1\nA=\"a \\`b\\` \\\\\"\n");
    assert_eq!(edited("", "x"), "A=\"x\"\n");
    assert_eq!(edited("A=\"b \\\nc\"\n", "b c"), "A=\"b \\\nc\"\n");
    assert_eq!(edited("  export A=\"b\"; C=d\n", "e"), "  export A=\"e\"; C=d\n");
}

#[test]
fn edit_keeps_reference_to_earlier_value() {
    let edited = |text: &str, new: &str| parse(text).edited("A", new, Some("old"));
    assert_eq!(edited("A=\"$A x\"\n", "old x y").as_deref(), Ok("A=\"$A x y\"\n"));
    assert_eq!(edited("A=\"$A x\"\n", "oldx").as_deref(), Ok("A=\"${A}x\"\n"));
    assert_eq!(edited("A=\"${A}x\"\n", "old").as_deref(), Ok("A=\"${A}\"\n"));
    assert!(
        edited("A=\"$A x\"\n", "new")
            .expect_err("drops the reference")
            .why
            .contains("other variables")
    );
    assert!(edited("B=1\nA=\"$B x\"\n", "new").is_err());
    assert!(edited("A=$(x)\n", "new").is_err());
    assert!(edited("A=1\n", "a\nb").is_err());
}

#[test]
fn drop_in_nests_shell_and_grub_quotes() {
    let token = |text: &str| Token::new(text).expect("an argument");
    let tokens = [
        token("iommu=pt"),
        token("pci=config_acs=A;B"),
        token("dyndbg=\"file a +p\""),
        token("x=$y`z`"),
    ];
    let text = write_drop_in(CMDLINE_DEFAULT, &tokens, "Written by bedplate.\nDo not edit.")
        .expect("carried");
    assert_eq!(
        text,
        "# Written by bedplate.\n# Do not edit.\nGRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt \
         pci=config_acs=\\\"A;B\\\" dyndbg=\\\"file a +p\\\" x=\\\"\\\\\\$y\\`z\\`\\\"\"\n"
    );
    let back = parse_drop_in(&text, CMDLINE_DEFAULT).expect("ours");
    assert_eq!(back.len(), tokens.len());
    assert!(back.iter().zip(&tokens).all(|(back, token)| back.same_for_kernel(token)));
    assert_eq!(write_drop_in(CMDLINE, &[], "nothing").as_deref(), Ok("# nothing\n"));
    assert_eq!(parse_drop_in("# nothing\n", CMDLINE), Ok(Vec::new()));
    let foreign = parse_drop_in("GRUB_CMDLINE_LINUX=$(x)\n", CMDLINE);
    assert!(matches!(foreign, Err(DropInError::Text(_))));
}

/// Text before an assignment.
fn surroundings() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "",
        "# A=comment",
        "B='x y'",
        "GRUB_TIMEOUT=5",
        "C=\"$B\"",
        "  ",
        "if true; then D=1; fi",
        "#",
        "A=early",
        "A=\"earlier one\" # with a comment",
    ]);
    prop::collection::vec(line, 0..5)
        .prop_map(|lines| lines.iter().map(|line| format!("{line}\n")).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn edited_value_is_read_back(before in surroundings(), old in "[ -~]{0,10}", style in 0..3u8, new in "[ -~é]{0,20}") {
        let old = match style {
            0 => format!("'{}'", old.replace('\'', "")),
            1 => format!("\"{}\"", old.replace(['"', '$', '`', '\\'], "")),
            _ => old.replace(|c: char| !c.is_ascii_alphanumeric(), ""),
        };
        let after = " # tail\nB=2\n";
        let text = format!("{before}A={old}{after}");
        let edited = parse(&text).edited("A", &new, None).expect("plain");
        prop_assert_eq!(parse(&edited).value("A", None), Ok(Some(new.clone())));
        let head = format!("{before}A=");
        prop_assert!(edited.starts_with(&head) && edited.ends_with(after));
        prop_assert_eq!(parse(&edited).edited("A", &new, None), Ok(edited));
    }

    #[test]
    fn drop_in_argument_reaches_kernel_unchanged(value in "[a-z0-9 ;&|<>{}$,=:@/*?#()!`%+-]{0,16}") {
        let Ok(token) = Token::from_parts("x", Some(&value)) else { return Ok(()) };
        let text = write_drop_in(CMDLINE, std::slice::from_ref(&token), "").expect("carried");
        let shell = parse(&text).value(CMDLINE, Some("ro")).expect("ours").expect("set");
        let line = kernel_line(&shell).expect("GRUB reads it");
        let got = line.strip_prefix("ro ").map(Token::new).expect("appended").expect("one argument");
        prop_assert!(got.same_for_kernel(&token), "{}", line);
    }
}

/// No file of this size may take more than a moment.
#[test]
fn oversized_values_are_rejected() {
    let long = format!("GRUB_X='{}'\n", "x".repeat(60_000));
    let joined = format!("{long}A=\"{}\"\n", "${GRUB_X:-y}".repeat(100_000));
    assert!(why(&joined).2.contains("too long"));
    let many: String = (0..50_000).map(|at| format!("GRUB_{at}=$GRUB_X\n")).collect();
    assert!(why(&format!("{long}{many}A=$GRUB_X\n")).2.contains("too many values"));
}
