//! `[verify]`: severities of `bedplate verify` checks on these hosts, with reasons.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::profile::suggest::nearest;
use crate::section::{Checker, Printer, Reason, Spanned, key_of, quoted, section, toml_text};

bedplate_base::named! {
    /// Consequence of a check that does not pass.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum Severity {
        /// The result is only shown.
        Ignore = "ignore",
        /// The host stays ready.
        Warn = "warn",
        /// The host is not ready.
        Fail = "fail",
    }
}

/// The profile's severity for a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Override {
    /// Severity of the check.
    pub level: Severity,
    /// Reason.
    pub reason: String,
}

section! {
    /// `[verify]`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    "verify" Verify, VerifyFile {}
    special read_severities {
        /// Severities of checks that do not pass, by check id: `fail` (the host is not ready), `warn`, or `ignore`,
        /// each with a reason, which reports show. `bedplate verify --list` shows the ids and default severities.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{
                "pcie.mrrs": { "level": "ignore", "reason": "the vendor's firmware keeps it at 512" }
            }])
        )]
        severity: BTreeMap<Spanned<String>, SeverityTable>;
    }
    before {
        /// By check id.
        severity: BTreeMap<String, Override>;
    }
    show show_severities;
}

/// One entry of `severity`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SeverityTable {
    /// Severity of the check.
    #[cfg_attr(feature = "schemars", schemars(example = &"warn"))]
    pub level: Spanned<Severity>,
    /// Reason, shown in reports.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1), example = &"the vendor's firmware keeps it at 512"))]
    pub reason: Spanned<String>,
}

fn read_severities(section: &mut Verify, files: Vec<VerifyFile>, checker: &mut Checker<'_>) {
    let given = files.into_iter().filter_map(|file| file.severity).flatten();
    for (id, SeverityTable { level, reason }) in given {
        if !checker.checks.contains(&id.value.as_str()) {
            let message = format!("unknown check `{}`", id.value);
            let help = match nearest(&id.value, checker.checks.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`bedplate verify --list` lists all checks".to_owned(),
            };
            checker.error(id.place, "unknown-check", message, "unknown", Some(&help));
            continue;
        }
        if reason.value.trim().is_empty() {
            let message =
                format!("check `{}` is set to `{}` without a reason", id.value, level.value.name());
            let help = "reports show the reason";
            checker.error(reason.place, "no-reason", message, "add a reason", Some(help));
            continue;
        }
        checker.note(&key_of("verify.severity", &id.value), id.place, Reason::NONE);
        let (level, reason) = (level.value, reason.value);
        section.severity.insert(id.value, Override { level, reason });
    }
}

fn show_severities(section: &Verify, out: &mut Printer<'_>) {
    for (id, Override { level, reason }) in &section.severity {
        let (level, reason) = (toml_text(level.name()), toml_text(reason));
        let line = format!("severity.{} = {{ level = {level}, reason = {reason} }}", quoted(id));
        out.line(&line, Some(&key_of("verify.severity", id)));
    }
}
