//! `--allow-lint`: allows an error-level lint, with a reason.

// The help names sections of the profile in brackets.
#![allow(rustdoc::broken_intra_doc_links)]

use clap::Args;

use bedplate_core::plan::allowed_lints::AllowedLint;
use bedplate_core::profile;

/// Lints that are let pass.
#[derive(Debug, Clone, Args)]
pub(crate) struct LintArgs {
    /// Let a lint of level error pass, which would otherwise stop the command (exit status 4); the history keeps the reason. Can
    /// be given several times. For the daemon: `allow` in [lints] of the profile.
    #[arg(long, value_name = "ID=REASON", value_parser = allowed, help_heading = "Profile")]
    pub allow_lint: Vec<AllowedLint>,
}

fn allowed(text: &str) -> Result<AllowedLint, String> {
    let (id, reason) = text.split_once('=').unwrap_or((text, ""));
    if !profile::lint_ids().contains(&id) {
        let near = profile::nearest(id, profile::lint_ids())
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(format!("no lint is called `{id}`{near}"));
    }
    match reason.trim() {
        "" => Err("a reason is missing: write ID=REASON".to_owned()),
        reason => Ok(AllowedLint { id: id.to_owned(), reason: reason.to_owned() }),
    }
}
