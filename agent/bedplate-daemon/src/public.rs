//! Public part of an observation: bus, status file, metrics, labels and log show this and nothing else. It contains changes,
//! their location, and argument names with harmless values. It never contains file contents, not even of world-readable
//! files, nor the operator's own texts in a profile. Pure.

use std::collections::BTreeSet;

use toml::{Table, Value};

use bedplate_base::chain;
use bedplate_base::mask::{self, MASKED};
use bedplate_core::apply::{Outcome, last_lines};
use bedplate_core::engine::EngineError;
use bedplate_core::engine::profile_source::SourceError;
use bedplate_core::kind;
use bedplate_core::kind::cmdline::diagnosis::Cause;
use bedplate_core::plan::{
    Action, BOOT_ENTRY, Change, FileContent, Item, KindId, Plan, Rationale, ToolUndo,
};
use bedplate_core::profile::{self, Diagnostic};
use bedplate_core::setting::WriteAttribute;

/// Replaces a reason that the operator wrote.
const ASKED: &str = "requested by the profile";
/// Appended to a shortened text.
const MORE: &str = "run `bedplate profile check` as root for details";

/// The operator's own texts in a profile: reasons, sources, descriptions.
#[derive(Debug, Default)]
pub struct OperatorWords(BTreeSet<String>);

impl OperatorWords {
    /// Gathers them from the texts of profile files.
    pub fn gather_from<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut words = OperatorWords::default();
        for table in texts.into_iter().filter_map(|text| text.parse::<Table>().ok()) {
            words.gather(&Value::Table(table), "");
        }
        words
    }

    fn gather(&mut self, value: &Value, key: &str) {
        match value {
            Value::String(text) if ["why", "source", "description", "allow"].contains(&key) => {
                self.0.insert(text.clone());
            }
            // A table of allowed lints: the keys are lints, the values reasons.
            Value::Table(table) if key == "allow" => {
                table.values().for_each(|value| self.gather(value, key));
            }
            Value::Table(table) => table.iter().for_each(|(key, value)| self.gather(value, key)),
            Value::Array(values) => values.iter().for_each(|value| self.gather(value, key)),
            _ => {}
        }
    }

    fn why(&self, why: &Rationale) -> Rationale {
        let reason = match self.0.contains(&why.reason) {
            true => ASKED.to_owned(),
            false => mask::mask_message(&why.reason),
        };
        let source = why.source.clone().filter(|source| !self.0.contains(source));
        Rationale { reason, source, is_place: why.is_place }
    }
}

/// Returns the public form of a plan.
pub fn plan(plan: &Plan, words: &OperatorWords) -> Plan {
    let mut plan = plan.clone();
    let body = &mut plan.body;
    body.changes.iter_mut().for_each(|one| change(one, words));
    for blocker in &mut body.blockers {
        masked([&mut blocker.subject.text, &mut blocker.reason, &mut blocker.fix]);
        if kind::privacy(blocker.kind).quotes_files {
            blocker.reason = mask::quotations(&blocker.reason, &|_| false);
        }
    }
    for unknown in &mut body.unknowns {
        masked([&mut unknown.subject.text, &mut unknown.reason]);
    }
    for setting in &mut body.unchanged {
        masked([&mut setting.subject, &mut setting.state]);
        if kind::privacy(setting.kind).quotes_files {
            setting.state = "matches the profile".to_owned();
        }
    }
    for note in &mut body.notes {
        masked([&mut note.subject, &mut note.text]);
        if kind::privacy(note.kind).quotes_files {
            note.text = "run `bedplate plan` as root to see it".to_owned();
        }
        if note.kind == KindId::Profile
            && body.allowed.iter().any(|one| note.text.contains(&one.reason))
        {
            note.text = "allowed with a reason in the profile".to_owned();
        }
    }
    for pending in &mut body.pending {
        let values = [pending.running.as_mut(), pending.next.as_mut()].into_iter().flatten();
        masked(values.chain([&mut pending.subject]));
    }
    body.allowed.iter_mut().for_each(|one| MASKED.clone_into(&mut one.reason));
    masked(plan.next_boot.reasons_mut());
    let of_blockers = plan.body.blockers.iter_mut().map(|one| (&one.subject, &mut one.reason));
    let of_unknowns = plan.body.unknowns.iter_mut().map(|one| (&one.subject, &mut one.reason));
    let of_entry = of_blockers.chain(of_unknowns).filter(|(subject, _)| subject.text == BOOT_ENTRY);
    let reasons = of_entry.map(|(_, reason)| reason).chain(plan.next_boot.reasons_mut());
    reasons.for_each(|reason| *reason = without_file_names(reason));
    plan
}

/// Masks file names that a boot entry chooses freely: the menu may be readable by root only.
fn without_file_names(text: &str) -> String {
    const USUAL: [&str; 6] = ["vmlinuz", "initrd", "initramfs", "linux", "grub.cfg", "Image"];
    let shown = |word: &str| {
        let name = word.rsplit('/').next().unwrap_or_default();
        let is_path =
            word.contains('/') && !word.starts_with("/etc/") && !word.starts_with("/lib/");
        let is_usual = USUAL.iter().any(|usual| name.starts_with(usual))
            || word.starts_with("/boot/loader/entries")
            || matches!(
                word.trim_end_matches([',', ';', ':']),
                "/" | "/boot" | "/boot/efi" | "/efi"
            );
        if is_path && !is_usual { MASKED.to_owned() } else { word.to_owned() }
    };
    text.split(' ').map(shown).collect::<Vec<_>>().join(" ")
}

fn masked<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    texts.into_iter().for_each(|text| *text = mask::mask_message(text));
}

fn change(change: &mut Change, words: &OperatorWords) {
    masked([&mut change.subject.text, &mut change.id]);
    for item in &mut change.items {
        item.why = item.why.iter().map(|why| words.why(why)).collect();
        values(change.kind, item);
    }
    masked(&mut change.disrupts);
    // Previous file contents, for the ledger.
    change.owns = None;
    change.actions.iter_mut().for_each(action);
}

/// Masks the values of an item. Most values are arguments with a name. Those of some resource types, and of
/// module options, have none.
fn values(kind: KindId, item: &mut Item) {
    let alone = kind::privacy(kind).bare_values || item.subject.starts_with("options ");
    for value in [&mut item.before, &mut item.after].into_iter().flatten() {
        *value = if alone { alone_standing(value) } else { mask::mask_message(value) };
    }
    item.subject = mask::mask_message(&item.subject);
}

fn alone_standing(value: &str) -> String {
    match mask::is_plain(value) || mask::is_numeric(value) {
        true => value.to_owned(),
        false => MASKED.to_owned(),
    }
}

fn action(action: &mut Action) {
    match action {
        Action::ReplaceFile { before, after, .. } => {
            for content in [before, after].into_iter().flatten() {
                *content = FileContent::redacted();
            }
        }
        Action::WriteAttribute(WriteAttribute { path, before, after, .. })
            if path.starts_with("/proc/sys/") =>
        {
            for value in [before, after] {
                *value = alone_standing(value);
            }
        }
        Action::RunTool { argv, purpose, undo, .. } => {
            masked(argv.iter_mut().chain([purpose]));
            if let ToolUndo::Run { argv } = undo {
                masked(argv);
            }
        }
        Action::Verify(bedplate_core::plan::Check::NextBoot { present, absent, before }) => {
            masked(present.iter_mut().chain(absent));
            // Arguments of other tools on the line.
            *before = None;
        }
        // No secret text: shown unmasked. The match is exhaustive, so that each new action is considered.
        Action::WriteAttribute(_)
        | Action::SetConfigBits(_)
        | Action::SetVf(_)
        | Action::SetEswitch(_)
        | Action::BindVfs { .. }
        | Action::LoadModule { .. }
        | Action::UnloadModule { .. }
        | Action::Verify(bedplate_core::plan::Check::ModuleLive { .. }) => {}
    }
}

/// Returns why a change failed, with the last lines that a tool printed. Text that may be from a file is masked.
pub(crate) fn failure(outcome: &Outcome) -> Option<String> {
    let mut outcome = outcome.clone();
    let mut printed = String::new();
    if let Outcome::Failed { output, .. } = &mut outcome
        && let Some(output) = output.take()
    {
        printed = last_lines(&mask::tool_output::masked(&output))
            + "; run `bedplate history` as root for its full output";
    }
    outcome.failure().map(|why| mask::mask_message(&why) + &printed)
}

/// Masks the cause of a pending change that is not in effect.
pub(crate) fn cause(cause: Cause) -> Cause {
    match cause {
        Cause::Rejected { said } => {
            Cause::Rejected { said: said.map(|line| mask::mask_message(&line)) }
        }
        cause => cause,
    }
}

/// Returns why the host was not observed.
pub fn error(error: &EngineError) -> String {
    match error {
        EngineError::Profile(SourceError::Invalid(findings)) => invalid(findings),
        // Parsers quote the text that they cannot parse.
        EngineError::Ledger(_) => {
            let ours = |word: &str| word.starts_with("chown ") || word.starts_with("chmod ");
            mask::quotations(&mask::mask_message(&chain(error)), &ours)
        }
        error => mask::mask_message(&chain(error)),
    }
}

/// Returns the first finding with its position, and the number of further ones.
fn invalid(findings: &[Diagnostic]) -> String {
    let Some(first) = findings.first() else { return "the profile cannot be used".to_owned() };
    let more = match findings.len() {
        1 => String::new(),
        2 => " and 1 more finding".to_owned(),
        all => format!(" and {} more findings", all - 1),
    };
    let message = mask::mask_message(&mask::quotations(&first.message, &profile::is_schema_word));
    let (line, column) = first.line_column();
    format!("{}:{line}:{column}: {message}{more}; {MORE}", first.file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_core::apply::Restored;

    /// Tools quote the lines that they cannot parse.
    #[test]
    fn tool_output_is_shown_with_quotes_masked() {
        let failed = Outcome::Failed {
            action: "run grubby --remove-args=password=hunter2".into(),
            why: "grubby --remove-args=password=hunter2: exit status 1".into(),
            output: Some("/etc/default/grub: 3: hunter2: not found\n".into()),
            restored: Restored::default(),
        };
        let said = failure(&failed).unwrap();
        assert!(!said.contains("hunter2"), "{said}");
        assert!(said.contains("exit status 1 | /etc/default/grub: 3: …: not found;"), "{said}");
        assert!(said.contains("`bedplate history`"), "{said}");
        assert_eq!(failure(&Outcome::Done), None);
    }

    #[test]
    fn operator_texts_are_replaced() {
        let words =
            OperatorWords::gather_from(["[x]\nwhy = \"hunter2\"\nallow = { a = \"hunter3\" }"]);
        let why = |reason: &str| words.why(&Rationale::new(reason, "handbook §1")).reason;
        assert_eq!((why("hunter2").as_str(), why("hunter3").as_str()), (ASKED, ASKED));
        assert_eq!(why("a fact"), "a fact");
    }

    #[test]
    fn kernel_log_lines_are_masked() {
        let said = Some("Unknown parameters iommu=pt token=hunter2".to_owned());
        let Cause::Rejected { said: Some(line) } = cause(Cause::Rejected { said }) else {
            panic!()
        };
        assert_eq!(line, "Unknown parameters iommu=pt token=…");
    }
}
