//! Parser for /etc/nccl.conf and /etc/rccl.conf, and bedplate's block in them (handbook §8.6; NCCL src/misc/param.cc).
//!
//! NCCL sets each `NAME=value` in its process environment unless the name is already set. So the first line for a name
//! wins, and a variable of the job wins over both. bedplate has its own block at the top of the file and leaves every other
//! line unchanged.

use std::fmt::Write as _;

use crate::file_heading::{header, reasons};
use crate::plan::Rationale;

pub(super) use bedplate_facts::nccl_conf::{NCCL_CONF as NCCL, RCCL_CONF as RCCL};
pub(super) use bedplate_nccl::env::LONGEST_VALUE;

pub(super) const BEGIN: &str = "# BEGIN bedplate";
const END: &str = "# END bedplate";

/// A variable with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Value as NCCL reads it: without quotes.
    pub value: String,
    /// Location in the profile, and reason.
    pub why: Vec<Rationale>,
}

/// A file, split at bedplate's block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Conf<'t> {
    /// Text before the block, or all of it without a block.
    before: &'t str,
    /// The block, if there is one.
    block: Option<&'t str>,
    /// Text after the block.
    after: &'t str,
}

/// Error: bedplate's lines cannot be identified.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BlockError {
    /// Line number (from 1) of a block that has no end.
    NoEnd(usize),
    /// Line number of a second block: a copy, perhaps with unmanaged lines.
    Twice(usize),
}

impl<'t> Conf<'t> {
    /// Splits a file at bedplate's block.
    ///
    /// # Errors
    /// [`BlockError`] if a block has no end or there are two.
    pub(super) fn parse(text: &'t str) -> Result<Self, BlockError> {
        let (mut at, mut begin, mut block) = (0, None, None);
        for (number, line) in text.split_inclusive('\n').enumerate() {
            let end = at + line.len();
            match (begin, &block) {
                (None, Some(_)) if is_mark(line, BEGIN) => {
                    return Err(BlockError::Twice(number + 1));
                }
                (None, None) if is_mark(line, BEGIN) => begin = Some((at, number + 1)),
                (Some((start, _)), _) if is_mark(line, END) => {
                    block = Some(start..end);
                    begin = None;
                }
                _ => {}
            }
            at = end;
        }
        match (begin, block) {
            (Some((_, line)), _) => Err(BlockError::NoEnd(line)),
            (None, None) => Ok(Conf { before: text, block: None, after: "" }),
            (None, Some(block)) => Ok(Conf {
                before: &text[..block.start],
                after: &text[block.end..],
                block: Some(&text[block]),
            }),
        }
    }

    /// Returns the block's settings, in order.
    pub(super) fn own_settings(&self) -> Vec<(&'t str, &'t str)> {
        pairs(self.block.unwrap_or_default()).map(|(_, pair)| pair).collect()
    }

    /// Returns the settings before the block, which override it.
    pub(super) fn before(&self) -> Vec<(&'t str, &'t str)> {
        match self.block {
            Some(_) => pairs(self.before).map(|(_, pair)| pair).collect(),
            None => Vec::new(),
        }
    }

    /// Returns the unmanaged settings, each with its line number, from 1 on.
    pub(super) fn unmanaged_settings(&self) -> Vec<(usize, (&'t str, &'t str))> {
        let lines = |text: &str| text.split_inclusive('\n').count();
        let below = lines(self.before) + lines(self.block.unwrap_or_default());
        let after = pairs(self.after).map(|(line, pair)| (below + line, pair));
        pairs(self.before).chain(after).collect()
    }

    /// Returns the file with its block replaced, or `None` if nothing is left.
    pub(super) fn with(&self, block: &str) -> Option<String> {
        // Also removes the blank line that was added below an earlier block.
        let after = match (self.block, self.before) {
            (Some(_), "") => self.after.strip_prefix('\n').unwrap_or(self.after),
            _ => self.after,
        };
        let rest = format!("{}{after}", self.before);
        let between = if block.is_empty() || rest.is_empty() { "" } else { "\n" };
        let text = format!("{block}{between}{rest}");
        (!text.is_empty()).then_some(text)
    }
}

/// Whether a file contains only bedplate's block.
pub(crate) fn is_only_ours(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    Conf::parse(&text).is_ok_and(|conf| conf.block.is_some() && conf.with("").is_none())
}

/// Whether a line is this mark, possibly followed by text.
fn is_mark(line: &str, mark: &str) -> bool {
    let rest = line.strip_prefix(mark);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '\n', '\r', ' ']))
}

/// Returns `NAME=value` lines with their numbers, from 1 on. NCCL trims nothing, and takes `#` for a comment only in the
/// first column.
fn pairs(text: &str) -> impl Iterator<Item = (usize, (&str, &str))> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    lines.filter_map(|(number, line)| Some((number + 1, line.split_once('=')?)))
}

/// Returns bedplate's block; empty without variables.
pub(crate) fn block(variables: &[Variable], profile: &str) -> String {
    if variables.is_empty() {
        return String::new();
    }
    let mut text = format!("{BEGIN}\n{}", header("#", profile));
    for Variable { name, value, why } in variables {
        for reason in reasons("#", why).lines() {
            // A reason must not end the block.
            let is_mark = [BEGIN, END].iter().any(|mark| is_mark(reason, mark));
            let _ = writeln!(
                text,
                "{}",
                if is_mark { reason.replacen(' ', "  ", 1) } else { reason.to_owned() }
            );
        }
        let _ = writeln!(text, "{name}={value}");
    }
    let _ = writeln!(text, "{END}");
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variable(name: &str, value: &str) -> Variable {
        let why = vec![Rationale::because("the profile asks for it")];
        Variable { name: name.into(), value: value.into(), why }
    }

    #[test]
    fn reason_never_ends_the_block() {
        for reason in ["END bedplate", "END bedplate: x", "BEGIN bedplate", "END bedplate y"] {
            let why = vec![Rationale::because(reason)];
            let one = Variable { name: "NCCL_DEBUG".into(), value: "INFO".into(), why };
            let text = block(&[one], "hgx");
            let conf = Conf::parse(&text).unwrap();
            assert_eq!(conf.own_settings(), [("NCCL_DEBUG", "INFO")], "{text}");
            assert_eq!(conf.with(""), None, "{text}");
        }
    }

    #[test]
    fn block_is_added_on_top_and_removed_without_trace() {
        let theirs = "# of the site\nNCCL_DEBUG=WARN\n\nNCCL_NET = IB\n";
        let conf = Conf::parse(theirs).unwrap();
        assert_eq!(conf.own_settings(), []);
        let ours = block(&[variable("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1")], "hgx");
        let text = conf.with(&ours).unwrap();
        assert!(
            text.starts_with("# BEGIN bedplate\n# written by bedplate from profile hgx"),
            "{text}"
        );
        let again = Conf::parse(&text).unwrap();
        assert_eq!(again.own_settings(), [("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1")]);
        assert_eq!(
            again.unmanaged_settings(),
            [(8, ("NCCL_DEBUG", "WARN")), (10, ("NCCL_NET ", " IB"))]
        );
        assert_eq!(again.with(&ours).unwrap(), text);
        assert_eq!(again.with("").as_deref(), Some(theirs));
        assert_eq!(Conf::parse(&ours).unwrap().with(""), None);
        assert_eq!(Conf::parse("").unwrap().with(&ours).as_deref(), Some(ours.as_str()));
    }

    #[test]
    fn lines_before_block_are_detected() {
        let ours = block(&[variable("NCCL_DEBUG", "INFO")], "hgx");
        let text = format!("NCCL_DEBUG=WARN\n{ours}NCCL_NET=IB\n");
        let conf = Conf::parse(&text).unwrap();
        assert_eq!(conf.before(), [("NCCL_DEBUG", "WARN")]);
        let moved = conf.with(&ours).unwrap();
        assert_eq!(moved, format!("{ours}\nNCCL_DEBUG=WARN\nNCCL_NET=IB\n"));
    }

    #[test]
    fn ambiguous_blocks_are_rejected() {
        assert_eq!(Conf::parse("A=1\n# BEGIN bedplate\nB=1\n"), Err(BlockError::NoEnd(2)));
        let twice =
            "# BEGIN bedplate\nA=1\n# END bedplate\nB=1\n# BEGIN bedplate\n# END bedplate\n";
        assert_eq!(Conf::parse(twice), Err(BlockError::Twice(5)));
        // A comment that only begins with the mark is not one.
        assert_eq!(Conf::parse("# BEGIN bedplates\n").unwrap().block, None);
    }

    proptest! {
        /// Unmanaged lines stay byte for byte, and the block parses to the written values.
        #[test]
        fn unmanaged_lines_are_preserved(theirs in "([A-Z#=a \n]{0,12}\n){0,6}", value in "[!-~]{1,20}") {
            let ours = block(&[variable("NCCL_X", &value)], "p");
            let conf = Conf::parse(&theirs).unwrap();
            let text = conf.with(&ours).unwrap();
            let again = Conf::parse(&text).unwrap();
            prop_assert_eq!(again.own_settings(), [("NCCL_X", value.as_str())]);
            prop_assert_eq!(again.with("").unwrap_or_default(), theirs.clone());
            prop_assert_eq!(again.with(&ours).unwrap(), text.clone());
        }

        #[test]
        fn any_text_is_parsed_losslessly(text in any::<String>()) {
            if let Ok(conf) = Conf::parse(&text) {
                let whole = format!("{}{}{}", conf.before, conf.block.unwrap_or_default(), conf.after);
                prop_assert_eq!(whole, text);
            }
        }
    }
}
