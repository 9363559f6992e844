//! `[verify]`: what it means on these hosts that a check of `bedplate verify` does not pass, and why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::profile::suggest::nearest;
use crate::section::{
    Checker, Finisher, Leaf, Overlay, Printer, Spanned, key_of, quoted, section, toml_text,
};
use crate::verify::{CHECKS, Override, Severity, find};

section! {
    /// `[verify]`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    "verify" Verify, VerifyFragment, VerifyLayer {}
    special severities: SeverityLayer = read_severities {
        /// What it means that a check does not pass, by its id: `fail` (the host is not ready), `warn`, or `ignore`, each with a
        /// reason, which reports show. `bedplate verify --list` shows the ids and what they mean otherwise.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{
                "pcie.mrrs": { "level": "ignore", "reason": "the vendor's firmware keeps it at 512" }
            }])
        )]
        severity: BTreeMap<Spanned<String>, SeverityTable>;
    }
    before {
        /// By id.
        severity: BTreeMap<String, Override> = finish_severities;
    }
    show show_severities;
}

/// One entry of `severity`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SeverityTable {
    /// What it means that the check does not pass.
    #[cfg_attr(feature = "schemars", schemars(example = &"warn"))]
    pub level: Spanned<Severity>,
    /// Why; reports show it.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1), example = &"the vendor's firmware keeps it at 512"))]
    pub reason: Spanned<String>,
}

/// Severities by the check's id.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SeverityLayer(BTreeMap<String, Leaf<Override>>);

impl Overlay for SeverityLayer {
    fn overlay(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }
}

fn read_severities(
    checker: &mut Checker<'_>,
    severities: Option<BTreeMap<Spanned<String>, SeverityTable>>,
) -> SeverityLayer {
    let mut read = SeverityLayer::default();
    for (id, entry) in severities.into_iter().flatten() {
        let place = checker.place(id.span.clone());
        if find(&id.value).is_none() {
            let message = format!("no check is called `{}`", id.value);
            let help = match nearest(&id.value, CHECKS.iter().map(|check| check.id)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`bedplate verify --list` shows all".to_owned(),
            };
            checker.error(place, "unknown-check", message, "not a check", Some(help));
            continue;
        }
        let (level, reason) = (checker.bare(entry.level), checker.bare(entry.reason));
        if reason.value.trim().is_empty() {
            let message =
                format!("there is no reason why `{}` is `{}`", id.value, level.value.name());
            let help = "reports show it to those who wonder later";
            checker.error(reason.place, "no-reason", message, "say why", Some(help.to_owned()));
            continue;
        }
        let said = Override { level: level.value, reason: reason.value };
        read.0.insert(id.value, Leaf::bare(said, place));
    }
    read
}

fn finish_severities(
    section: &VerifyLayer,
    finisher: &mut Finisher<'_>,
) -> BTreeMap<String, Override> {
    let mut out = BTreeMap::new();
    for (id, leaf) in &section.severities.0 {
        finisher.note(key_of("verify.severity", id), leaf);
        out.insert(id.clone(), leaf.value.clone());
    }
    out
}

fn show_severities(section: &VerifyLayer, _: &Verify, out: &mut Printer<'_>) {
    for (id, leaf) in &section.severities.0 {
        let level = toml_text(leaf.value.level.name());
        let reason = toml_text(&leaf.value.reason);
        let line = format!("severity.{} = {{ level = {level}, reason = {reason} }}", quoted(id));
        out.line(&line, Some(&key_of("verify.severity", id)));
    }
}
