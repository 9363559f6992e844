//! Huge pages that the profile asks for against the host's memory. The kernel takes what it is asked for before anything
//! else runs: with more than there is, the next boot ends in the out-of-memory killer.

use std::collections::BTreeMap;

use super::page_size::{self, bytes};
use super::{Obstacle, arch};
use crate::kind::Context;
use crate::plan::KindPlan;
use bedplate_base::Arch;

/// Where the rules come from.
const SOURCE: &str = "linux Documentation/admin-guide/mm/hugetlbpage.rst";

/// Refuses huge pages that the kernel lacks or the memory cannot hold. Memory is that of /proc/meminfo by the reader, so that a recorded
/// host is judged by its own; an image has none.
pub(super) fn check(context: &Context, section: &mut KindPlan) -> Result<(), Obstacle> {
    let tokens = context.desired.cmdline.set.iter().map(|arg| arg.token.as_str());
    let note = page_size::check(context.reader, context.facts, tokens.clone())?;
    section.notes.extend(note);
    let memory = context.facts.memory_bytes.known();
    match memory.and_then(|memory| too_many(tokens, arch(context.facts), *memory)) {
        Some(obstacle) => Err(obstacle),
        None => Ok(()),
    }
}

/// What is in the way if these arguments reserve more than `memory` bytes.
fn too_many<'a>(
    tokens: impl Iterator<Item = &'a str> + Clone,
    arch: Arch,
    memory: u64,
) -> Option<Obstacle> {
    let asked = reserved(tokens, arch)?;
    if asked <= u128::from(memory) {
        return None;
    }
    let gib = |bytes: u128| bytes.div_ceil(1 << 30);
    Some(Obstacle {
        reason: format!(
            "the profile asks for {} GiB of huge pages, and this host has {} GiB of memory: the next boot would run out of it ({SOURCE})",
            gib(asked),
            memory >> 30,
        ),
        remedy: "lower `hugepages=` in [cmdline] of the profile".into(),
    })
}

/// Bytes that `hugepages=` reserves in all. `None`: the size of a page is not known.
fn reserved<'a>(tokens: impl Iterator<Item = &'a str> + Clone, arch: Arch) -> Option<u128> {
    let pages = asked(tokens, arch)?;
    Some(pages.iter().map(|(size, count)| size.saturating_mul(*count)).sum())
}

/// Pages that `hugepages=` asks for, by their size in bytes. `None`: a size or a count is not known.
pub(crate) fn asked<'a>(
    tokens: impl Iterator<Item = &'a str> + Clone,
    arch: Arch,
) -> Option<BTreeMap<u128, u128>> {
    let value = |token: &'a str, name: &str| token.strip_prefix(name)?.strip_prefix('=');
    let mut default = match arch {
        Arch::X86_64 => Some(2 << 20),
        // It depends on the size of the kernel's pages.
        Arch::Aarch64 | Arch::Other => None,
    };
    if let Some(size) = tokens.clone().filter_map(|token| value(token, "default_hugepagesz")).last()
    {
        default = bytes(size);
    }
    // A count belongs to the size before it; the last one of a size counts.
    let mut size = default;
    let mut pages: BTreeMap<u128, u128> = BTreeMap::new();
    for token in tokens {
        if let Some(text) = value(token, "hugepagesz").or(value(token, "default_hugepagesz")) {
            size = bytes(text);
        } else if let Some(text) = value(token, "hugepages") {
            pages.insert(size?, count(text)?);
        }
    }
    Some(pages)
}

/// `64`, or `0:32,1:32` by NUMA node.
fn count(text: &str) -> Option<u128> {
    let one = |part: &str| part.rsplit(':').next()?.parse::<u32>().ok().map(u128::from);
    text.split(',').map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gib(line: &str) -> Option<u128> {
        reserved(line.split(' '), Arch::X86_64).map(|bytes| bytes >> 30)
    }

    #[test]
    fn a_count_belongs_to_the_size_before_it() {
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
        assert_eq!(reserved("hugepages=9".split(' '), Arch::Aarch64), None);
        assert_eq!(reserved("hugepagesz=2M hugepages=9".split(' '), Arch::Aarch64), Some(18 << 20));
    }

    #[test]
    fn only_more_than_there_is_is_too_many() {
        let tokens = || "hugepagesz=1G hugepages=64".split(' ');
        assert!(too_many(tokens(), Arch::X86_64, 64 << 30).is_none());
        let obstacle = too_many(tokens(), Arch::X86_64, (64 << 30) - 1).unwrap();
        assert!(
            obstacle.reason.contains("64 GiB of huge pages, and this host has 63 GiB"),
            "{}",
            obstacle.reason
        );
    }
}
