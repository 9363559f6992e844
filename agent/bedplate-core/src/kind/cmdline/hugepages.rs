//! Checks the huge pages that the profile requests against the host's memory. The kernel reserves them before anything
//! else runs. If they exceed the memory, the next boot ends in the out-of-memory killer.

use std::collections::BTreeMap;

use super::Obstacle;
use super::page_size;
use crate::kind::Context;
use crate::plan::KindPlan;
use bedplate_base::memory_size;

/// Source of the rules.
const SOURCE: &str = "linux Documentation/admin-guide/mm/hugetlbpage.rst";

/// Refuses huge pages of a size that the kernel lacks, or that exceed the memory. The memory is that of the reader's
/// /proc/meminfo, so a snapshot is checked against its own host. An image has no memory size.
pub(super) fn check(context: &Context, section: &mut KindPlan) -> Result<(), Obstacle> {
    let tokens = context.desired.cmdline.set.iter().map(|arg| arg.token.as_str());
    let note = page_size::check(context.reader, context.facts, tokens.clone())?;
    section.notes.extend(note);
    if !tokens.clone().any(|token| token.starts_with("hugepages=")) {
        return Ok(());
    }
    let default = page_size::default_size(context.reader, context.facts);
    let memory = context.facts.memory_bytes.known();
    match memory.and_then(|memory| too_many(tokens, default, *memory)) {
        Some(obstacle) => Err(obstacle),
        None => Ok(()),
    }
}

/// Returns an obstacle if these arguments reserve more than `memory` bytes.
fn too_many<'a>(
    tokens: impl Iterator<Item = &'a str> + Clone,
    default: Option<u128>,
    memory: u64,
) -> Option<Obstacle> {
    let asked = reserved(tokens, default)?;
    if asked <= u128::from(memory) {
        return None;
    }
    let gib = |bytes: u128| bytes.div_ceil(1 << 30);
    Some(Obstacle {
        reason: format!(
            "the profile requests {} GiB of huge pages, but this host has {} GiB of memory: the next boot would run out of \
             memory ({SOURCE})",
            gib(asked),
            memory >> 30,
        ),
        fix: "lower `hugepages=` in [cmdline] of the profile".into(),
    })
}

/// Returns the total of bytes that `hugepages=` reserves. `None`: a size or a count is unknown.
fn reserved<'a>(
    tokens: impl Iterator<Item = &'a str> + Clone,
    default: Option<u128>,
) -> Option<u128> {
    let pages = asked(tokens, default)?;
    Some(pages.iter().map(|(size, count)| size.saturating_mul(*count)).sum())
}

/// Returns the number of pages that `hugepages=` requests, by size in bytes. `default` is the kernel's own size for
/// counts without a size, if known. `None`: a size or a count is unknown.
pub(crate) fn asked<'a>(
    tokens: impl Iterator<Item = &'a str> + Clone,
    mut default: Option<u128>,
) -> Option<BTreeMap<u128, u128>> {
    let value = |token: &'a str, name: &str| token.strip_prefix(name)?.strip_prefix('=');
    if let Some(size) = tokens.clone().filter_map(|token| value(token, "default_hugepagesz")).last()
    {
        default = memory_size::parse(size);
    }
    // A count applies to the size before it. The last count of a size takes effect.
    let mut size = default;
    let mut pages: BTreeMap<u128, u128> = BTreeMap::new();
    for token in tokens {
        if let Some(text) = value(token, "hugepagesz").or(value(token, "default_hugepagesz")) {
            size = memory_size::parse(text);
        } else if let Some(text) = value(token, "hugepages") {
            pages.insert(size?, count(text)?);
        }
    }
    Some(pages)
}

/// Parses a count: `64`, or `0:32,1:32` by NUMA node.
fn count(text: &str) -> Option<u128> {
    let one = |part: &str| part.rsplit(':').next()?.parse::<u32>().ok().map(u128::from);
    text.split(',').map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_X86: Option<u128> = Some(2 << 20);
    /// Default size on an Arm kernel with 64K pages.
    const LARGE: Option<u128> = Some(512 << 20);

    fn gib(line: &str) -> Option<u128> {
        reserved(line.split(' '), OF_X86).map(|bytes| bytes >> 30)
    }

    #[test]
    fn count_applies_to_preceding_size() {
        assert_eq!(gib("hugepagesz=1G hugepages=64"), Some(64));
        assert_eq!(gib("hugepages=1024"), Some(2));
        assert_eq!(gib("default_hugepagesz=1G hugepages=3"), Some(3));
        assert_eq!(gib("hugepages=3 default_hugepagesz=1G"), Some(3));
        assert_eq!(gib("hugepagesz=2M hugepages=512 hugepagesz=1G hugepages=2"), Some(3));
        assert_eq!(gib("hugepagesz=1G hugepages=64 hugepagesz=1G hugepages=4"), Some(4));
        assert_eq!(gib("hugepagesz=1G hugepages=0:32,1:16"), Some(48));
        assert_eq!(gib("quiet iommu=pt"), Some(0));
        assert_eq!(gib("hugepagesz=1048576K hugepages=2"), Some(2));
        for unknown in [
            "hugepagesz=big hugepages=2",
            "hugepagesz=1G hugepages=many",
            "hugepagesz= hugepages=1",
        ] {
            assert_eq!(gib(unknown), None, "{unknown}");
        }
        assert_eq!(reserved("hugepages=9".split(' '), None), None);
        assert_eq!(reserved("hugepages=4".split(' '), LARGE), Some(2 << 30));
        assert_eq!(reserved("hugepagesz=2M hugepages=9".split(' '), None), Some(18 << 20));
    }

    #[test]
    fn only_more_pages_than_memory_are_refused() {
        let tokens = || "hugepagesz=1G hugepages=64".split(' ');
        assert!(too_many(tokens(), OF_X86, 64 << 30).is_none());
        let obstacle = too_many(tokens(), OF_X86, (64 << 30) - 1).unwrap();
        assert!(
            obstacle.reason.contains("64 GiB of huge pages, but this host has 63 GiB"),
            "{}",
            obstacle.reason
        );
    }
}
