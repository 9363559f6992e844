//! Reasons against sealing a host, and notes about state on other machines.

use crate::kind::some_of;
use crate::ledger::Ledger;
use crate::reboot_record::{RECORD, Record};
use crate::revert::Refused;
use bedplate_base::ReadError;
use bedplate_host::{HostKind, Reader, boot_id};

/// Maximum number of entries in a sentence.
pub(super) const FEW: usize = 3;

/// Returns the reasons in the ledger and in the reboot record.
pub(super) fn refusals(ledger: &Ledger, reader: &dyn Reader) -> Vec<Refused> {
    let is_image = reader.kind() == HostKind::Image;
    let mut found = Vec::new();
    found.extend(pending_tools(ledger, is_image));
    found.extend(interrupted(ledger, is_image));
    if reader.kind() == HostKind::Live {
        found.extend(starting(ledger, reader));
        found.extend(arranged(reader));
    }
    found
}

/// Refuses if tools are pending: clones would have incomplete files, too.
fn pending_tools(ledger: &Ledger, is_image: bool) -> Option<Refused> {
    if ledger.owed.is_empty() {
        return None;
    }
    let commands = ledger.owed.iter().map(|tool| format!("`{}`", tool.argv.join(" ")));
    let commands: Vec<String> = commands.collect();
    let fix = match is_image {
        true => {
            "run `bedplate apply --root DIR --chroot-tools`; or run them in the image, then `bedplate apply --root DIR`, \
             with `--ran TOOL` if it does not detect the run; after a revert use `bedplate revert --root DIR` with \
             `--chroot-tools` or `--ran TOOL`"
        }
        false => "run `bedplate apply`, which runs them, or records that they ran",
    };
    Some(Refused {
        subject: "tools for the next boot".into(),
        reason: format!("still to run: {}", some_of(commands.into_iter(), FEW, "tools")),
        fix: fix.into(),
    })
}

fn interrupted(ledger: &Ledger, is_image: bool) -> Option<Refused> {
    if !ledger.was_cut_short() {
        return None;
    }
    let files: Vec<String> = ledger.cut_short().map(str::to_owned).collect();
    let root = if is_image { " --root DIR" } else { "" };
    Some(Refused {
        subject: "an interrupted change".into(),
        reason: format!("unfinished: {}", some_of(files.into_iter(), FEW, "files")),
        fix: format!(
            "run `bedplate apply{root}` to finish it, or `bedplate revert{root}` to undo it"
        ),
    })
}

/// Refuses if VFs have no driver in this boot.
fn starting(ledger: &Ledger, reader: &dyn Reader) -> Option<Refused> {
    let boot = boot_id::read(reader).ok()?;
    let vfs = ledger.starts.iter().filter(|(_, record)| record.boot == boot);
    let vfs: Vec<String> = vfs.map(|(name, _)| name.clone()).collect();
    (!vfs.is_empty()).then(|| Refused {
        subject: "an interrupted change".into(),
        reason: format!("VFs without a driver: {}", some_of(vfs.into_iter(), FEW, "VFs")),
        fix: "run `bedplate apply` to start their driver".into(),
    })
}

/// Refuses if logind, the clock, or the BMC may still reboot the host: without the record it could not be cancelled.
fn arranged(reader: &dyn Reader) -> Option<Refused> {
    let record = match reader.text(RECORD) {
        Ok(text) => Record::parse(&text).map_err(|error| error.to_string()),
        Err(error) if error.is_absent() => return None,
        Err(error) => Err(error.to_string()),
    };
    let (reason, fix) = match record {
        Ok(record) if record.phase.is_open() => {
            ("a reboot is scheduled".to_owned(), "run `bedplate reboot cancel`".to_owned())
        }
        Ok(_) => return None,
        Err(why) => {
            let fix =
                format!("check `shutdown --show` for a scheduled reboot, then remove {RECORD}");
            (format!("cannot tell whether a reboot is scheduled: {why}"), fix)
        }
    };
    Some(Refused { subject: "the reboot".into(), reason, fix })
}

/// Builds the refusal for an unreadable part.
pub(super) fn unreadable(part: &str, error: &ReadError) -> Refused {
    Refused {
        subject: part.to_owned(),
        reason: error.to_string(),
        fix: "make it readable, or remove it by hand".into(),
    }
}

/// Returns a note about a lock server's slot, which no clone can release.
pub(super) fn slot(reader: &dyn Reader) -> Option<String> {
    let record = Record::parse(&reader.text(RECORD).ok()?).ok()?;
    let held = record.lock?;
    let may = if held.certain { "holds" } else { "may hold" };
    Some(format!(
        "this host {may} a slot of group {} at the lock server {}: release the slot there",
        held.server.group, held.server.url
    ))
}
