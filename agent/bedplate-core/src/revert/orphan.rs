//! bedplate files missing in the ledger: removed only when forced, since they may be part of an image.

use super::{RevertPlan, Step};
use crate::kind::nccl;
use crate::ledger::FileState;
use crate::orphans::{UNKNOWN, ways};
use crate::plan::{FileContent, Orphan};
use bedplate_host::Reader;

/// Plans the removal of an orphan, or refuses it.
pub(super) fn plan(plan: &mut RevertPlan, reader: &dyn Reader, orphan: &Orphan, force: bool) {
    let path = orphan.path.as_str();
    if !force {
        return plan.refuse(path, UNKNOWN, ways(orphan));
    }
    if let Err(reason) = &orphan.reader {
        return plan.refuse(path, reason, ways(orphan));
    }
    match reader.read(path) {
        // The file also contains unmanaged lines.
        Ok(bytes) if orphan.content.is_none() && !nccl::is_only_ours(&bytes) => {
            plan.refuse(path, UNKNOWN, ways(orphan));
        }
        Ok(bytes) => plan.steps.push(Step::File {
            path: path.to_owned(),
            before: Some(FileContent::new(bytes)),
            after: None,
            to: FileState::Absent,
        }),
        Err(error) => {
            plan.refuse(path, error.to_string(), "fix this, then run bedplate revert again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_heading::HEADING;
    use crate::ledger::Ledger;
    use crate::modules_conf::MODPROBE_PATH;
    use crate::orphans::orphans;
    use bedplate_base::CpuVendor;
    use bedplate_facts::{BootLoader, Facts};
    use bedplate_host::HostKind;
    use bedplate_host::snapshot::{Node, Snapshot};

    #[test]
    fn module_options_stay_where_the_initramfs_cannot_be_rebuilt() {
        let mut facts = Facts::of_vendor(CpuVendor::Intel);
        facts.host = HostKind::Live;
        let (dracut, update_initramfs) = ("/usr/bin/dracut", "/usr/sbin/update-initramfs");
        for (boot, tool, is_removed) in [
            (BootLoader::RpmOstree, dracut, false),
            (BootLoader::SystemdBoot { uki: true }, dracut, false),
            (BootLoader::GrubDebian, update_initramfs, true),
        ] {
            let mut host = Snapshot::new(false);
            host.insert(MODPROBE_PATH, Node::File(format!("# {HEADING}\n").into()));
            host.insert(tool, Node::File("".into()));
            facts.boot = boot;
            let mut ledger = Ledger::default();
            let found = orphans(&host, &ledger, &|| &facts);
            found[0].adopt(&mut ledger);
            let mut revert = RevertPlan::default();
            assert_eq!(found[0].is_adoptable(), is_removed, "{:?}", facts.boot);
            plan(&mut revert, &host, &found[0], true);
            assert_eq!(ledger.files.len(), usize::from(is_removed), "{:?}", facts.boot);
            assert_eq!(revert.steps.len(), usize::from(is_removed), "{:?}", facts.boot);
            assert_eq!(revert.refused.len(), usize::from(!is_removed), "{:?}", facts.boot);
        }
    }
}
