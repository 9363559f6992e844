//! Arguments of the profile that the kernels of this host do not read because they belong to another architecture.

use super::NAME;
use crate::kind::{Context, some_of};
use crate::plan::KindPlan;
use bedplate_base::{Arch, Reading};
use bedplate_cmdline::only_on;

/// Maximum number of arguments that the note names.
const FEW: usize = 6;

/// Adds a note on them: they are written as requested, but have no effect.
pub(crate) fn report(context: &Context, section: &mut KindPlan) {
    let Reading::Known(arch) = &context.facts.arch else { return };
    let tokens = context.desired.cmdline.set.iter().map(|arg| arg.token.as_str());
    let inert: Vec<String> = tokens
        .filter(|token| only_on(token).is_some_and(|only| only != *arch))
        .map(|token| format!("`{token}`"))
        .collect();
    if inert.is_empty() {
        return;
    }
    let verb = if inert.len() == 1 { "has" } else { "have" };
    let theirs = if *arch == Arch::X86_64 { "64-bit Arm" } else { "x86" };
    let named = some_of(inert.into_iter(), FEW, "arguments");
    let text = format!(
        "{named} {verb} no effect on this host: only {theirs} kernels read this (handbook §1.7)"
    );
    section.notes.push(NAME.note("arguments of another architecture", text));
}
