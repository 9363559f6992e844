//! Rebuilds of the initramfs: the tool, and pending rebuilds.

use super::NAME;
use super::initramfs_rebuild::is_rebuilt;
use crate::kind::{Context, OWED_LIMIT_S, owed_change};
use crate::modules_conf::MODPROBE_PATH;
use crate::plan::{Action, Change, Item, KindPlan, Rationale, SettledTool, ToolUndo};
use bedplate_host::{HostKind, Reader};

/// Tools that rebuild an initramfs, by the file that proves their presence. If both exist, update-initramfs belongs to the
/// package that builds: dracut ships its own, which calls dracut, names the file for the boot loader and runs hooks of
/// other packages; or initramfs-tools builds and dracut lacks its package (handbook §9).
const TOOLS: [(&str, &[&str]); 2] = [
    ("/usr/sbin/update-initramfs", &["update-initramfs", "-u", "-k", "all"]),
    ("/usr/bin/dracut", &["dracut", "--force", "--regenerate-all"]),
];

fn tool(reader: &dyn Reader) -> Option<Action> {
    let (_, argv) = TOOLS.iter().find(|(proof, _)| reader.exists(proof) == Ok(true))?;
    Some(Action::RunTool {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        purpose: "rebuild the initramfs, which may load modules with their old options".into(),
        touches: Vec::new(),
        undo: ToolUndo::Repeat,
        limit_s: OWED_LIMIT_S,
    })
}

/// Adds a rebuild. Always needed: only unpacking an initramfs would show whether it contains the module.
pub(crate) fn rebuild(context: &Context, change: &mut Change, section: &mut KindPlan) {
    match tool(context.reader) {
        Some(tool) => change.actions.push(tool),
        None => section.notes.push(NAME.note(
            MODPROBE_PATH,
            "update-initramfs and dracut not found; rebuild the initramfs by hand if it contains one of these modules",
        )),
    }
}

/// Runs a pending rebuild, even if the file is unchanged, unless another tool has demonstrably rebuilt it.
pub(crate) fn pending_rebuild(context: &Context, section: &mut KindPlan) {
    for owed in context.ledger.owed.iter().filter(|owed| owed.kind == NAME) {
        // An image that bedplate was interrupted in writing may be new but incomplete.
        if !owed.begun && is_rebuilt(context, owed) {
            let (argv, after) = (owed.argv.clone(), None);
            section.settled_tools.push(SettledTool { kind: NAME, argv, after });
            let (subject, state) =
                ("initramfs".to_owned(), format!("rebuilt since {MODPROBE_PATH} changed"));
            section.unchanged.push(NAME.up_to_date(subject, state));
            continue;
        }
        let why = Rationale::because(match context.reader.kind() {
            HostKind::Image => {
                "modprobe.d changed, and some kernels have no newer initramfs: rebuild with `bedplate apply \
                 --chroot-tools`, or report it done with `--ran`"
            }
            _ => "an earlier apply changed modprobe.d, but this tool has not succeeded since",
        });
        let item = Item::new("initramfs", Some("older than modprobe.d"), Some("rebuilt"), &[why]);
        section.changes.push(owed_change(NAME, owed, "initramfs", item));
    }
}
