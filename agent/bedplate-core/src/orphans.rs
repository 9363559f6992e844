//! Files with bedplate's heading that are not in the ledger: the state directory was lost, or they came with an image.
//! Their original state is unknown. Pure, except for the reader.

use crate::file_heading::HEADING;
use crate::kind::{FileTool, KINDS, OWED_LIMIT_S, OwnFile, OwnMark, cmdline, modules};
use crate::ledger::{Generator, Ledger, Sha};
use crate::modules_conf::MODPROBE_PATH;
use crate::plan::{KindId, Note, Orphan};
use bedplate_facts::Facts;
use bedplate_host::{HostKind, Reader};

/// Returns bedplate's files that the ledger does not contain. Calls `facts` only if a tool depends on them.
pub fn orphans<'f>(
    reader: &dyn Reader,
    ledger: &Ledger,
    facts: &dyn Fn() -> &'f Facts,
) -> Vec<Orphan> {
    let files = KINDS.iter().flat_map(|kind| kind.files.iter().map(|file| (kind.id, file)));
    let unknown = files.filter(|(_, file)| !ledger.files.contains_key(file.path));
    let orphans = unknown.filter_map(|(kind, file)| {
        let bytes = reader.read(file.path).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let (is_own, is_whole) = match file.mark {
            OwnMark::Heading => (text.lines().next().unwrap_or_default().contains(HEADING), true),
            OwnMark::Name => (true, true),
            OwnMark::Part(mark) => (text.lines().any(|line| line.contains(mark)), false),
        };
        is_own.then(|| Orphan {
            kind,
            path: file.path.to_owned(),
            content: is_whole.then(|| Sha::digest(&bytes)),
            reader: tool(reader, kind, file, facts),
        })
    });
    orphans.collect()
}

fn tool<'f>(
    reader: &dyn Reader,
    kind: KindId,
    file: &OwnFile,
    facts: &dyn Fn() -> &'f Facts,
) -> Result<Option<Generator>, String> {
    let purpose = format!("regenerate from {}", file.path);
    if file.path == MODPROBE_PATH {
        // If each kernel has a command of its own, this is an image, and an image has one kernel.
        let commands = modules::initramfs_commands(reader, facts()).map_err(|no| no.reason)?;
        let tool = |argv| Generator { argv, purpose, limit_s: OWED_LIMIT_S };
        return Ok(commands.into_iter().next().map(tool));
    }
    let is_there = |tool: &&FileTool| reader.exists(tool.program) == Ok(true);
    // An image build may have the tool elsewhere. Without it, the tool that builds the initrds is unknown.
    let is_elsewhere = reader.kind() == HostKind::Image && kind == cmdline::NAME;
    let first = || file.readers.first().filter(|_| is_elsewhere);
    let found = file.readers.iter().find(is_there).or_else(first);
    Ok(found.map(|FileTool { argv, limit_s, .. }| Generator {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        purpose,
        limit_s: *limit_s,
    }))
}

/// Returns a plan's note about an orphan.
pub(crate) fn note(orphan: &Orphan) -> Note {
    orphan.kind.note(orphan.path.clone(), format!("{UNKNOWN}; {}", ways(orphan)))
}

/// Reason for reporting the file.
pub(crate) const UNKNOWN: &str = "written by bedplate, but not in the ledger: /var/lib/bedplate was lost, or the file \
                                  came with an image";

const WHERE_BUILT: &str = "bedplate cannot rebuild the initramfs here: remove the file in the image build, or by hand, \
                           then rebuild the initramfs that this host loads";

/// Returns the methods to remove or adopt it.
pub(crate) fn ways(orphan: &Orphan) -> &'static str {
    match orphan.content {
        _ if orphan.reader.is_err() => WHERE_BUILT,
        Some(_) => {
            "`bedplate apply` adopts it, so that `bedplate revert` removes it; `bedplate revert --force` removes it now"
        }
        None => {
            "remove bedplate's lines by hand, or leave them to the profile, which keeps them; `bedplate revert --force` \
             removes an nccl.conf without other lines"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Author, FileState};
    use bedplate_base::CpuVendor;
    use bedplate_host::snapshot::{Node, Snapshot};

    fn of(host: &Snapshot, ledger: &Ledger) -> Vec<Orphan> {
        let facts = Facts::of_vendor(CpuVendor::Intel);
        orphans(host, ledger, &|| &facts)
    }

    #[test]
    fn files_with_heading_are_orphans_until_recorded() {
        let mut host = Snapshot::new(false);
        let drop_in = "/etc/default/grub.d/zz-bedplate.cfg";
        host.insert(
            drop_in,
            Node::File(format!("# {HEADING}; changes are overwritten\nX=1\n").into()),
        );
        host.insert("/etc/sysctl.d/zz-bedplate.conf", Node::File("# an operator's\n".into()));
        host.insert("/etc/nccl.conf", Node::File("# BEGIN bedplate\nA=1\n# END bedplate\n".into()));
        host.insert("/usr/sbin/update-grub", Node::File("".into()));
        let mut ledger = Ledger::default();
        let found = of(&host, &ledger);
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, [drop_in, "/etc/nccl.conf"]);
        assert_eq!(found[0].reader.as_ref().unwrap().as_ref().unwrap().argv, ["update-grub"]);
        assert!(found[1].content.is_none());
        let author = Author { kind: KindId::Cmdline, change: "cmdline/x" };
        ledger.begin_file(drop_in, author, &FileState::Absent, None, &[]);
        assert_eq!(of(&host, &ledger).len(), 1);
    }

    #[test]
    fn adopted_orphans_are_within_the_write_scope() {
        let mut host = Snapshot::new(false);
        let whole = |file: &&OwnFile| !matches!(file.mark, OwnMark::Part(_));
        let files: Vec<_> = KINDS.iter().flat_map(|kind| kind.files).filter(whole).collect();
        for file in &files {
            host.insert(file.path, Node::File(format!("# {HEADING}\n").into()));
            for tool in file.readers {
                host.insert(tool.program, Node::File("".into()));
            }
        }
        host.insert("/usr/sbin/update-initramfs", Node::File("".into()));
        let mut ledger = Ledger::default();
        for orphan in of(&host, &ledger) {
            orphan.adopt(&mut ledger);
        }
        assert_eq!(ledger.files.len(), files.len());
        let rebuild = &ledger.files[MODPROBE_PATH].readers[0];
        assert_eq!(rebuild.argv[0], "update-initramfs");
        assert_eq!(crate::kind::outside_write_scope(&ledger), None);
    }
}
