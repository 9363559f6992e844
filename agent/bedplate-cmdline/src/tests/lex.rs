//! Splitting and quoting of arguments.

use super::super::{CommandLine, LineError, MAX_LINE_BYTES, Token, TokenError};

fn parts(line: &str) -> Vec<(String, Option<String>)> {
    let line = CommandLine::parse(line);
    line.tokens().map(|t| (t.name().into_owned(), t.value().map(|v| v.into_owned()))).collect()
}

fn single(token: &str) -> (String, Option<String>) {
    let all = parts(token);
    assert_eq!(all.len(), 1, "{token:?} is one argument");
    all.into_iter().next().expect("one")
}

fn pair(name: &str, value: &str) -> (String, Option<String>) {
    (name.to_owned(), Some(value.to_owned()))
}

#[test]
fn line_is_split_at_blanks_outside_quotes() {
    assert_eq!(
        parts("\t ro  quiet\nroot=UUID=1-2 a=\"b c\" \"d=e f\"\n"),
        [
            ("ro".to_owned(), None),
            ("quiet".to_owned(), None),
            pair("root", "UUID=1-2"),
            pair("a", "b c"),
            pair("d", "e f"),
        ]
    );
}

#[test]
fn quotes_are_stripped_like_the_kernel_does() {
    assert_eq!(single(r#"a="b""#), pair("a", "b"));
    assert_eq!(single(r#""a=b""#), pair("a", "b"));
    assert_eq!(single(r#""quiet""#), ("quiet".to_owned(), None));
    assert_eq!(single(r#"pci=config_acs="x;y""#), pair("pci", r#"config_acs="x;y""#));
    assert_eq!(single(r#"a='b'"#), pair("a", "'b'"));
    assert_eq!(single(r#"a=\"b\""#), pair("a", r#"\"b\""#));
    assert_eq!(single(r#"a=""#), pair("a", ""));
    assert_eq!(single(r#""a="b"""#), pair("a", r#"b""#));
    assert_eq!(single("\""), (String::new(), None));
}

#[test]
fn leading_equals_sign_is_not_separator() {
    assert_eq!(single("=a=b"), pair("=a", "b"));
    assert_eq!(single("=a"), ("=a".to_owned(), None));
}

#[test]
fn quotes_round_value_or_argument_are_equal() {
    let a = Token::new(r#"dyndbg="file a.c +p""#).expect("one argument");
    let b = Token::new(r#""dyndbg=file a.c +p""#).expect("one argument");
    assert!(a.same_for_kernel(&b));
    assert_ne!(a, b);
}

#[test]
fn name_folding_affects_only_dashes() {
    let same = |a: &str, b: &str| {
        Token::new(a).expect("argument").same_for_kernel(&Token::new(b).expect("argument"))
    };
    assert!(same("intel-iommu=on", "intel_iommu=on"));
    assert!(!same("intel_iommu=sm-on", "intel_iommu=sm_on"));
    assert!(!same("Quiet", "quiet"));
    assert!(same("vfio-pci.ids=1", "vfio_pci.ids=1"));
}

#[test]
fn arguments_after_double_dash_belong_to_init() {
    let line = CommandLine::parse("ro quiet -- single iommu=pt ");
    assert_eq!(line.len(), 2);
    assert_eq!(line.init_arguments(), Some("single iommu=pt"));
    assert_eq!(CommandLine::parse("ro a=-- b--").init_arguments(), None);
    assert_eq!(CommandLine::parse("ro \"--\" x").init_arguments(), Some("x"));
    assert_eq!(CommandLine::parse("--").init_arguments(), Some(""));
}

#[test]
fn parsed_line_displays_unchanged() {
    for text in ["", " ", "\n", "a", "  a\t b  \n", "a=\"b  c\"  -- d  e ", "--", " -- ", "a \"b c"]
    {
        assert_eq!(CommandLine::parse(text).to_string(), text);
    }
}

#[test]
fn check_rejects_uneditable_lines() {
    let long = "x".repeat(MAX_LINE_BYTES);
    assert_eq!(CommandLine::parse(&format!("{long}\n")).check(), Ok(()));
    assert_eq!(
        CommandLine::parse(&format!("{long}y")).check(),
        Err(LineError::TooLong { bytes: 2048 })
    );
    assert_eq!(CommandLine::parse("a=\u{e9}").check(), Ok(()));
    for (line, why) in [
        ("a b=\"c d", "unclosed double quote in `b`"),
        ("a=voil\u{e0}iommu=pt", "`a` has a non-ASCII character"),
        ("a\0b", "a NUL character"),
    ] {
        let refused = CommandLine::parse(line).check().expect_err(line).to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn value_with_spaces_is_quoted() {
    let quoted = |name, value| Token::from_parts(name, value).map(|token| token.to_string());
    assert_eq!(quoted("dyndbg", Some("file a.c +p")).as_deref(), Ok("dyndbg=\"file a.c +p\""));
    assert_eq!(quoted("iommu", Some("pt")).as_deref(), Ok("iommu=pt"));
    assert_eq!(quoted("quiet", None).as_deref(), Ok("quiet"));
    assert_eq!(quoted("a", Some("")).as_deref(), Ok("a="));
    assert_eq!(quoted("a", Some("\"b\"")).as_deref(), Ok("a=\"\"b\"\""));
    for (value, why) in
        [("b \" c", "cannot quote the value"), ("b\nc", "does not reach the kernel unchanged")]
    {
        let refused = quoted("a", Some(value)).expect_err(value).to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn token_must_be_exactly_one_argument() {
    for several in ["a b", " a"] {
        assert!(matches!(Token::new(several), Err(TokenError::SeveralArguments(_))));
    }
    for (text, why) in [
        ("", "cannot be empty"),
        ("a=\"b", "unclosed double quote"),
        ("--", "ends the kernel arguments"),
        ("\"\"", "no parameter name"),
    ] {
        let refused = Token::new(text).expect_err(text).to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert!(Token::new("a=--").is_ok());
}
