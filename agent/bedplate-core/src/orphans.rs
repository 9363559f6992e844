//! Files that carry bedplate's heading and are not in the ledger: the state directory was lost, or an image brought them.
//! What was there before them is not known. Pure, but for the reader.

use crate::ledger::{Generator, Ledger, Sha};
use crate::plan::{KindId, Note, Orphan};
use bedplate_host::{HostKind, Reader};

/// A file that bedplate writes as a whole, and the tools that read it: the first whose proof is there.
struct Row {
    kind: KindId,
    path: &'static str,
    tools: &'static [(&'static str, &'static [&'static str], u32)],
}

const fn row(kind: KindId, path: &'static str) -> Row {
    Row { kind, path, tools: &[] }
}

const ROWS: [Row; 6] = [
    Row {
        kind: KindId::Cmdline,
        path: "/etc/default/grub.d/zz-bedplate.cfg",
        tools: &[
            ("/usr/sbin/update-grub", &["update-grub"], 300),
            ("/usr/sbin/grub-mkconfig", &["grub-mkconfig", "-o", "/boot/grub/grub.cfg"], 300),
        ],
    },
    Row {
        kind: KindId::Modules,
        path: "/etc/modprobe.d/zz-bedplate.conf",
        tools: &[
            ("/usr/sbin/update-initramfs", &["update-initramfs", "-u", "-k", "all"], 600),
            ("/usr/bin/dracut", &["dracut", "--force", "--regenerate-all"], 600),
        ],
    },
    row(KindId::Modules, "/etc/modules-load.d/bedplate.conf"),
    row(KindId::Sysctl, "/etc/sysctl.d/zz-bedplate.conf"),
    row(KindId::Nccl, "/etc/nccl-topology.xml"),
    row(KindId::Cmdline, "/usr/lib/bootc/kargs.d/50-bedplate.toml"),
];

/// Files in which bedplate writes a part, and the line that opens it.
const PARTS: [(KindId, &str, &str); 3] = [
    (KindId::Nccl, "/etc/nccl.conf", "# BEGIN bedplate"),
    (KindId::Nccl, "/etc/rccl.conf", "# BEGIN bedplate"),
    (KindId::Cufile, "/etc/cufile.json", HEADING),
];

/// Start of the heading of every file that bedplate writes, after the comment mark.
const HEADING: &str = "written by bedplate";
/// Name of the file that has no heading: its name is bedplate's.
const BY_NAME: &str = "50-bedplate.toml";

/// Every file of bedplate's that the ledger does not know.
pub fn orphans(reader: &dyn Reader, ledger: &Ledger) -> Vec<Orphan> {
    let is_unknown = |path: &str| !ledger.files.contains_key(path);
    let whole = ROWS.iter().filter(|row| is_unknown(row.path)).filter_map(|row| {
        let bytes = reader.read(row.path).ok()?;
        let first = String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned();
        let is_own = first.contains(HEADING) || row.path.ends_with(BY_NAME);
        is_own.then(|| Orphan {
            kind: row.kind,
            path: row.path.to_owned(),
            content: Some(Sha::digest(&bytes)),
            reader: tool(reader, row),
        })
    });
    let parts = PARTS.iter().filter(|(_, path, _)| is_unknown(path)).filter_map(|part| {
        let (kind, path, mark) = *part;
        let bytes = reader.read(path).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let has_part = text.lines().any(|line| line.contains(mark));
        has_part.then(|| Orphan { kind, path: path.to_owned(), content: None, reader: None })
    });
    whole.chain(parts).collect()
}

fn tool(reader: &dyn Reader, row: &Row) -> Option<Generator> {
    let is_there = |(proof, ..): &&(&str, &[&str], u32)| reader.exists(proof) == Ok(true);
    // An image build may have the tool elsewhere. Which one makes its initrds is not known without it.
    let is_elsewhere = reader.kind() == HostKind::Image && row.kind == KindId::Cmdline;
    let first = || row.tools.first().filter(|_| is_elsewhere);
    let (_, argv, limit_s) = row.tools.iter().find(is_there).or_else(first)?;
    Some(Generator {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        purpose: format!("make what is made from {}", row.path),
        limit_s: *limit_s,
    })
}

/// The remark of a plan about such a file.
pub(crate) fn note(orphan: &Orphan) -> Note {
    orphan.kind.note(orphan.path.clone(), format!("{UNKNOWN}; {}", ways(orphan)))
}

/// Why the file is reported.
pub(crate) const UNKNOWN: &str = "bedplate wrote this file and has no record of it: /var/lib/bedplate was lost, or an image brought the file";

/// The ways to remove it or to adopt it.
pub(crate) fn ways(orphan: &Orphan) -> &'static str {
    match orphan.content {
        Some(_) => {
            "`bedplate apply` takes it over, so that `bedplate revert` removes it; `bedplate revert --force` removes it now"
        }
        None => {
            "remove bedplate's lines by hand, or leave them to the profile, which keeps them as they are; `bedplate revert --force` \
             removes an nccl.conf with no other lines"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::KINDS;
    use crate::ledger::{Author, FileState};
    use bedplate_host::snapshot::{Node, Snapshot};

    #[test]
    fn files_with_the_heading_are_orphans_until_the_ledger_has_them() {
        let mut host = Snapshot::new(false);
        let drop_in = ROWS[0].path;
        host.insert(
            drop_in,
            Node::File(format!("# {HEADING}; changes are overwritten\nX=1\n").into()),
        );
        host.insert(ROWS[3].path, Node::File("# an operator's\n".into()));
        host.insert("/etc/nccl.conf", Node::File("# BEGIN bedplate\nA=1\n# END bedplate\n".into()));
        host.insert("/usr/sbin/update-grub", Node::File("".into()));
        let mut ledger = Ledger::default();
        let found = orphans(&host, &ledger);
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, [drop_in, "/etc/nccl.conf"]);
        assert_eq!(found[0].reader.as_ref().unwrap().argv, ["update-grub"]);
        assert!(found[1].content.is_none());
        let author = Author { kind: KindId::Cmdline, change: "cmdline/x" };
        ledger.begin_file(drop_in, author, &FileState::Absent, None, &[]);
        assert_eq!(orphans(&host, &ledger).len(), 1);
    }

    #[test]
    fn orphans_are_files_and_tools_that_their_kind_owns() {
        let mut host = Snapshot::new(false);
        for row in &ROWS {
            host.insert(row.path, Node::File(format!("# {HEADING}\n").into()));
            for (proof, ..) in row.tools {
                host.insert(proof, Node::File("".into()));
            }
        }
        let mut ledger = Ledger::default();
        for orphan in orphans(&host, &ledger.clone()) {
            orphan.adopt(&mut ledger);
        }
        assert_eq!(ledger.files.len(), ROWS.len());
        assert_eq!(crate::kind::outside_write_scope(&ledger), None);
        assert!(ROWS.iter().all(|row| KINDS.iter().any(|kind| kind.id == row.kind)));
    }
}
