//! Messages about rendered and inexpressible items.

use super::{AcceptedItem, RenderArgs};
use crate::cli::output;
use bedplate_base::some_of;
use bedplate_render::{Deferred, Inexpressible, RenderResult};

/// Prints the items that are not in a file, and the notes.
pub(super) fn print_messages(args: &RenderArgs, rendered: &RenderResult) {
    for line in deferred(&rendered.deferred) {
        output::status(&format!("applied by bedplate on the machine: {line}"));
    }
    for note in &rendered.notes {
        output::status(&format!("note: {note}"));
    }
    for left in &rendered.inexpressible {
        match args.reason(left) {
            None => output::warn(&missing(&args.target, left)),
            Some(reason) => output::status(&format!("accepted: {}: {reason}", left.what)),
        }
    }
    let is_idle =
        |accepted: &&AcceptedItem| !rendered.inexpressible.iter().any(|left| accepted.takes(left));
    for AcceptedItem { id, .. } in args.accept.iter().filter(is_idle) {
        output::status(&format!("note: nothing to accept as {id}"));
    }
}

/// Groups items with the same reason.
pub(super) fn deferred(items: &[Deferred]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for item in items {
        match reasons.iter_mut().find(|(why, _)| *why == item.why) {
            Some((_, whats)) => whats.push(item.what.clone()),
            None => reasons.push((&item.why, vec![item.what.clone()])),
        }
    }
    let line = |(why, whats): (&str, Vec<String>)| {
        format!("{} ({why})", some_of(whats.into_iter(), 3, "others"))
    };
    reasons.into_iter().map(line).collect()
}

pub(super) fn missing(target: &str, left: &Inexpressible) -> String {
    let Inexpressible { id, what, why, instead } = left;
    format!("{target} cannot express {what} [{id}]: {why}; instead: {instead}")
}

/// Returns a single file unchanged, so that it can be piped. Several files get a heading each.
pub(super) fn printed(rendered: &RenderResult) -> String {
    match rendered.files.as_slice() {
        [only] => only.text.clone(),
        files => files
            .iter()
            .map(|file| format!("# --- {} ---\n{}\n", file.path, file.text.trim_end()))
            .collect(),
    }
}
