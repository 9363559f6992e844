//! Writes a list of strings exactly like Go's YAML libraries with their default indentation of 4.
//!
//! The Image Factory hashes the library's text of a schematic: one different byte gives another id. Checked against
//! `yaml.v3` v3.0.1, whose output is the table in the tests.

/// The library version: Image Factory uses v4 since 1.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoYaml {
    /// `gopkg.in/yaml.v3`.
    V3,
    /// `go.yaml.in/yaml/v4`: words that are truth values only in YAML 1.1, and the merge key, get single quotes.
    V4,
}

/// Returns one scalar, on one line. Returns `None` for a text that does not start like a name (a `-` in front is
/// Talos's syntax for removing an argument), or that needs escapes or lines. `yaml.v3` writes numbers by ranges and
/// calendars, and no kernel argument or extension starts like one.
///
/// The library first determines how the plain text would be read: anything but a string gets double quotes. Then its
/// emitter checks whether a plain scalar can hold the text: if not, it gets single quotes.
pub(super) fn scalar(text: &str, library: GoYaml) -> Option<String> {
    let name = text.strip_prefix('-').unwrap_or(text);
    let numeric = |c: char| c.is_ascii_digit() || "+-._".contains(c);
    let printable = |c: char| c == ' ' || c.is_ascii_graphic();
    if name.is_empty() || name.starts_with(numeric) || !text.chars().all(printable) {
        return None;
    }
    Some(if library == GoYaml::V4 && is_of_old(text) {
        format!("'{text}'")
    } else if is_other_type(text) || is_cased(text, OLD_TRUTH) {
        format!("\"{text}\"")
    } else if needs_quotes(text) {
        format!("'{}'", text.replace('\'', "''"))
    } else {
        text.to_owned()
    })
}

/// Whether the plain text would be read as null, or as a truth value of YAML 1.2.
fn is_other_type(text: &str) -> bool {
    text == "~" || is_cased(text, &["true", "false", "null"])
}

/// Truth values of YAML 1.1 only.
const OLD_TRUTH: &[&str] = &["y", "yes", "on", "n", "no", "off"];

/// Whether it would be read as one of these values, or as the merge key.
fn is_of_old(text: &str) -> bool {
    text == "<<" || is_cased(text, OLD_TRUTH)
}

/// Whether it is one of the words in lower case, in upper case, or capitalised.
fn is_cased(text: &str, words: &[&str]) -> bool {
    let cased = |word: &&str| {
        let (first, rest) = word.split_at(1);
        [word.to_string(), word.to_uppercase(), format!("{}{rest}", first.to_uppercase())]
            .iter()
            .any(|w| w == text)
    };
    words.iter().any(cased)
}

/// Whether the text needs quotes in a block list (libyaml's `yaml_emitter_analyze_scalar`).
fn needs_quotes(text: &str) -> bool {
    let indicators =
        ['#', ',', '[', ']', '{', '}', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`'];
    let before_blank = |text: &str| text.len() == 1 || text[1..].starts_with(' ');
    let mark = text.starts_with(['?', ':', '-']) && before_blank(text);
    text.starts_with(indicators)
        || mark
        || text.contains(": ")
        || text.ends_with(':')
        || text.contains(" #")
        || text.starts_with(' ')
        || text.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input, and the output of `yaml.v3` v3.0.1.
    const MADE_BY_YAML_V3: &[(&str, &str)] = &[
        ("iommu=pt", "iommu=pt"),
        ("-console", "-console"),
        ("- x", "'- x'"),
        ("-console=ttyS0,115200", "-console=ttyS0,115200"),
        (
            "pci=realloc,config_acs=xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0",
            "pci=realloc,config_acs=xx000x0@0000:17:00.0;xx000x0@0000:3a:00.0",
        ),
        ("pci=disable_acs_redir=pci:10b5:8747", "pci=disable_acs_redir=pci:10b5:8747"),
        ("x=a:", "'x=a:'"),
        ("x=", "x="),
        (":x", ":x"),
        (": x", "': x'"),
        ("?x", "?x"),
        ("? x", "'? x'"),
        ("?", "'?'"),
        (":", "':'"),
        ("a: b", "'a: b'"),
        ("a #b", "'a #b'"),
        ("a#b", "a#b"),
        ("#a", "'#a'"),
        ("*", "'*'"),
        ("*x", "'*x'"),
        ("&x", "'&x'"),
        ("!x", "'!x'"),
        ("!nomodeset", "'!nomodeset'"),
        ("|x", "'|x'"),
        (">x", "'>x'"),
        ("%x", "'%x'"),
        ("@x", "'@x'"),
        ("`x", "'`x'"),
        ("[x", "'[x'"),
        ("]x", "']x'"),
        ("{x", "'{x'"),
        ("}x", "'}x'"),
        (",x", "',x'"),
        ("'x", "'''x'"),
        ("x'y", "x'y"),
        ("\"x", "'\"x'"),
        ("x=\"a b\"", "x=\"a b\""),
        ("dyndbg=\"file a.c +p\"", "dyndbg=\"file a.c +p\""),
        ("e3", "e3"),
        ("inf", "inf"),
        ("nan", "nan"),
        ("y", "\"y\""),
        ("Y", "\"Y\""),
        ("yes", "\"yes\""),
        ("Yes", "\"Yes\""),
        ("YES", "\"YES\""),
        ("yEs", "yEs"),
        ("on", "\"on\""),
        ("On", "\"On\""),
        ("ON", "\"ON\""),
        ("n", "\"n\""),
        ("no", "\"no\""),
        ("No", "\"No\""),
        ("NO", "\"NO\""),
        ("off", "\"off\""),
        ("Off", "\"Off\""),
        ("OFF", "\"OFF\""),
        ("true", "\"true\""),
        ("True", "\"True\""),
        ("TRUE", "\"TRUE\""),
        ("tRUE", "tRUE"),
        ("false", "\"false\""),
        ("null", "\"null\""),
        ("Null", "\"Null\""),
        ("NULL", "\"NULL\""),
        ("~", "\"~\""),
        ("~x", "~x"),
        ("<<", "<<"),
        ("<", "<"),
        ("=", "="),
        ("quiet", "quiet"),
        ("single", "single"),
        ("s", "s"),
        ("t", "t"),
        ("f", "f"),
        (
            "siderolabs/nvidia-open-gpu-kernel-modules-lts",
            "siderolabs/nvidia-open-gpu-kernel-modules-lts",
        ),
        ("siderolabs/gvisor", "siderolabs/gvisor"),
        ("x=1:30", "x=1:30"),
        ("x: ", "'x: '"),
        (" x", "' x'"),
        ("x ", "'x '"),
        (" ", "' '"),
        ("module_blacklist=nouveau,nvidiafb", "module_blacklist=nouveau,nvidiafb"),
        ("hugepagesz=1G", "hugepagesz=1G"),
        ("x=\\", "x=\\"),
        ("-o", "-o"),
    ];

    #[test]
    fn scalars_match_yaml_v3() {
        for (text, expected) in MADE_BY_YAML_V3 {
            assert_eq!(scalar(text, GoYaml::V3).as_deref(), Some(*expected), "{text:?}");
        }
    }

    #[test]
    fn v4_differs_only_for_yaml_1_1_words() {
        for (text, by_v3) in MADE_BY_YAML_V3 {
            let by_v4 = match *text {
                "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "n" | "no" | "No"
                | "NO" | "off" | "Off" | "OFF" | "<<" => format!("'{text}'"),
                _ => (*by_v3).to_owned(),
            };
            assert_eq!(scalar(text, GoYaml::V4), Some(by_v4), "{text:?}");
        }
    }

    #[test]
    fn unsupported_text_is_rejected() {
        for text in [
            "",
            "-",
            "a\nb",
            "a\tb",
            "ö",
            "\u{7f}",
            "1",
            "-1",
            "2001-12-14",
            ".inf",
            "1:30",
            "--x",
            "_1",
        ] {
            assert_eq!(scalar(text, GoYaml::V4), None, "{text:?}");
        }
    }
}
