//! `[lints]`: error-level lints that the profile allows, with reasons.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::plan::allowed_lints::AllowedLint;
use crate::section::{Checker, Printer, Reason, Spanned, key_of, quoted, section, toml_text};

section! {
    /// `[lints]`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    "lints" Lints, LintsFile {}
    special read_allowed {
        /// Allowed lints of error level, `allow = { "ID" = "why" }`; `bedplate profile check` shows the ids. Any other
        /// lint of that level stops `plan --exit-code`, `apply`, `render`, and the daemon. Plans and the history show
        /// the reason.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{ "iommu-on-arm": "one profile for x86 and Arm nodes" }])
        )]
        allow: BTreeMap<Spanned<String>, Spanned<String>>;
    }
    before {
        /// Allowed lints, by id.
        allow: Vec<AllowedLint>;
    }
    show show_allowed;
}

fn read_allowed(section: &mut Lints, files: Vec<LintsFile>, checker: &mut Checker<'_>) {
    let mut allowed = BTreeMap::new();
    for (id, reason) in files.into_iter().filter_map(|file| file.allow).flatten() {
        if reason.value.trim().is_empty() {
            let message = format!("lint `{}` is allowed without a reason", id.value);
            let help = "plans and the history show the reason";
            checker.error(reason.place, "no-reason", message, "add a reason", Some(help));
            continue;
        }
        checker.note(&key_of("lints.allow", &id.value), reason.place, Reason::NONE);
        allowed.insert(id.value, reason.value);
    }
    section.allow = allowed.into_iter().map(|(id, reason)| AllowedLint { id, reason }).collect();
}

fn show_allowed(section: &Lints, out: &mut Printer<'_>) {
    for AllowedLint { id, reason } in &section.allow {
        let line = format!("allow.{} = {}", quoted(id), toml_text(reason));
        out.line(&line, Some(&key_of("lints.allow", id)));
    }
}
