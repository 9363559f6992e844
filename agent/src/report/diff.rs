//! `plan --diff`: a unified diff of every file, and one line for each register, attribute and tool.

use std::fmt::Write as _;

use similar::TextDiff;

use super::style::{GONE, GOOD, HEAD, paint};
use crate::plan::{Action, FileContent, Plan};

/// The plan as a patch that people and CI can read.
pub fn plan(plan: &Plan) -> String {
    let mut out = String::new();
    for change in &plan.body.changes {
        if change.actions.is_empty() {
            continue;
        }
        let deferred = change.deferred.as_ref().map_or("", |_| " (deferred)");
        let _ = writeln!(out, "{}", paint(HEAD, &format!("# {}{deferred}", change.id)));
        for action in &change.actions {
            one(&mut out, action);
        }
    }
    out
}

fn one(out: &mut String, action: &Action) {
    match action {
        Action::ReplaceFile { path, before, after } => {
            file(out, path, before.as_ref(), after.as_ref())
        }
        Action::WriteAttribute { path, before, after, .. } => {
            let _ = writeln!(out, "{}", paint(GONE, &format!("-{path}: {before}")));
            let _ = writeln!(out, "{}", paint(GOOD, &format!("+{path}: {after}")));
        }
        Action::SetConfigBits { address, offset, mask, value, before, register } => {
            let after = (before & !mask) | (value & mask);
            let _ = writeln!(
                out,
                "{}",
                paint(GONE, &format!("-{address} {register} [{offset:#05x}].w = {before:04x}"))
            );
            let _ = writeln!(
                out,
                "{}",
                paint(GOOD, &format!("+{address} {register} [{offset:#05x}].w = {after:04x}"))
            );
        }
        Action::RunTool { argv, .. } => {
            let _ = writeln!(out, "# run: {}", argv.join(" "));
        }
        Action::LoadModule { module } => {
            let _ = writeln!(out, "{}", paint(GOOD, &format!("+module {module} loaded")));
        }
        Action::UnloadModule { module } => {
            let _ = writeln!(out, "{}", paint(GONE, &format!("-module {module} loaded")));
        }
        Action::BindVfs { pf, count, driver, .. } => {
            let _ =
                writeln!(out, "{}", paint(GOOD, &format!("+{pf}: {count} VFs bound to {driver}")));
        }
        Action::Verify(_) => {}
    }
}

fn file(out: &mut String, path: &str, before: Option<&FileContent>, after: Option<&FileContent>) {
    let text = |content: Option<&FileContent>| {
        content
            .map(|content| String::from_utf8_lossy(&content.bytes).into_owned())
            .unwrap_or_default()
    };
    let (old, new) = (text(before), text(after));
    let relative = path.trim_start_matches('/');
    let name = |prefix: &str, there: bool| {
        if there { format!("{prefix}/{relative}") } else { "/dev/null".to_owned() }
    };
    let diff = TextDiff::from_lines(old.as_str(), new.as_str());
    let unified = diff
        .unified_diff()
        .header(&name("a", before.is_some()), &name("b", after.is_some()))
        .to_string();
    for line in unified.lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') => GOOD,
            Some(b'-') => GONE,
            _ => {
                let _ = writeln!(out, "{line}");
                continue;
            }
        };
        let _ = writeln!(out, "{}", paint(style, line));
    }
}
