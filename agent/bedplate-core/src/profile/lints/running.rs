//! Matchers of lints about settings of the running kernel: CPUs, huge pages, PCIe registers.

use super::find::args;
use super::{LintMatch, View};
use crate::kind::cmdline::huge_pages;
use crate::kind::pcie::section::Permission;
use crate::section::key_of;
use bedplate_base::{CpuVendor, ResourceLimit};

pub(super) fn intel_idle_on_amd(view: &View<'_>) -> Vec<LintMatch> {
    let is_amd = view.profile.matching.cpu_vendor == Some(CpuVendor::Amd);
    args(view, |arg| is_amd && arg.name.starts_with("intel_idle."))
}

/// Finds an argument for another governor than the profile's.
pub(super) fn governor_twice(view: &View<'_>) -> Vec<LintMatch> {
    let governor = view.profile.cpu.governor.as_deref();
    args(view, |arg| {
        arg.name == "cpufreq.default_governor"
            && governor.is_some_and(|governor| governor != arg.value)
    })
}

/// Sizes that no kernel takes as its default without `default_hugepagesz=` (handbook §1.7).
const NEVER_DEFAULT: [&str; 3] = ["64K", "1G", "16G"];

/// Finds kernel parameters that set numbers of huge pages beside `[hugepages]`: those of the kernel's default size.
pub(super) fn hugepages_twice(view: &View<'_>) -> Vec<LintMatch> {
    const KEYS: [&str; 2] = ["/proc/sys/vm/nr_hugepages", "/proc/sys/vm/nr_hugepages_mempolicy"];
    let has_default = view.args.iter().any(|arg| arg.name == "default_hugepagesz");
    let may_be_default = |size: &String| has_default || !NEVER_DEFAULT.contains(&size.as_str());
    if !view.profile.hugepages.sizes().any(|size| may_be_default(&size.to_string())) {
        return Vec::new();
    }
    let set = view.profile.sysctl.set.iter().filter(|one| KEYS.contains(&one.key.path().as_str()));
    let name = set.map(|one| one.key.to_string());
    name.filter_map(|name| view.hit(&key_of("sysctl.set", &name), name.clone())).collect()
}

/// Finds arguments that reserve huge pages of a size that `[hugepages]` sets too.
pub(super) fn hugepages_by_argument(view: &View<'_>) -> Vec<LintMatch> {
    let texts = view.args.iter().map(|arg| arg.text.as_str());
    let asked = huge_pages(texts, Some(2 << 20)).unwrap_or_default();
    let is_set_too = view.profile.hugepages.sizes().any(|size| asked.contains_key(&size.bytes()));
    args(view, |arg| is_set_too && arg.name == "hugepages")
}

/// Finds a limit of locked memory.
pub(super) fn memlock_limited(view: &View<'_>) -> Vec<LintMatch> {
    let limited = view.profile.limits.memlock.filter(|limit| *limit != ResourceLimit::Unlimited);
    let found = limited.and_then(|limit| view.hit("limits.memlock", format!("memlock = {limit}")));
    found.into_iter().collect()
}

/// Policies for payloads other than the harmless ones.
const RISKY_POLICIES: [&str; 2] = ["pcie_bus_perf", "pcie_bus_peer2peer"];
/// The policy under which the kernel limits read requests.
const LIMITING_POLICY: &str = "pcie_bus_perf";

/// Finds arguments with a policy for payloads that may break devices; not in a profile whose read requests it forbids,
/// which has an error of its own.
pub(super) fn payload_policy(view: &View<'_>) -> Vec<LintMatch> {
    match read_request_against_policy(view).is_empty() {
        true => args(view, |arg| arg.name == "pci" && RISKY_POLICIES.contains(&arg.value.as_str())),
        false => Vec::new(),
    }
}

/// Finds sizes of read requests that the profile's policy for payloads forbids. The smallest size is never too large.
pub(super) fn read_request_against_policy(view: &View<'_>) -> Vec<LintMatch> {
    match args(view, |arg| arg.name == "pci" && arg.value == LIMITING_POLICY).is_empty() {
        true => Vec::new(),
        false => read_requests(view, |bytes| bytes > 128),
    }
}

/// Finds small sizes of read requests.
pub(super) fn read_request_small(view: &View<'_>) -> Vec<LintMatch> {
    read_requests(view, |bytes| bytes < 512)
}

/// Finds sizes of read requests.
fn read_requests(view: &View<'_>, test: impl Fn(u16) -> bool) -> Vec<LintMatch> {
    let pcie = &view.profile.pcie;
    let own = ("pcie.max_read_request".to_owned(), pcie.read_request_bytes());
    let rules = pcie.rules.iter();
    let rules =
        rules.map(|rule| (key_of("pcie.devices", &rule.name), rule.max_read_request.bytes()));
    let sizes = std::iter::once(own).chain(rules);
    let found = sizes.filter_map(|(key, size)| Some((key, size.filter(|&size| test(size))?)));
    found.filter_map(|(key, size)| view.hit(&key, format!("max_read_request = {size}"))).collect()
}

/// Finds rules for registers without a source.
pub(super) fn pcie_without_source(view: &View<'_>) -> Vec<LintMatch> {
    let rules = view.profile.pcie.rules.iter();
    let unsourced = rules.filter(|rule| {
        let sets = rule.max_read_request.bytes().is_some()
            || rule.relaxed_ordering == Permission::Granted(true);
        sets && rule.why.iter().all(|why| why.is_place || why.source.is_none())
    });
    let found = unsourced.filter_map(|rule| {
        view.hit(&key_of("pcie.devices", &rule.name), format!("rule {}", rule.name))
    });
    found.collect()
}
