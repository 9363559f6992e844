//! Huge pages: whether the kernel has as many as the command line requests.

use super::super::finding::page_size;
use super::super::unread::OrUnread as _;
use super::super::{
    Check, CheckInput, Evidence, Group, HugePagesFinding, Judgement, Outcome, Severity,
};
use crate::kind::cmdline::{arch, fixed_huge_page, huge_pages};
use bedplate_cmdline::CommandLine;
use bedplate_facts::limits::HUGE_PAGES;

pub(crate) const HUGEPAGES: Check = Check {
    id: "limits.hugepages",
    group: Group::Limits,
    verifies: "the kernel has the huge pages that its command line requests",
    severity: Severity::Warn,
    needs_root: false,
    what: "For each size in `hugepagesz=` and `hugepages=` of the running kernel, at least the requested number of pages \
           exists. Without a request the check does not apply: GPUDirect RDMA does not use huge pages. `profile.in-effect` \
           covers what the profile requests beyond the running command line.",
    why: "If memory is short, above all on one NUMA node, the kernel continues with fewer pages. DPDK and storage clients \
          then fail at startup.",
    source: "handbook §1.1; Linux Documentation/admin-guide/mm/hugetlbpage.rst",
    how: "/proc/cmdline; nr_hugepages of each size in /sys/kernel/mm/hugepages; Hugepagesize in /proc/meminfo",
    judge: hugepages,
};

fn hugepages(input: &CheckInput<'_>) -> Judgement {
    let Some(running) = input.observed.command_line.running.or_unread("the command line")? else {
        return Ok(Outcome::not_applicable("no kernel runs here"));
    };
    let running = CommandLine::parse(running);
    let tokens: Vec<&str> = running.tokens().map(|token| token.as_str()).collect();
    let limits = &input.observed.limits;
    // On 64-bit Arm the size depends on the kernel, which reports its own.
    let default = limits.default_huge_page.known().copied();
    let default = default.or_else(|| fixed_huge_page(arch(input.facts)));
    let asked = match huge_pages(tokens.iter().copied(), default) {
        Some(asked) if asked.values().all(|count| *count == 0) => {
            return Ok(Outcome::not_applicable("no huge pages requested"));
        }
        Some(asked) => asked,
        None => {
            return Ok(Outcome::unknown(
                "the command line requests huge pages of an unrecognised size",
            )
            .evidence("hugepages=", "/proc/cmdline")
            .hint("put the size before the count: `hugepagesz=1G hugepages=16`"));
        }
    };
    let there = limits.huge_pages.or_unread("the huge pages")?;
    let (mut short, mut seen) = (Vec::new(), Vec::new());
    for (bytes, requested) in asked.into_iter().filter(|(_, requested)| *requested > 0) {
        let name = page_size(bytes);
        let found = there.and_then(|there| there.get(&bytes));
        let found = found.or_unread(format_args!("the huge pages of {name}"))?;
        let found = found.map_or(0, |found| u128::from(*found));
        let what = format!("{found} of {requested} pages of {name}");
        if found < requested {
            short.push(HugePagesFinding::HugePagesShort { bytes, found, requested });
        }
        seen.push(Evidence::new(
            what,
            format!("{HUGE_PAGES}/hugepages-{}kB/nr_hugepages", bytes >> 10),
        ));
    }
    if short.is_empty() {
        let all: Vec<&str> = seen.iter().map(|seen| seen.value.as_str()).collect();
        return Ok(Outcome::pass(all.join(", ")).all_evidence(seen));
    }
    Ok(Outcome::warn(short).all_evidence(seen))
}
