//! VF rules for targets: by selector, so that one rendering fits every node of a pool, or by address.

use bedplate_base::value::PciAddress;
use bedplate_core::desired::{FunctionSelector, SriovCount, SriovRule, VfDriver, WantedVfs};
use bedplate_core::image_config::ImageConfig;
use bedplate_core::kind::sriov;

use super::{Inexpressible, Options};

/// The PFs of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pfs<'a> {
    /// Those that it selects.
    Selected(&'a FunctionSelector),
    /// These addresses.
    Addresses(Vec<PciAddress>),
}

impl Pfs<'_> {
    /// Returns the number of PFs on one host, as far as known.
    pub(crate) fn len(&self) -> usize {
        match self {
            Pfs::Selected(_) => 0,
            Pfs::Addresses(addresses) => addresses.len(),
        }
    }
}

/// PFs of one rule that get the same number of VFs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group<'a> {
    /// The rule.
    pub rule: &'a SriovRule,
    /// Its PFs, or some of them.
    pub pfs: Pfs<'a>,
    /// VFs of each.
    pub count: u16,
}

/// Returns the PFs of these rules by rule and count, in rule order, and the rules that the target cannot express.
/// `cannot` returns the reason. Later rules that may select the same PFs are omitted too, because the first rule that
/// selects a PF applies.
pub(super) fn groups<'a>(
    build: &ImageConfig,
    rules: impl Iterator<Item = &'a SriovRule>,
    options: &Options,
    cannot: impl Fn(&SriovRule) -> Option<&'static str>,
) -> (Vec<Group<'a>>, Vec<Inexpressible>) {
    let mut left_out: Vec<&SriovRule> = Vec::new();
    let (mut groups, mut items) = (Vec::new(), Vec::new());
    for rule in rules {
        let before = left_out
            .iter()
            .find(|before| !options.pin_addresses && may_overlap(&before.select, &rule.select));
        let group = match before {
            Some(before) => Err(inexpressible(
                rule,
                &format!(
                    "it may select PFs of the earlier rule {}, which cannot be expressed here",
                    before.name
                ),
            )),
            None if options.pin_addresses => of_host(build, rule, &cannot),
            None => selected(rule, &cannot).map(|group| vec![group]),
        };
        match group {
            Ok(of_rule) => groups.extend(of_rule),
            Err(item) => {
                left_out.push(rule);
                items.push(item);
            }
        }
    }
    (groups, items)
}

/// Whether both may select the same PF.
fn may_overlap(one: &FunctionSelector, other: &FunctionSelector) -> bool {
    fn differ<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
        matches!((one, other), (Some(one), Some(other)) if one != other)
    }
    !(differ(&one.vendor, &other.vendor)
        || differ(&one.device, &other.device)
        || differ(&one.driver, &other.driver)
        || differ(&one.address, &other.address)
        || differ(&one.numa_node, &other.numa_node))
}

/// Returns the PFs of the host that the profile was resolved against.
fn of_host<'a>(
    build: &ImageConfig,
    rule: &'a SriovRule,
    cannot: &impl Fn(&SriovRule) -> Option<&'static str>,
) -> Result<Vec<Group<'a>>, Inexpressible> {
    let groups = pinned(build, rule);
    let first = build.vfs_of_host.iter().find(|wanted| wanted.rule.name == rule.name);
    let select =
        FunctionSelector { address: first.map(|wanted| wanted.pf), ..FunctionSelector::default() };
    let by_address = SriovRule { select, ..rule.clone() };
    if groups.is_empty() && rule.vfs != SriovCount::Number(0) {
        return Err(inexpressible(rule, "it selects no PF of the host given for the addresses"));
    }
    match cannot(&by_address) {
        // The other rules name their addresses, so they cannot match these PFs.
        Some(_) if rule.vfs == SriovCount::Number(0) => Ok(Vec::new()),
        Some(why) if !groups.is_empty() => Err(inexpressible(rule, why)),
        _ => Ok(groups),
    }
}

/// Returns the PFs that a rule selects on the host that the profile was resolved against, by count.
pub(super) fn pinned<'a>(build: &ImageConfig, rule: &'a SriovRule) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for WantedVfs { pf, count, .. } in
        build.vfs_of_host.iter().filter(|wanted| wanted.rule.name == rule.name)
    {
        let alike = groups.iter_mut().find(|group| group.count == *count);
        match alike.map(|group| &mut group.pfs) {
            Some(Pfs::Addresses(addresses)) => addresses.push(*pf),
            _ => {
                groups.push(Group { rule, pfs: Pfs::Addresses(vec![*pf]), count: *count });
            }
        }
    }
    groups
}

/// Returns a unique name for each group, with lower-case letters, digits and `-`.
pub(super) fn names(groups: &[Group<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for group in groups {
        let base = object_name(&group.rule.name);
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut candidates = std::iter::once(base.clone()).chain(numbered);
        names.extend(candidates.find(|name| !names.contains(name)));
    }
    names
}

/// Converts a rule's name to a part of an object's name (RFC 1123).
pub(super) fn object_name(rule: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = rule.chars().map(fit).take(40).collect();
    match name.trim_matches('-') {
        "" => "vfs".to_owned(),
        name => name.to_owned(),
    }
}

/// Returns the resource name requested by pods: the operators accept letters, digits and `_`.
pub(super) fn resource_name(name: &str) -> String {
    name.replace('-', "_")
}

fn inexpressible(rule: &SriovRule, why: &str) -> Inexpressible {
    Inexpressible {
        id: rule_id(rule),
        what: format!("{}{}", vfs_of(rule), vf_driver(&rule.vf_driver)),
        why: why.to_owned(),
        instead: "run bedplate on the host, or render the PCI addresses of one node (--snapshot with --pin-addresses)"
            .to_owned(),
    }
}

fn selected<'a>(
    rule: &'a SriovRule,
    cannot: &impl Fn(&SriovRule) -> Option<&'static str>,
) -> Result<Group<'a>, Inexpressible> {
    let lost = |why: &str| inexpressible(rule, why);
    let SriovCount::Number(count) = rule.vfs else {
        return Err(lost("the number is known only on the machine"));
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if rule.select.driver.as_ref().is_some_and(|driver| !driver.chars().all(plain)) {
        return Err(lost("a driver name may have only letters, digits, `_`, `-` and `.`"));
    }
    if let Some(why) = cannot(rule) {
        return Err(lost(why));
    }
    let pfs = match rule.select {
        FunctionSelector {
            address: Some(address),
            vendor: None,
            device: None,
            driver: None,
            interface: None,
            numa_node: None,
        } => Pfs::Addresses(vec![address]),
        _ => Pfs::Selected(&rule.select),
    };
    Ok(Group { rule, pfs, count })
}

/// Returns the [`Inexpressible::id`] of a rule.
fn rule_id(rule: &SriovRule) -> String {
    format!("{}/{}", sriov::NAME, rule.name)
}

/// Returns the id of a part of a rule: `sriov.vf/compute`.
pub(super) fn part_id(rule: &SriovRule, part: &str) -> String {
    format!("{}.{part}/{}", sriov::NAME, rule.name)
}

/// Describes a rule: `8 VFs on each PF of rule compute`.
fn vfs_of(rule: &SriovRule) -> String {
    let count = match rule.vfs {
        SriovCount::Number(count) => format!("{count} VFs"),
        SriovCount::Max => "the maximum number of VFs".to_owned(),
        SriovCount::PerGpu => "a VF for each GPU".to_owned(),
    };
    match rule.select.address {
        Some(address) => format!("{count} on {address} (rule {})", rule.name),
        None => format!("{count} on each PF of rule {}", rule.name),
    }
}

/// Returns items for VFs, for targets that cannot express them.
pub(super) fn vfs(build: &ImageConfig, instead: &str) -> Vec<Inexpressible> {
    let item = |rule: &SriovRule| {
        Inexpressible {
        id: rule_id(rule),
        what: format!("{}{}", vfs_of(rule), vf_driver(&rule.vf_driver)),
        why: "sriov_numvfs is a sysfs attribute that starts at 0 at every boot (Linux drivers/pci/iov.c; handbook §5.1)"
            .to_owned(),
        instead: instead.to_owned(),
    }
    };
    let makes = |rule: &&SriovRule| rule.vfs != SriovCount::Number(0);
    build.own_vfs().filter(makes).map(item).collect()
}

/// Fix for attributes of VFs where bedplate does not run.
pub(super) const BY_OPERATOR: &str = "let the SR-IOV network operator set it: `eSwitchMode` of a SriovNetworkNodePolicy; `vlan`, \
                                      `trust`, `spoofChk`, `linkState` and `maxTxRate` of a SriovNetwork";

/// Returns items for attributes of VFs and modes of eswitches, which no file sets.
pub(super) fn vf_attributes(build: &ImageConfig, instead: &str) -> Vec<Inexpressible> {
    let item = |rule: &SriovRule| {
        attributes(rule).map(|what| Inexpressible {
            id: part_id(rule, "vf"),
            what,
            why: "it is set by rtnetlink and devlink, and lost at every boot (Linux net/core/rtnetlink.c; handbook §5.2)"
                .to_owned(),
            instead: instead.to_owned(),
        })
    };
    build.own_vfs().filter_map(item).collect()
}

/// Describes the attributes of a rule's VFs and the mode of its eswitches, if any are set.
pub(super) fn attributes(rule: &SriovRule) -> Option<String> {
    let words = rule.vf.description().map(|words| format!("VFs of rule {}: {words}", rule.name));
    let mode = rule.eswitch.map(|mode| format!("eswitch of the PFs of rule {}: {mode}", rule.name));
    let what: Vec<String> = words.into_iter().chain(mode).collect();
    (!what.is_empty()).then(|| what.join("; "))
}

/// Returns the item about VFs on the port of the default route, which bedplate creates only with `allow_disruption`:
/// for targets that always create them. `other` is a target or tool that does not.
pub(super) fn unguarded_vfs(made: &[Group<'_>], why: &str, other: &str) -> Option<Inexpressible> {
    let unguarded = made.iter().filter(|group| !group.rule.allow_disruption && group.count > 0);
    let mut rules: Vec<&str> = unguarded.map(|group| group.rule.name.as_str()).collect();
    rules.dedup();
    (!rules.is_empty()).then(|| Inexpressible {
        id: format!("{}.default-route", sriov::NAME),
        what: format!("protection of the port of the default route (rule {})", rules.join(", ")),
        why: format!("an image cannot know which port that is, and {why}"),
        instead: format!(
            "put a rule with `vfs = 0` and the `address` of that port before the others; or set `allow_disruption = \
            true` if a short loss of traffic is acceptable; or {other}"
        ),
    })
}

/// Describes the driver: ` with driver vfio-pci`, or an empty text if the kernel chooses.
pub(super) fn vf_driver(driver: &VfDriver) -> String {
    match driver {
        VfDriver::Auto => String::new(),
        VfDriver::None => " without a driver".to_owned(),
        VfDriver::Named(name) => format!(" with driver {name}"),
    }
}

/// Creates an [`Inexpressible`] for one rule's VFs.
pub(super) fn of_vfs(rule: &SriovRule, part: &str, why: &str, instead: String) -> Inexpressible {
    Inexpressible {
        id: part_id(rule, part),
        what: format!("VFs of rule {}{}", rule.name, vf_driver(&rule.vf_driver)),
        why: why.to_owned(),
        instead,
    }
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{empty_desired, with_profile};
    use super::*;

    /// Returns names of the expressed rules, and ids of the others.
    fn expressed(rules: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let rule = |(name, select): &(&str, &str)| {
            format!("[[sriov.devices]]\nname = \"{name}\"\nselect = {{ {select} }}\nvfs = 4\n")
        };
        let build = with_profile(&rules.iter().map(rule).collect::<String>(), &empty_desired());
        let cannot = |rule: &SriovRule| rule.select.interface.as_ref().map(|_| "no interfaces");
        let (groups, items) = groups(&build, build.own_vfs(), &Options::default(), cannot);
        let names = groups.iter().map(|group| group.rule.name.clone());
        (names.collect(), items.into_iter().map(|item| item.id).collect())
    }

    /// Otherwise the later rule would create VFs on a port that the first one keeps free of them.
    #[test]
    fn later_rules_for_same_pfs_are_omitted() {
        let of = |names: &[&str], ids: &[&str]| {
            let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
            (owned(names), owned(ids))
        };
        let front = ("front", "interface = \"ens9np0\"");
        let compute = ("compute", "vendor = \"15b3\", device = \"1021\"");
        assert_eq!(expressed(&[front, compute]), of(&[], &["sriov/front", "sriov/compute"]));
        assert_eq!(expressed(&[compute, front]), of(&["compute"], &["sriov/front"]));
        let intel = ("front", "vendor = \"8086\", interface = \"ens9np0\"");
        assert_eq!(expressed(&[intel, compute]), of(&["compute"], &["sriov/front"]));
    }

    #[test]
    fn driver_with_special_characters_is_rejected() {
        let wrong = ("odd", "driver = 'x\", RUN+=\"y'");
        assert_eq!(expressed(&[wrong]), (Vec::new(), vec!["sriov/odd".to_owned()]));
    }
}
