//! Kernel modules: the boot load list (modules-load.d), options and blacklists (modprobe.d), and the running kernel's
//! modules.
//! Sources: handbook §9, §1.6.

mod conf;
mod dracut;
mod gpudirect;
mod initramfs;
mod initramfs_rebuild;
pub(crate) mod installed;
mod own_files;
mod paths;
mod pending;
mod rccl;
mod resolve;
mod running;
pub mod section;
pub mod topo_check;

use super::{Context, Kind, Privacy, no_labels};
use crate::plan::{KindId, KindPlan};

pub(crate) use dracut::is_of_image;
pub(crate) use gpudirect::{DmabufObstacle, dmabuf_obstacle};
pub(crate) use initramfs::{commands as initramfs_commands, is_mkinitrd};
pub(crate) use initramfs_rebuild::digests as initramfs_digests;

/// Entry in the registry of resource types.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "modules-load.d, modprobe.d, and loaded modules",
    resolve: resolve::resolve,
    plan,
    contribute: resolve::contribute,
    watch: paths::watch,
    recorded: paths::RECORDED,
    owns: paths::OWNS,
    files: paths::FILES,
    privacy: Privacy::OPEN,
    labels: no_labels,
};

/// Name of this resource type.
pub const NAME: KindId = KindId::Modules;

fn plan(context: &Context) -> KindPlan {
    let mut section = KindPlan::default();
    own_files::load_list(context, &mut section);
    own_files::modprobe(context, &mut section);
    running::load(context, &mut section);
    running::unload(context, &mut section);
    section
}
