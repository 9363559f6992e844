//! Huge pages of the running kernel, by NUMA node and size. Their numbers last until the next boot, so the daemon sets them
//! at every boot. Sources: Linux Documentation/admin-guide/mm/hugetlbpage.rst; handbook §1.8.

mod page_size;
mod paths;
mod plan;
mod pool;
pub mod section;
#[cfg(test)]
mod tests;

use super::{Kind, Privacy, no_labels, nothing_to_resolve};
use crate::desired::Desired;
use crate::image_config::{ContributeError, ImageConfig, LiveOnly};
use crate::plan::KindId;
use crate::profile::model::Profile;
use bedplate_facts::Facts;
use page_size::PageSize;
pub(crate) use pool::{adds_pages, memory_of_cpus, use_of_pages};
use section::{Hugepages, PageCount};

/// Entry in the registry of resource types.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "huge pages of each NUMA node",
    resolve: nothing_to_resolve,
    plan: plan::plan,
    contribute,
    watch: paths::watch,
    recorded: paths::RECORDED,
    owns: paths::OWNS,
    files: &[],
    privacy: Privacy::OPEN,
    labels: no_labels,
};

const NAME: KindId = KindId::HugePages;

/// Contributes the numbers as settings of a running host: no file of an image can contain them.
fn contribute(
    profile: &Profile,
    _: &Facts,
    _: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    out.live_only.extend(wanted(&profile.hugepages).map(|(node, size, count)| {
        let node = node.map_or("each NUMA node".to_owned(), |node| format!("NUMA node {node}"));
        LiveOnly {
            id: format!("{NAME}/{size} of {node}"),
            what: format!("{} huge pages of {size} on {node}", count.pages),
            why: "the number lasts until the next boot (Linux Documentation/admin-guide/mm/hugetlbpage.rst)"
                .to_owned(),
            with_agent: "run bedplate on the host at every boot".to_owned(),
            without_agent: format!(
                "request them under [cmdline] in the profile: `hugepagesz={size}` and `hugepages=0:N,1:N`, with a number \
                 for each NUMA node"
            ),
        }
    }));
    Ok(())
}

/// Returns all numbers of the profile with their size, and their node, if they are for a single one.
fn wanted(section: &Hugepages) -> impl Iterator<Item = (Option<u16>, PageSize, &PageCount)> {
    let each = section.per_node.iter().map(|(size, count)| (None, *size, count));
    let single = section.nodes.iter().flat_map(|(node, counts)| {
        counts.iter().map(move |(size, count)| (Some(*node), *size, count))
    });
    each.chain(single)
}
