//! `--allow-lint`: allows an error-level lint, with a reason.

// The help names sections of the profile in brackets.
#![allow(rustdoc::broken_intra_doc_links)]

use clap::Args;

use bedplate_core::plan::allowed_lints::AllowedLint;
use bedplate_core::profile;

/// Lints to allow.
#[derive(Debug, Clone, Args)]
pub(crate) struct LintArgs {
    /// Allow an error-level lint, which would otherwise stop the command (exit status 4). The history records the
    /// reason. Repeatable. For the daemon, use `allow` in [lints] of the profile.
    #[arg(long, value_name = "ID=REASON", value_parser = allowed, help_heading = "Profile")]
    pub allow_lint: Vec<AllowedLint>,
}

fn allowed(text: &str) -> Result<AllowedLint, String> {
    let (id, reason) = text.split_once('=').unwrap_or((text, ""));
    if !profile::lint_ids().contains(&id) {
        let near = profile::nearest(id, profile::lint_ids())
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(format!("unknown lint `{id}`{near}"));
    }
    match reason.trim() {
        "" => Err("missing reason; write ID=REASON".to_owned()),
        reason => Ok(AllowedLint { id: id.to_owned(), reason: reason.to_owned() }),
    }
}
