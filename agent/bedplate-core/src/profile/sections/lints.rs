//! `[lints]`: which lints of level error are let pass, and why.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::plan::allowed_lints::AllowedLint;
use crate::section::{
    Checker, Finisher, Leaf, Overlay, Printer, Spanned, key_of, quoted, section, toml_text,
};

section! {
    /// `[lints]`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    "lints" Lints, LintsFragment, LintsLayer {}
    special allowed: AllowedLayer = read_allowed {
        /// Lints of level error that are let pass, `allow = { "ID" = "why" }`; `bedplate profile check` shows the ids. Any
        /// other one stops `plan --exit-code`, `apply`, `render` and the daemon. The reason stands in plans and in the
        /// history.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{ "iommu-on-arm": "one profile for x86 and Arm nodes" }])
        )]
        allow: BTreeMap<Spanned<String>, Spanned<String>>;
    }
    before {
        /// By id.
        allow: Vec<AllowedLint> = finish_allowed;
    }
    show show_allowed;
}

/// Reasons by the lint's id.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct AllowedLayer(BTreeMap<String, Leaf<String>>);

impl AllowedLayer {
    /// Each with its place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Leaf<String>)> {
        self.0.iter().map(|(id, leaf)| (id.as_str(), leaf))
    }
}

impl Overlay for AllowedLayer {
    fn overlay(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }
}

fn read_allowed(
    checker: &mut Checker<'_>,
    allow: Option<BTreeMap<Spanned<String>, Spanned<String>>>,
) -> AllowedLayer {
    let mut allowed = AllowedLayer::default();
    for (id, reason) in allow.into_iter().flatten() {
        let reason = checker.bare(reason);
        if reason.value.trim().is_empty() {
            let message = format!("there is no reason why `{}` is let pass", id.value);
            let help = "it stands in the history, for those who ask later";
            checker.error(reason.place, "no-reason", message, "say why", Some(help.to_owned()));
            continue;
        }
        allowed.0.insert(id.value, reason);
    }
    allowed
}

fn finish_allowed(section: &LintsLayer, finisher: &mut Finisher<'_>) -> Vec<AllowedLint> {
    let mut out = Vec::new();
    for (id, leaf) in section.allowed.iter() {
        finisher.note(key_of("lints.allow", id), leaf);
        out.push(AllowedLint { id: id.to_owned(), reason: leaf.value.clone() });
    }
    out
}

fn show_allowed(section: &LintsLayer, _: &Lints, out: &mut Printer<'_>) {
    for (id, leaf) in section.allowed.iter() {
        let line = format!("allow.{} = {}", quoted(id), toml_text(&leaf.value));
        out.line(&line, Some(&key_of("lints.allow", id)));
    }
}
