//! bedplate's block in /etc/nccl.conf or /etc/rccl.conf, compared by its settings: a reworded comment is not a difference.

use super::NAME;
use super::conf::{self, BlockError, Conf, Variable};
use crate::kind::{Context, TargetFile, removed};
use crate::plan::{Item, KindPlan};

/// Compares the file with `wanted`.
pub(super) fn plan(context: &Context, path: &str, wanted: &[Variable], out: &mut KindPlan) {
    let Some(file) = TargetFile::read(context, NAME, path, !wanted.is_empty(), out) else { return };
    let text = match String::from_utf8(file.before.clone().unwrap_or_default()) {
        Ok(text) => text,
        // bedplate writes plain text, so the file has no block.
        Err(_) if wanted.is_empty() => return,
        Err(_) => {
            return refuse(out, path, "not UTF-8 text", "correct the file, or remove it");
        }
    };
    let conf = match Conf::parse(&text) {
        Ok(conf) => conf,
        Err(BlockError::Twice(line)) => {
            let reason = format!("bedplate's block begins a second time on line {line}");
            return refuse(out, path, &reason, "remove one of the two blocks with its markers");
        }
        Err(BlockError::NoEnd(line)) => {
            let reason = format!("bedplate's block begins on line {line} and has no end");
            return refuse(
                out,
                path,
                &reason,
                "add `# END bedplate` below its last line, or remove its lines, including `# BEGIN bedplate`",
            );
        }
    };
    let ours = conf.own_settings();
    let target: Vec<(&str, &str)> =
        wanted.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect();
    let outdone =
        |(name, value): &(&str, &str)| target.iter().any(|(n, v)| n == name && v != value);
    later(&conf, path, &target, out);
    if ours == target && !conf.before().iter().any(outdone) {
        out.unchanged.extend(ours.iter().map(|(name, value)| {
            NAME.up_to_date((*name).to_owned(), format!("{value}, in {path}"))
        }));
        return;
    }
    let after = conf.with(&conf::block(wanted, &context.profile.name));
    out.changes.push(file.change(after, items(wanted, &conf)));
}

fn refuse(out: &mut KindPlan, path: &str, reason: &str, fix: &str) {
    out.blockers.push(NAME.blocker(path, reason.to_owned(), fix.to_owned()));
}

/// Returns the differences between a job's current and desired values.
fn items(wanted: &[Variable], conf: &Conf) -> Vec<Item> {
    let now = |name: &str| {
        let mut all = conf.before().into_iter().chain(conf.own_settings());
        all.find(|(own, _)| *own == name).map(|(_, value)| value.to_owned())
    };
    let set = wanted.iter().filter(|one| now(&one.name).as_ref() != Some(&one.value));
    let set =
        set.map(|one| Item::new(&one.name, now(&one.name).as_deref(), Some(&one.value), &one.why));
    let is_wanted = |name: &str| wanted.iter().any(|one| one.name == name);
    let gone = conf.own_settings().into_iter().filter(|(name, _)| !is_wanted(name));
    let mut items: Vec<Item> = set.chain(gone.map(|(name, value)| removed(name, value))).collect();
    if items.is_empty() {
        // The same lines in another order.
        items.extend(wanted.first().map(|one| {
            Item::new("order of the variables", Some("as edited"), Some("by name"), &one.why)
        }));
    }
    items
}

/// Notes unmanaged lines that bedplate's block overrides.
fn later(conf: &Conf, path: &str, target: &[(&str, &str)], out: &mut KindPlan) {
    let other = |(_, (name, value)): &(usize, (&str, &str))| {
        target.iter().any(|(own, wanted)| own == name && wanted != value)
    };
    let notes = conf.unmanaged_settings().into_iter().filter(other).map(|(line, (name, value))| {
        NAME.note(
            name.to_owned(),
            format!("{path}:{line} sets {value}, without effect: bedplate's line comes first"),
        )
    });
    out.notes.extend(notes);
}
