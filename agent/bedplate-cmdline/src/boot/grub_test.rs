//! Evaluates GRUB's `[ … ]` and `test` (`grub-core/commands/test.c`), as far as generated configurations use them. The
//! outcome is unknown if it depends on the machine.

use super::grub_files::GrubFiles;
use super::grub_vars::DisplayWord;

/// True, false, or unknown.
pub(super) type Outcome = Option<bool>;

/// Evaluates a test. The outcome of unsupported forms is unknown.
pub(super) fn evaluate(name: &str, words: &[DisplayWord], around: &GrubFiles<'_>) -> Outcome {
    let words = match (name, words.split_last()) {
        ("[", Some((last, inner))) if last.shown == "]" => inner,
        ("[", _) => return None,
        _ => words,
    };
    // `-o` binds least, then `-a`.
    any(words
        .split(|word| word.shown == "-o")
        .map(|part| all(part.split(|word| word.shown == "-a").map(|part| primary(part, around)))))
}

/// Returns true if one is true, false if all are false, else unknown.
fn any(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    let mut so_far = Some(false);
    for outcome in outcomes {
        match outcome {
            Some(true) => return Some(true),
            Some(false) => {}
            None => so_far = None,
        }
    }
    so_far
}

fn all(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    any(outcomes.map(|outcome| outcome.map(|truth| !truth))).map(|truth| !truth)
}

fn primary(words: &[DisplayWord], around: &GrubFiles<'_>) -> Outcome {
    match words {
        [] => Some(false),
        [not, rest @ ..] if not.shown == "!" && !rest.is_empty() => {
            primary(rest, around).map(|truth| !truth)
        }
        [only] => only.value.as_ref().map(|value| !value.is_empty()),
        [operator, operand] => match operator.shown.as_str() {
            "-n" => operand.value.as_ref().map(|value| !value.is_empty()),
            "-z" => operand.value.as_ref().map(String::is_empty),
            "-f" | "-e" | "-s" => around.has_path(&operand.shown),
            _ => None,
        },
        [left, operator, right] => {
            let (left, right) = (left.value.as_ref()?, right.value.as_ref()?);
            match operator.shown.as_str() {
                "=" | "==" => Some(left == right),
                "!=" => Some(left != right),
                "-eq" | "-ne" | "-lt" | "-gt" | "-le" | "-ge" => {
                    numbers(left, &operator.shown, right)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn numbers(left: &str, operator: &str, right: &str) -> Outcome {
    let (left, right): (i64, i64) = (left.parse().ok()?, right.parse().ok()?);
    Some(match operator {
        "-eq" => left == right,
        "-ne" => left != right,
        "-lt" => left < right,
        "-gt" => left > right,
        "-le" => left <= right,
        _ => left >= right,
    })
}
