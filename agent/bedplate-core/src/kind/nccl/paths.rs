//! Paths of NCCL's configuration: recorded in snapshots, watched by the daemon.

use super::conf::{BEGIN, NCCL, RCCL};
use super::section::HcaList;
use super::topology;
use crate::kind::{OwnFile, RecordMode, Watch, WriteScope};
use crate::profile::model::Profile;
use bedplate_base::Reading;
use bedplate_facts::Facts;
use bedplate_facts::pci::Function;

/// Recorded in snapshots. `verify` records the ports.
pub(crate) const RECORDED: &[(&str, RecordMode)] =
    &[(NCCL, RecordMode::Whole), (RCCL, RecordMode::Whole), (topology::PATH, RecordMode::Whole)];

/// Paths that this resource type writes.
pub(crate) const OWNS: WriteScope =
    WriteScope { files: &[NCCL, RCCL, topology::PATH], ..WriteScope::NONE };

/// Watches the directory of the files, and the links of the listed ports.
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

/// Files that bedplate writes for this resource type.
pub(crate) const FILES: &[OwnFile] =
    &[OwnFile::whole(topology::PATH), OwnFile::part(NCCL, BEGIN), OwnFile::part(RCCL, BEGIN)];
