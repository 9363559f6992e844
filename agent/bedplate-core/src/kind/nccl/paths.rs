//! Where NCCL is configured: what a snapshot records, what the daemon watches.

use super::conf::{BEGIN, NCCL, RCCL};
use super::section::HcaList;
use super::topology;
use crate::kind::{OwnFile, RecordMode, Watch, WriteScope};
use crate::profile::model::Profile;
use bedplate_base::Reading;
use bedplate_facts::Facts;
use bedplate_facts::pci::Function;

/// Recorded in snapshots. The ports are recorded for `verify`.
pub(crate) const RECORDED: &[(&str, RecordMode)] =
    &[(NCCL, RecordMode::Whole), (RCCL, RecordMode::Whole), (topology::PATH, RecordMode::Whole)];

/// Written here.
pub(crate) const OWNS: WriteScope =
    WriteScope { files: &[NCCL, RCCL, topology::PATH], ..WriteScope::NONE };

/// The files' directory, and whether the ports that are listed have a link.
pub(crate) fn watch(profile: &Profile, facts: &Facts) -> Watch {
    let mut watch = Watch::directories(&["/etc"]);
    if profile.nccl.hca == HcaList::NearGpus
        && let Reading::Known(tree) = &facts.pci
    {
        let rdma = |function: &&Function| function.is_nic() && !function.infiniband.is_empty();
        let nics = tree.functions.values().filter(rdma);
        watch.links = nics.flat_map(|nic| nic.net.iter().cloned()).collect();
    }
    watch
}

/// Files of this kind's own.
pub(crate) const FILES: &[OwnFile] =
    &[OwnFile::whole(topology::PATH), OwnFile::part(NCCL, BEGIN), OwnFile::part(RCCL, BEGIN)];
