//! The initramfs: which tool rebuilds it, and whether a rebuild that is owed shows to have been made.

use super::NAME;
use super::files::item;
use crate::host::{HostKind, Reader};
use crate::kind::{Context, cmdline};
use crate::modules_conf::MODPROBE_PATH;
use crate::plan::{Action, Change, Effect, KindPlan, Note, PaidTool, Settled, WayBack, Why};

/// Tools that rebuild an initramfs, by the file that proves them there. Where both are, update-initramfs is of the package that
/// builds: dracut ships its own, which calls dracut, names the file as the boot loader expects it and runs the hooks of others,
/// or dracut is there without its package, and initramfs-tools builds (handbook §9).
const TOOLS: [(&str, &[&str]); 2] = [
    ("/usr/sbin/update-initramfs", &["update-initramfs", "-u", "-k", "all"]),
    ("/usr/bin/dracut", &["dracut", "--force", "--regenerate-all"]),
];

/// Ten minutes: a regenerate-all on a slow disk with many kernels takes several.
const LIMIT_S: u32 = 600;

fn tool(reader: &dyn Reader) -> Option<Action> {
    let (_, argv) = TOOLS.iter().find(|(proof, _)| reader.exists(proof) == Ok(true))?;
    Some(Action::RunTool {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        purpose: "rebuild the initramfs: a module inside it would come up with its old options"
            .into(),
        touches: Vec::new(),
        way_back: WayBack::Repeat,
        limit_s: LIMIT_S,
    })
}

/// Whether a module is inside an initramfs is not known without unpacking it, so it is always rebuilt.
pub fn rebuild(context: &Context, change: &mut Change, section: &mut KindPlan) {
    match tool(context.reader) {
        Some(tool) => change.actions.push(tool),
        None => section.notes.push(Note {
            kind: NAME,
            subject: MODPROBE_PATH.into(),
            text:
                "no update-initramfs or dracut here: if the initramfs holds one of these modules, rebuild it"
                    .into(),
        }),
    }
}

/// A rebuild that was promised and did not succeed is done now, even though the file is right, unless it shows to have been
/// made by others.
pub fn owed_rebuild(context: &Context, section: &mut KindPlan) {
    for owed in context.ledger.owed.iter().filter(|owed| owed.kind == NAME) {
        // What bedplate itself was cut short in may be newer, and half a file.
        if !owed.begun && is_rebuilt(context) {
            let (argv, after) = (owed.argv.clone(), None);
            section.paid.push(PaidTool { kind: NAME, argv, after });
            let (subject, state) = ("initramfs".to_owned(), format!("newer than {MODPROBE_PATH}"));
            section.settled.push(Settled { kind: NAME, subject, state });
            continue;
        }
        let why = Why::because(match context.reader.kind() {
            HostKind::Image => {
                "an earlier apply changed modprobe.d, and no newer initramfs of every kernel shows that the tool has run: \
                 `bedplate apply --chroot-tools` runs it, `--ran` says that it has run"
            }
            _ => "an earlier apply changed modprobe.d and this tool has not succeeded since",
        });
        section.changes.push(Change {
            id: format!("{NAME}/{}", owed.argv.join(" ")),
            kind: NAME,
            subject: "initramfs".into(),
            items: vec![item("initramfs", Some("older than modprobe.d"), Some("rebuilt"), &[why])],
            effect: Effect::Now,
            actions: vec![Action::RunTool {
                argv: owed.argv.clone(),
                purpose: owed.purpose.clone(),
                touches: Vec::new(),
                way_back: WayBack::Repeat,
                limit_s: LIMIT_S,
            }],
            disrupts: Vec::new(),
            needs: Vec::new(),
            owns: None,
            deferred: None,
        });
    }
}

/// Files in which tools put the initramfs of a release (`%`).
const IMAGES: [&str; 5] = [
    "/boot/initrd.img-%",
    "/boot/initramfs-%.img",
    "/boot/initrd-%",
    "/lib/modules/%/initramfs.img",
    "/lib/modules/%/initrd",
];

/// Files that are the kernel of a release (`%`): without one a directory of modules is a leftover.
const KERNELS: [&str; 3] = ["/boot/vmlinuz-%", "/boot/vmlinux-%", "/lib/modules/%/vmlinuz"];

/// Whether every initramfs of every installed kernel was written after bedplate's modprobe.d file. Times that an image build has
/// made equal prove nothing.
fn is_rebuilt(context: &Context) -> bool {
    let (reader, releases) = (context.reader, &context.facts.os.installed_kernels);
    // Where the file is gone, its directory was written when it went.
    let directory = MODPROBE_PATH.rsplit_once('/').map_or("/", |(directory, _)| directory);
    let changed = match reader.modified(MODPROBE_PATH) {
        Err(error) if error.is_absent() => reader.modified(directory),
        written => written,
    };
    let (Ok(changed), Some(entries)) = (changed, cmdline::entries(reader)) else { return false };
    let unified: Vec<String> = entries.into_iter().filter(|path| path.ends_with(".efi")).collect();
    let is_newer = |path: &String| reader.modified(path).is_ok_and(|at| at > changed);
    let is_left_over = |release: &String| {
        KERNELS.iter().all(|path| reader.exists(&path.replace('%', release)) == Ok(false))
    };
    let mut count = 0;
    for release in releases {
        let mut images = images(reader, release);
        let is_of =
            |path: &&String| cmdline::release_of_entry(path, releases) == Some(release.as_str());
        images.extend(unified.iter().filter(is_of).cloned());
        if !images.iter().all(is_newer) || (images.is_empty() && !is_left_over(release)) {
            return false;
        }
        count += images.len();
    }
    count > 0 && unified.iter().all(is_newer)
}

/// The files of [`IMAGES`] that a release has, and those of kernel-install (`TOKEN/RELEASE/initrd`).
fn images(reader: &dyn Reader, release: &str) -> Vec<String> {
    let is_there = |path: &String| reader.exists(path) != Ok(false);
    let fixed = IMAGES.iter().map(|path| path.replace('%', release)).filter(is_there);
    let beside = cmdline::BOOT_MOUNTS.iter().flat_map(|mount| {
        let tokens = reader.list(mount).unwrap_or_default();
        tokens.into_iter().map(move |token| format!("{mount}/{token}/{release}"))
    });
    let beside = beside.flat_map(|directory| {
        let names = reader.list(&directory).unwrap_or_default().into_iter();
        let images = names.filter(|name| name.starts_with("init"));
        images.map(|name| format!("{directory}/{name}")).collect::<Vec<_>>()
    });
    fixed.chain(beside).collect()
}
