//! Huge pages: whether the kernel has as many as the command line requests.

use super::super::finding::page_size;
use super::super::unread::OrUnread as _;
use super::super::{
    Check, CheckInput, Evidence, Group, HugePagesFinding, Judgement, Outcome, Severity,
};
use crate::kind::cmdline::{arch, huge_pages};
use bedplate_cmdline::CommandLine;
use bedplate_facts::limits::HUGE_PAGES;

pub(crate) const HUGEPAGES: Check = Check {
    id: "limits.hugepages",
    group: Group::Limits,
    proves: "the kernel has the huge pages that its command line asks for",
    severity: Severity::Warn,
    needs_root: false,
    what: "Of each size that `hugepagesz=` and `hugepages=` of the running kernel name there are as many pages as asked for, or \
           more. A kernel that was asked for none needs none: GPUDirect RDMA does not use them. What the profile asks for \
           beyond the running command line, `profile.in-effect` shows.",
    why: "The kernel takes what it finds and goes on with fewer where memory is short, on one NUMA node above all. DPDK and \
          storage clients fail at their start then.",
    source: "handbook §1.1; Linux Documentation/admin-guide/mm/hugetlbpage.rst",
    how: "/proc/cmdline; nr_hugepages of each size in /sys/kernel/mm/hugepages",
    judge: hugepages,
};

fn hugepages(input: &CheckInput<'_>) -> Judgement {
    let Some(running) = input.observed.command_line.running.or_unread("the command line")? else {
        return Ok(Outcome::not_applicable("no kernel runs here"));
    };
    let running = CommandLine::parse(running);
    let tokens: Vec<&str> = running.tokens().map(|token| token.as_str()).collect();
    let asked = match huge_pages(tokens.iter().copied(), arch(input.facts)) {
        Some(asked) if asked.values().all(|count| *count == 0) => {
            return Ok(Outcome::not_applicable("none asked for"));
        }
        Some(asked) => asked,
        None => {
            return Ok(Outcome::unknown(
                "the command line asks for huge pages of a size that is not understood",
            )
            .evidence("hugepages=", "/proc/cmdline")
            .hint("name the size before the count: `hugepagesz=1G hugepages=16`"));
        }
    };
    let there = input.observed.limits.huge_pages.or_unread("the huge pages")?;
    let (mut short, mut seen) = (Vec::new(), Vec::new());
    for (bytes, wanted) in asked.into_iter().filter(|(_, wanted)| *wanted > 0) {
        let name = page_size(bytes);
        let found = there.and_then(|there| there.get(&bytes));
        let found = found.or_unread(format_args!("the huge pages of {name}"))?;
        let found = found.map_or(0, |found| u128::from(*found));
        let what = format!("{found} of {wanted} pages of {name}");
        if found < wanted {
            short.push(HugePagesFinding::HugePagesShort { bytes, found, wanted });
        }
        seen.push(Evidence::new(
            what,
            format!("{HUGE_PAGES}/hugepages-{}kB/nr_hugepages", bytes >> 10),
        ));
    }
    if short.is_empty() {
        let all: Vec<&str> = seen.iter().map(|seen| seen.what.as_str()).collect();
        return Ok(Outcome::pass(all.join(", ")).all_evidence(seen));
    }
    Ok(Outcome::warn(short).all_evidence(seen))
}
