//! Arguments through GRUB.

use proptest::prelude::*;

use super::super::grub_quote::{GrubQuoteError, edit_text, grub_token, kernel_line, split};
use super::edit;
use crate::{CommandLine, Token};

fn line(text: &str) -> String {
    kernel_line(text).expect("readable")
}

fn why(text: &str) -> (usize, String) {
    let found = split(text).expect_err("not readable");
    (found.column, found.why)
}

#[test]
fn grub_requotes_only_arguments_with_spaces() {
    assert_eq!(line(r#"quiet pci=config_acs="A;B" x"#), "quiet pci=config_acs=A;B x");
    assert_eq!(line(r#"dyndbg="file a.c +p""#), "\"dyndbg=file a.c +p\"");
    assert_eq!(line(r"'a b'\;c g\ h"), "\"a b;c\" \"g h\"");
    assert_eq!(line(r#"i#j "d\$e""#), "i#j d$e");
    assert_eq!(line("a \\\n b"), "a b");
    assert_eq!(line(r#"a "" b"#), "a  b");
    assert_eq!(line("a # b"), "a");
}

#[test]
fn backslash_and_quote_reach_kernel_escaped() {
    assert_eq!(line(r#"a='"b"'"#), r#"a=\"b\""#);
    assert_eq!(line(r#"a="it's""#), r"a=it\'s");
    assert_eq!(line(r"a=b\\c"), r"a=b\\c");
    assert_eq!(line(r#"a="b\c""#), r"a=b\\c");
}

#[test]
fn unresolved_variables_stay_as_names() {
    let words = split("ro $tuned_params x${y}z \"$a b\"").expect("readable");
    let kernel: Vec<_> = words.iter().map(|word| word.kernel.as_str()).collect();
    assert_eq!(kernel, ["ro", "$tuned_params", "x$yz", "\"$a b\""]);
    assert_eq!(words[2].variables, ["y"]);
}

#[test]
fn end_of_command_is_reported_with_column() {
    assert_eq!(why("a;b").0, 2);
    assert_eq!(why("a b&c").0, 4);
    assert_eq!(why("a|b").0, 2);
    assert_eq!(why("a<b").0, 2);
    assert_eq!(why("a{b").0, 2);
    assert_eq!(why("a *").0, 3);
    assert_eq!(why("a /x?").0, 5);
    assert_eq!(why("[[ a").0, 1);
    assert_eq!(line("a=b* c[[ \"*\""), "a=b* c[[ *");
    assert_eq!(why("a\nb").0, 2);
    assert_eq!(why("a \"b").0, 3);
    assert_eq!(why("a 'b").0, 3);
    assert_eq!(why("a$ b").0, 2);
    assert_eq!(why("a ${b").0, 3);
    assert!(why(r"a\x41").1.contains("differ"));
}

#[test]
fn grub_token_quotes_only_special_characters() {
    let grub = |text: &str| grub_token(&Token::new(text).expect("an argument"));
    assert_eq!(grub("iommu=pt").as_deref(), Ok("iommu=pt"));
    assert_eq!(
        grub("pci=config_acs=xx000x0@0000:20:00.0;xx000x0@0000:22:00.0").as_deref(),
        Ok("pci=config_acs=\"xx000x0@0000:20:00.0;xx000x0@0000:22:00.0\"")
    );
    assert_eq!(grub("pci=noaer,config_acs=a;b").as_deref(), Ok("pci=noaer,config_acs=\"a;b\""));
    assert_eq!(grub("dyndbg=\"file a.c +p\"").as_deref(), Ok("dyndbg=\"file a.c +p\""));
    assert_eq!(grub("a=$b").as_deref(), Ok("a=\"\\$b\""));
    assert_eq!(grub("a=b*").as_deref(), Ok("a=\"b*\""));
    assert_eq!(grub("#a").as_deref(), Ok("\"#a\""));
    for (argument, character) in [("a=it's", '\''), ("a=b\"c\"", '"'), ("a=\\", '\\')] {
        let refused = grub(argument).expect_err(argument).to_string();
        assert!(refused.contains(&format!("a backslash before the `{character}`")), "{refused}");
    }
}

#[test]
fn edit_keeps_unowned_arguments() {
    let wish = edit(&["iommu=pt", "pci=config_acs=a;b"], &[]);
    assert_eq!(
        edit_text("  quiet  'x=\"'  $tuned_params ", &wish)
            .expect_err("a quote reaches the kernel")
            .to_string(),
        "cannot edit the kernel arguments in the GRUB text"
    );
    assert_eq!(
        edit_text(" quiet  x='1;2'  $tuned_params ", &wish).as_deref(),
        Ok(" quiet  x='1;2'  $tuned_params iommu=pt pci=config_acs=\"a;b\" ")
    );
    assert_eq!(
        edit_text("iommu=off,nopt pci='noaer' ro pci=x -- y", &wish).as_deref(),
        Ok("iommu=off,pt pci=noaer,x,config_acs=\"a;b\" ro -- y")
    );
    assert_eq!(edit_text("", &wish).as_deref(), Ok("iommu=pt pci=config_acs=\"a;b\""));
    let same = "pci=config_acs=\"a;b\"  \"iommu=pt\"";
    assert_eq!(edit_text(same, &wish).as_deref(), Ok(same));
    assert_eq!(edit_text("quiet splash", &edit(&[], &["quiet"])).as_deref(), Ok("splash"));
    assert_eq!(edit_text("quiet", &edit(&[], &["quiet"])).as_deref(), Ok(""));
    assert!(matches!(edit_text("a;b", &wish), Err(GrubQuoteError::Text(_))));
    let why = edit_text("\"\" b", &wish).expect_err("an empty word").to_string();
    assert!(why.contains("is not one kernel argument"), "{why}");
}

/// Arguments like those of profiles, with every character that a quoting layer could misread.
fn tokens() -> impl Strategy<Value = Vec<Token>> {
    let token =
        ("[a-z_.-]{1,6}", prop::option::of("[a-z0-9 ;&|<>{}$,=:@/*?#()!^~%+\\[\\]`-]{0,12}"))
            .prop_filter_map("one argument", |(name, value)| {
                Token::from_parts(&name, value.as_deref()).ok()
            });
    prop::collection::vec(token, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn quoted_tokens_reach_kernel_unchanged(tokens in tokens()) {
        let text: Vec<String> = tokens.iter().map(|token| grub_token(token).expect("can be carried")).collect();
        let got = CommandLine::parse(&line(&text.join(" ")));
        prop_assert_eq!(got.len(), tokens.len());
        for (got, meant) in got.tokens().zip(&tokens) {
            prop_assert!(got.same_for_kernel(meant), "{} for {}", got, meant);
        }
    }

    #[test]
    fn grub_text_edit_equals_line_edit(tokens in tokens(), gap in " {1,3}") {
        let words: Vec<String> = tokens.iter().map(|token| grub_token(token).expect("can be carried")).collect();
        let text = words.join(&gap);
        let wish = edit(&["iommu=pt", "pci=realloc,config_acs=a;b"], &["a"]);
        let new = edit_text(&text, &wish).expect("editable");
        let expected = wish.apply(&CommandLine::parse(&line(&text))).expect("editable");
        prop_assert_eq!(CommandLine::parse(&line(&new)), CommandLine::parse(&CommandLine::from_tokens(expected.tokens().cloned()).to_string()));
        prop_assert_eq!(edit_text(&new, &wish).expect("editable"), new);
    }
}
