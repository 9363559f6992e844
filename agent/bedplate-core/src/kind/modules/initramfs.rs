//! Rebuilds of the initramfs: the command for the boot loader of this host, and pending rebuilds.

use super::NAME;
use super::dracut::{self, DRACUT};
use super::initramfs_rebuild::is_rebuilt;
use crate::kind::cmdline::{self, Obstacle, SDBOOTUTIL_PATH, check_initramfs_rebuild};
use crate::kind::{Context, OWED_LIMIT_S, owed_change};
use crate::modules_conf::MODPROBE_PATH;
use crate::plan::{Action, Item, KindPlan, Rationale, SettledTool, ToolUndo};
use bedplate_facts::boot::is_bootc_composefs;
use bedplate_facts::{BootLoader, Facts};
use bedplate_host::{HostKind, Reader};

const UPDATE_INITRAMFS: &str = "/usr/sbin/update-initramfs";
/// Tools that rebuild an initramfs, by the file that proves their presence. If both exist, update-initramfs belongs to the
/// package that builds: dracut ships its own, which calls dracut, names the file for the boot loader and runs hooks of
/// other packages; or initramfs-tools builds and dracut lacks its package (handbook §9).
const TOOLS: [(&str, &[&str]); 2] = [
    (UPDATE_INITRAMFS, &["update-initramfs", "-u", "-k", "all"]),
    (DRACUT, &["dracut", "--force", "--regenerate-all"]),
];
/// Command for boot entries of sdbootutil. They name the initramfs by a checksum of its content (handbook §9).
const SDBOOTUTIL: [&str; 2] = ["sdbootutil", "mkinitrd"];
/// Exists on every host with deployments of OSTree, also on one without rpm-ostree and bootc.
const OSTREE_BOOTED: &str = "/run/ostree-booted";
/// Reason to refuse dracut with a boot loader that bedplate does not manage.
const NOT_LOADED: &str = "dracut alone would write an initramfs that the boot loader may not load";

/// Returns the commands that replace the initramfs that this host boots. Empty if no tool is installed.
///
/// # Errors
/// If the initramfs belongs to an image, or if the boot loader would not, or may not, load the one that the installed
/// tool writes.
pub(crate) fn commands(reader: &dyn Reader, facts: &Facts) -> Result<Vec<Vec<String>>, Obstacle> {
    let has = |path: &str| reader.exists(path) == Ok(true);
    let words = |argv: &[&str]| argv.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let only_dracut = || has(DRACUT) && !has(UPDATE_INITRAMFS);
    let is_image = facts.host == HostKind::Image;
    match &facts.boot {
        BootLoader::Sdbootutil { .. } => Ok(vec![words(&SDBOOTUTIL)]),
        BootLoader::RpmOstree | BootLoader::Bootc if !is_image => Err(of_the_image(&facts.boot)),
        BootLoader::RpmOstree | BootLoader::Bootc if has(DRACUT) => dracut::in_image(reader, facts),
        BootLoader::RpmOstree | BootLoader::Bootc => Ok(Vec::new()),
        BootLoader::Unmanaged { .. } if only_dracut() && is_bootc_composefs(reader) => {
            Err(of_the_image(&facts.boot))
        }
        BootLoader::Unmanaged { reason, .. } if only_dracut() => Err(Obstacle {
            reason: format!("{NOT_LOADED}: {reason}"),
            fix: format!(
                "edit {MODPROBE_PATH} by hand and rebuild the initramfs that the boot loader loads, then plan again"
            ),
        }),
        BootLoader::Unknown { .. } if only_dracut() && has(OSTREE_BOOTED) => {
            Err(of_the_image(&facts.boot))
        }
        // The boot entries may be sdbootutil's.
        BootLoader::Unknown { reason, fix } if only_dracut() && has(SDBOOTUTIL_PATH) => {
            Err(Obstacle { reason: format!("{NOT_LOADED}: {reason}"), fix: fix.clone() })
        }
        BootLoader::SystemdBoot { uki: true } if only_dracut() => Err(Obstacle {
            reason: "this host boots unified kernel images, and dracut alone would write an initramfs that nothing loads"
                .into(),
            fix: format!(
                "edit {MODPROBE_PATH} by hand and run `kernel-install add RELEASE IMAGE` for each kernel, then plan again"
            ),
        }),
        _ => {
            if only_dracut() {
                dracut::replaces_loaded(reader, facts)?;
            }
            let tool = TOOLS.iter().find(|(proof, _)| has(proof));
            Ok(tool.map(|(_, argv)| words(argv)).into_iter().collect())
        }
    }
}

/// Returns the refusal of a change that would not reach the initramfs of the host.
fn of_the_image(boot: &BootLoader) -> Obstacle {
    let on_host = match boot {
        BootLoader::RpmOstree => format!(
            ", or edit {MODPROBE_PATH} by hand, run `rpm-ostree initramfs-etc --track {MODPROBE_PATH}` and reboot"
        ),
        _ => String::new(),
    };
    Obstacle {
        reason: "modules that the initramfs loads read their options there, and this host's initramfs belongs to its \
                 image"
            .into(),
        fix: format!("run `bedplate apply --root` in the image build{on_host}"),
    }
}

fn run(argv: Vec<String>, reader: &dyn Reader) -> Action {
    Action::RunTool {
        touches: touched(&argv, reader),
        argv,
        purpose: "rebuild the initramfs, which may load modules with their old options".into(),
        undo: ToolUndo::Repeat,
        limit_s: OWED_LIMIT_S,
    }
}

/// Returns globs of the files to save before a command: the boot entries, if it makes them again.
fn touched(argv: &[String], reader: &dyn Reader) -> Vec<String> {
    match is_mkinitrd(argv) {
        true => cmdline::written_entries(reader),
        false => Vec::new(),
    }
}

/// Returns the actions of a rebuild. Always needed: only unpacking an initramfs would show whether it contains the module.
///
/// # Errors
/// As [`commands`]; also if the tool would change more than the initramfs.
pub(crate) fn rebuild(context: &Context, section: &mut KindPlan) -> Result<Vec<Action>, Obstacle> {
    let commands = commands(context.reader, context.facts)?;
    if commands.is_empty() {
        let missing = missing(context.reader, &context.facts.boot);
        section.notes.push(NAME.note(
            MODPROBE_PATH,
            format!(
                "{missing} not found; rebuild the initramfs by hand if it contains one of these modules"
            ),
        ));
    }
    let mut actions = Vec::new();
    for argv in commands {
        let check = check(context, &argv, false)?;
        actions.push(run(argv, context.reader));
        actions.extend(check);
    }
    Ok(actions)
}

/// Returns the tool or file that a rebuild needs and this host lacks.
fn missing(reader: &dyn Reader, boot: &BootLoader) -> &'static str {
    let is_image = matches!(boot, BootLoader::RpmOstree | BootLoader::Bootc);
    match is_image && reader.exists(DRACUT) == Ok(true) {
        true => "kernel image /usr/lib/modules/RELEASE/vmlinuz",
        false => "update-initramfs and dracut",
    }
}

/// Returns the check that must follow a command, if that also makes the boot entries again.
///
/// # Errors
/// As [`check_initramfs_rebuild`]; also on a host for a command that the image build has left pending: /usr is read-only
/// there.
fn check(context: &Context, argv: &[String], is_pending: bool) -> Result<Option<Action>, Obstacle> {
    if is_mkinitrd(argv) {
        return check_initramfs_rebuild(context, is_pending);
    }
    match dracut::is_of_image(argv) && context.facts.host != HostKind::Image {
        true => Err(of_the_image(&context.facts.boot)),
        false => Ok(None),
    }
}

/// Whether the command is sdbootutil's, which also makes the boot entries again.
pub(crate) fn is_mkinitrd(argv: &[String]) -> bool {
    *argv == SDBOOTUTIL
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
        let check = match check(context, &owed.argv, true) {
            Ok(check) => check,
            Err(Obstacle { reason, fix }) => {
                section.blockers.push(NAME.blocker("initramfs", reason, fix));
                continue;
            }
        };
        let why = Rationale::because(match context.reader.kind() {
            HostKind::Image => {
                "modprobe.d changed, and some kernels have no newer initramfs: rebuild with `bedplate apply \
                 --chroot-tools`, or report it done with `--ran`"
            }
            _ => "an earlier apply changed modprobe.d, but this tool has not succeeded since",
        });
        let item = Item::new("initramfs", Some("older than modprobe.d"), Some("rebuilt"), &[why]);
        let touches = touched(&owed.argv, context.reader);
        let mut change = owed_change(NAME, owed, "initramfs", item, touches);
        change.actions.extend(check);
        section.changes.push(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::kind_of_command;
    use bedplate_base::CpuVendor;
    use bedplate_host::snapshot::{Node, Snapshot};

    /// Returns the commands, or the fix of the refusal.
    fn of(boot: BootLoader, host: HostKind, files: &[&str]) -> Result<Vec<String>, String> {
        let mut snapshot = Snapshot::new(false);
        for path in files.iter().chain(&["/usr/lib/modules/6.12.0-1/vmlinuz"]) {
            snapshot.insert(path, Node::Present);
        }
        snapshot.complete();
        let mut facts = Facts { host, boot, ..Facts::of_vendor(CpuVendor::Intel) };
        facts.os.installed_kernels = ["6.11.0-1", "6.12.0-1"].map(str::to_owned).to_vec();
        let commands = commands(&snapshot, &facts).map_err(|obstacle| obstacle.fix)?;
        Ok(commands.iter().map(|argv| argv.join(" ")).collect())
    }

    fn unmanaged() -> BootLoader {
        BootLoader::Unmanaged { reason: String::new(), fix: String::new() }
    }

    fn unknown() -> BootLoader {
        BootLoader::Unknown { reason: String::new(), fix: "set LOADER_TYPE".into() }
    }

    #[test]
    fn command_replaces_the_initramfs_of_the_loader() {
        let both = [UPDATE_INITRAMFS, DRACUT];
        let of_debian = vec!["update-initramfs -u -k all".to_owned()];
        let (live, image) = (HostKind::Live, HostKind::Image);
        for (boot, host, programs, expected) in [
            (BootLoader::GrubBls, live, &both[1..], vec!["dracut --force --regenerate-all"]),
            (unknown(), live, &both[1..], vec!["dracut --force --regenerate-all"]),
            (BootLoader::Sdbootutil { grub: true }, live, &both[1..], vec!["sdbootutil mkinitrd"]),
            (BootLoader::Bootc, image, &both[..1], vec![]),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(of(boot.clone(), host, programs), Ok(expected), "{boot:?}");
        }
        // In Debian, the package of either tool has the hooks for the boot loader.
        for boot in [BootLoader::GrubDebian, BootLoader::SystemdBoot { uki: true }, unmanaged()] {
            assert_eq!(of(boot.clone(), live, &both), Ok(of_debian.clone()), "{boot:?}");
        }
    }

    #[test]
    fn image_gets_dracut_modules_for_deployments() {
        let modules =
            ["/usr/lib/dracut/modules.d/98ostree/x", "/usr/lib/dracut/modules.d/51bootc/x"];
        let of_image = |files: &[&str]| {
            of(BootLoader::Bootc, HostKind::Image, &[&[DRACUT][..], files].concat())
        };
        for (files, add) in [
            (&modules[..1], "--add ostree"),
            (&modules[1..], "--add bootc"),
            (&modules[..], "--add ostree --add bootc"),
        ] {
            let expected = format!(
                "dracut --force --no-hostonly {add} --install-optional /etc/modprobe.d/zz-bedplate.conf \
                 /usr/lib/modules/6.12.0-1/initramfs.img 6.12.0-1"
            );
            let argv: Vec<String> = expected.split(' ').map(str::to_owned).collect();
            assert_eq!(kind_of_command(&argv), Some(NAME), "{expected}");
            assert_eq!(of_image(files), Ok(vec![expected]));
        }
        let refused = of_image(&[]).expect_err("refused");
        assert!(refused.contains("dracut's module ostree"), "{refused}");
    }

    #[test]
    fn unloaded_initramfs_is_refused() {
        for (boot, file, fix) in [
            (BootLoader::RpmOstree, DRACUT, "rpm-ostree initramfs-etc --track "),
            (BootLoader::Bootc, DRACUT, "bedplate apply --root"),
            (unmanaged(), "/boot/loader/entries/bootc_a-1-1.conf", "bedplate apply --root"),
            (unmanaged(), DRACUT, "rebuild the initramfs that the boot loader loads"),
            (unknown(), SDBOOTUTIL_PATH, "set LOADER_TYPE"),
            (unknown(), OSTREE_BOOTED, "bedplate apply --root"),
            (BootLoader::SystemdBoot { uki: true }, DRACUT, "kernel-install add"),
        ] {
            let found = of(boot.clone(), HostKind::Live, &[DRACUT, file]).expect_err("refused");
            assert!(found.contains(fix), "{boot:?}: {found}");
        }
    }
}
