//! Compares the huge pages of each NUMA node with the profile.

use std::collections::{BTreeMap, BTreeSet};

use super::NAME;
use super::page_size::PageSize;
use super::pool::{self, Pool, PoolState};
use super::section::{Hugepages, PageCount};
use crate::kind::{Context, still_set};
use crate::plan::{Action, Blocker, Change, Effect, Item, KindPlan};
use crate::setting::WriteAttribute;
use bedplate_base::ReadError;
use bedplate_host::{HostKind, Reader};

/// Time limit of a write in seconds: the kernel moves other pages out of the way during the write. Four such writes, two
/// sizes on two nodes, fit into a run of the daemon (20 minutes).
const LIMIT_S: u32 = 240;

/// Percentage of a node's memory that huge pages may use. The rest is for the kernel and all programs; with less, the host
/// does not survive its boot.
const MOST_PERCENT: u128 = 90;
/// Memory of the whole host in bytes that stays for the kernel and all programs, also on a small host.
const LEAST_REST: u128 = 1 << 30;

/// Source of the rules.
const SOURCE: &str = "Linux Documentation/admin-guide/mm/hugetlbpage.rst";

/// Desired numbers of one node.
type Counts<'a> = BTreeMap<PageSize, &'a PageCount>;

pub(super) fn plan(context: &Context) -> KindPlan {
    let mut section = KindPlan::default();
    let wanted = &context.profile.hugepages;
    if context.facts.host == HostKind::Image {
        section.changes.extend(at_first_boot(wanted));
        return section;
    }
    let mut nodes = BTreeMap::new();
    if !wanted.is_empty() {
        match by_node(wanted, context.reader) {
            Ok(found) => nodes = found,
            Err(error) if error.is_absent() => section.blockers.push(NAME.blocker(
                "NUMA nodes",
                format!("the running kernel shows no NUMA nodes ({error})"),
                "remove [hugepages], and request huge pages under [cmdline] in the profile",
            )),
            Err(error) => section.unknowns.push(NAME.unknown("NUMA nodes", error.to_string())),
        }
    }
    let read = nodes.iter().map(|(node, counts)| (*node, read_node(context.reader, *node, counts)));
    let read: BTreeMap<u16, NodeReading> = read.collect();
    for (node, counts) in &nodes {
        plan_node(*node, counts, &read[node], &mut section);
    }
    match rest_obstacle(context, &nodes, &read) {
        Ok(None) => {}
        // Obstacles of single nodes stay in the plan.
        Ok(Some(blocker)) => {
            section.changes.clear();
            section.blockers.push(blocker);
        }
        Err(reason) => {
            section.changes.clear();
            section.unknowns.push(NAME.unknown("memory", reason));
        }
    }
    let is_wanted = |path: &str| {
        let mut pools = nodes
            .iter()
            .flat_map(|(&node, counts)| counts.keys().map(move |&size| Pool { node, size }.path()));
        pools.any(|pool| pool == path)
    };
    section.notes.extend(still_set(context, NAME, is_wanted));
    section
}

/// Returns the one change for an image, which has no NUMA nodes.
fn at_first_boot(wanted: &Hugepages) -> Option<Change> {
    let items: Vec<Item> = super::wanted(wanted)
        .map(|(node, size, count)| {
            let node = node.map_or("each node".to_owned(), |node| format!("node {node}"));
            let subject = format!("pages of {size}, {node}");
            Item::new(subject, None, Some(&count.pages.to_string()), &count.why)
        })
        .collect();
    (!items.is_empty()).then(|| NAME.deferred_change("nodes", "NUMA nodes", items))
}

/// Returns the desired numbers by node.
fn by_node<'a>(
    wanted: &'a Hugepages,
    reader: &dyn Reader,
) -> Result<BTreeMap<u16, Counts<'a>>, ReadError> {
    let mut nodes: BTreeMap<u16, Counts<'a>> = BTreeMap::new();
    if !wanted.per_node.is_empty() {
        let all = || wanted.per_node.iter().map(|(size, count)| (*size, count)).collect();
        nodes.extend(pool::nodes(reader)?.into_iter().map(|node| (node, all())));
    }
    for (node, counts) in &wanted.nodes {
        let own = nodes.entry(*node).or_default();
        own.extend(counts.iter().map(|(size, count)| (*size, count)));
    }
    Ok(nodes)
}

/// A node's pages of all sizes. The inner error is a blocker: the node cannot have the desired pages.
type NodeReading = Result<Result<BTreeMap<PageSize, PoolState>, Blocker>, ReadError>;

/// Returns the bytes of all huge pages of a node after the changes.
fn bytes_after(states: &BTreeMap<PageSize, PoolState>, counts: &Counts<'_>) -> u128 {
    let after = states.iter().map(|(size, state)| {
        size.total(counts.get(size).map_or(state.total, |count| count.pages.into()))
    });
    after.fold(0, u128::saturating_add)
}

/// Returns a blocker if all nodes together leave too little memory. Fewer pages than now are never too many.
fn rest_obstacle(
    context: &Context,
    nodes: &BTreeMap<u16, Counts<'_>>,
    read: &BTreeMap<u16, NodeReading>,
) -> Result<Option<Blocker>, String> {
    let (mut now, mut after) = (0_u128, 0_u128);
    for (node, counts) in nodes {
        let Some(Ok(Ok(states))) = read.get(node) else { continue };
        now = now.saturating_add(bytes_after(states, &Counts::new()));
        after = after.saturating_add(bytes_after(states, counts));
    }
    if after <= now {
        return Ok(None);
    }
    let memory = match context.facts.memory_bytes.optional() {
        Ok(Some(memory)) => u128::from(*memory),
        Ok(None) => return Err("the memory of the host is unknown".to_owned()),
        Err(reason) => return Err(reason.to_string()),
    };
    if after.saturating_add(LEAST_REST) <= memory {
        return Ok(None);
    }
    let reason = format!(
        "{} MiB of huge pages would leave less than {} MiB of memory to everything else (this host has {} MiB): it might \
         not survive its next boot, at which bedplate sets them again ({SOURCE})",
        after.div_ceil(1 << 20),
        LEAST_REST >> 20,
        memory >> 20,
    );
    let fix = "lower the numbers in [hugepages] of the profile";
    Ok(Some(NAME.blocker("memory", reason, fix)))
}

/// Plans all sizes of a node; fewer pages first, because they free memory.
fn plan_node(node: u16, counts: &Counts<'_>, read: &NodeReading, section: &mut KindPlan) {
    let subject = format!("NUMA node {node}");
    let states = match read {
        Ok(Ok(states)) => states,
        Ok(Err(blocker)) => return section.blockers.push(blocker.clone()),
        Err(error) => return section.unknowns.push(NAME.unknown(subject, error.to_string())),
    };
    let (mut fewer, mut more) = (Vec::new(), Vec::new());
    for (size, count) in counts {
        let Some(state) = states.get(size) else { continue };
        let pages = u64::from(count.pages);
        if state.total.saturating_sub(state.surplus) == pages {
            let text = match state.surplus {
                0 => pages.to_string(),
                surplus => format!("{pages}, and {surplus} surplus pages"),
            };
            section.unchanged.push(NAME.up_to_date(format!("{subject}: pages of {size}"), text));
            continue;
        }
        match obstacle(Pool { node, size: *size }, *state, pages) {
            Some(blocker) => section.blockers.push(blocker),
            None if pages < state.total => fewer.push(change(node, *size, count, *state)),
            None => more.push(change(node, *size, count, *state)),
        }
    }
    section.changes.extend(fewer.into_iter().chain(more));
}

/// Reads a node's pages of all sizes, and checks whether it can have the desired ones.
fn read_node(reader: &dyn Reader, node: u16, counts: &Counts<'_>) -> NodeReading {
    let blocker =
        |reason: String, fix: &str| Ok(Err(NAME.blocker(format!("NUMA node {node}"), reason, fix)));
    let Some(sizes) = pool::sizes(reader, node)? else {
        return blocker(
            "no such node, or the running kernel has no huge pages".to_owned(),
            "correct `nodes` in [hugepages] of the profile",
        );
    };
    let known: BTreeSet<PageSize> = sizes.iter().copied().collect();
    if let Some(size) = counts.keys().find(|size| !known.contains(size)) {
        let named: Vec<String> = sizes.iter().map(PageSize::to_string).collect();
        return blocker(
            format!("the running kernel has no huge pages of {size}, only {}", named.join(", ")),
            "name one of these sizes in [hugepages] of the profile",
        );
    }
    let mut states = BTreeMap::new();
    for size in sizes {
        states.insert(size, Pool { node, size }.read(reader)?);
    }
    let asked = bytes_after(&states, counts);
    let memory = pool::memory(reader, node)?;
    if asked.saturating_mul(100) > u128::from(memory) * MOST_PERCENT {
        let mib = |bytes: u128| bytes.div_ceil(1 << 20);
        return blocker(
            format!(
                "{} MiB of huge pages, but the node has {} MiB of memory: bedplate gives at most {MOST_PERCENT} % to huge \
                 pages, because a host without memory for other programs does not survive its boot ({SOURCE})",
                mib(asked),
                memory >> 20,
            ),
            "lower the numbers in [hugepages] of the profile",
        );
    }
    Ok(Ok(states))
}

/// Returns why the number of pages cannot be set.
fn obstacle(pool: Pool, state: PoolState, pages: u64) -> Option<Blocker> {
    let subject = format!("NUMA node {}: pages of {}", pool.node, pool.size);
    let PoolState { total, surplus, surplus_anywhere, used } = state;
    let end = "end the programs that use huge pages (root sees them with `grep -ls 'Hugetlb: *[1-9]' \
               /proc/[0-9]*/smaps_rollup`)";
    let (reason, fix) = match () {
        () if surplus > 0 => (
            format!(
                "{surplus} of {total} pages are surplus: programs hold more than were requested"
            ),
            format!(
                "{end}, or request {} in [hugepages] of the profile",
                total.saturating_sub(surplus)
            ),
        ),
        () if pages < used => (
            format!("programs use or have reserved {used} of {total} pages, more than {pages}"),
            format!("{end}, or request at least {used} in [hugepages] of the profile"),
        ),
        // The kernel counts pages in use over all nodes before it frees any.
        () if pages < total && surplus_anywhere > 0 => (
            format!(
                "other nodes have {surplus_anywhere} surplus pages, so the kernel would free none here"
            ),
            end.to_owned(),
        ),
        () => return None,
    };
    Some(NAME.blocker(subject, format!("{reason} ({SOURCE})"), fix))
}

fn change(node: u16, size: PageSize, count: &PageCount, state: PoolState) -> Change {
    let (before, after) = (state.total.to_string(), count.pages.to_string());
    let item = Item::new(format!("pages of {size}"), Some(&before), Some(&after), &count.why);
    let write =
        WriteAttribute { path: Pool { node, size }.path(), before, after, limit_s: LIMIT_S };
    let (name, subject) = (format!("node{node}/{size}"), format!("NUMA node {node}"));
    let actions = vec![Action::WriteAttribute(write)];
    NAME.change(&name, subject, vec![item], Effect::EveryBoot, actions)
}
