//! Tiles of the report page: GPUs, NICs, IOMMU, ACS, firmware, reboot. Pure.

use std::collections::BTreeSet;

use super::HostPage;
use super::checks::class;
use crate::report::grouping::grouped;
use crate::report::inspect::format::ids;
use crate::report::markup::Markup;
use crate::report::names::name;
use crate::report::verify::Category;
use crate::report::{style, text};
use bedplate_base::{Reading, counted};
use bedplate_core::plan::{NextBoot, RebootNeed};
use bedplate_core::verify::{Group, Verdict};
use bedplate_facts::Facts;
use bedplate_facts::pci::Function;

/// Device models that are named on a tile.
const MODELS: usize = 3;

/// A tile: name, value, notes.
struct Tile {
    name: &'static str,
    /// Class of the value: `good`, `wrong`, `doubt`, or empty.
    class: &'static str,
    value: String,
    notes: Vec<String>,
}

/// Adds all tiles.
pub(super) fn tiles(host: &HostPage, page: &mut Markup) {
    page.open("dl", &[("class", &"tiles")]);
    for tile in [gpus(host), nics(host), iommu(host), acs(host), firmware(host), reboot(host)] {
        page.open("div", &[("class", &format_args!("tile {}", tile.class))]);
        page.element("dt", &[], tile.name);
        page.element("dd", &[("class", &"value")], &tile.value);
        tile.notes.iter().for_each(|note| page.prose_element("dd", &[], note));
        page.close();
    }
    page.close();
}

/// Returns the tile of the devices for which `is_shown` holds, and these devices.
fn devices<'h>(
    host: &'h HostPage,
    name: &'static str,
    is_shown: impl Fn(&Function) -> bool,
) -> (Tile, Vec<&'h Function>) {
    let Some(tree) = host.facts.pci.known() else {
        let notes = vec!["PCI devices unreadable".to_owned()];
        return (Tile { name, class: "doubt", value: "unknown".to_owned(), notes }, Vec::new());
    };
    let functions = tree.functions.values().filter(|function| !function.is_vf());
    let found: Vec<&Function> = functions.filter(|function| is_shown(function)).collect();
    let mut notes = models(host, &found);
    let dead = found.iter().filter(|function| function.is_dead()).count();
    if dead > 0 {
        notes.push(format!("{dead} not responding"));
    }
    // Any of them may be such a device.
    let unread = tree.unread().len();
    if unread > 0 {
        notes.push(format!("{} unreadable", counted(unread, "PCI function")));
    }
    let class = match (dead, unread) {
        (1.., _) => "wrong",
        (0, 1..) => "doubt",
        (0, 0) => "",
    };
    (Tile { name, class, value: found.len().to_string(), notes }, found)
}

/// Counts devices by model, in order of first occurrence.
fn models(host: &HostPage, devices: &[&Function]) -> Vec<String> {
    let model = |device: &&Function| name(host.names, device).unwrap_or_else(|| ids(device));
    let counts = grouped(devices.iter().copied(), model);
    let more = counts.len().saturating_sub(MODELS);
    let named = counts.iter().take(MODELS);
    let mut lines: Vec<String> = match counts.as_slice() {
        [(model, _)] => vec![model.clone()],
        _ => named.map(|(model, group)| format!("{} × {model}", group.len())).collect(),
    };
    if more > 0 {
        lines.push(format!("and {}", counted(more, "other model")));
    }
    lines
}

fn gpus(host: &HostPage) -> Tile {
    let (mut tile, found) = devices(host, "GPUs", Function::is_gpu);
    if !found.is_empty() {
        tile.notes.extend(driver(host.facts));
    }
    tile
}

/// Names the loaded GPU drivers.
fn driver(facts: &Facts) -> Option<String> {
    let nvidia = facts.gpu.nvidia.known().map(|driver| {
        let build = if driver.open { "open" } else { "proprietary" };
        format!("nvidia {} ({build})", driver.version)
    });
    let others = facts.gpu.others.iter().map(|driver| match driver.version.known() {
        Some(version) => format!("{} {version}", driver.name),
        None => driver.name.clone(),
    });
    let all: Vec<String> = nvidia.into_iter().chain(others).collect();
    (!all.is_empty()).then(|| format!("driver {}", all.join(", ")))
}

fn nics(host: &HostPage) -> Tile {
    let (mut tile, found) = devices(host, "NICs", Function::is_nic);
    let rdma = found.iter().filter(|nic| !nic.infiniband.is_empty()).count();
    if !found.is_empty() {
        tile.notes.push(format!("{rdma} with an RDMA device"));
    }
    tile
}

/// Counts the results of a group of checks. Returns the class of the worst one and a sentence.
fn results(host: &HostPage, group: Group) -> (&'static str, String) {
    let count = |wanted: Category| {
        let own = host.verdict.checks.iter().filter(|judged| judged.group == group);
        own.filter(|judged| Category::of(judged) == wanted).count()
    };
    // The worst category first.
    let categories = [Category::Failed, Category::Warned, Category::Unknown, Category::Passed];
    let counts = categories.map(|category| (category, count(category)));
    let counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    let Some((worst, _)) = counts.first() else {
        return ("", "checks: not applicable".to_owned());
    };
    let parts = counts.iter().map(|(category, count)| category.count(*count));
    (class(*worst), format!("checks: {}", parts.collect::<Vec<_>>().join(", ")))
}

fn iommu(host: &HostPage) -> Tile {
    let iommu = &host.facts.iommu;
    let (mut class, checks) = results(host, Group::Iommu);
    let known: Vec<&str> =
        iommu.groups.values().filter_map(|mode| mode.known().map(String::as_str)).collect();
    let modes: BTreeSet<&str> = known.iter().copied().collect();
    let unread = iommu.groups.len() - known.len();
    let value = match &iommu.active {
        Reading::Unknown(_) => "unknown",
        Reading::Absent => "off",
        Reading::Known(units) if units.is_empty() => "off",
        Reading::Known(_) => match (modes.contains("identity"), modes.len()) {
            (_, 0) => "active",
            // An unread group may translate.
            (true, 1) if unread > 0 => "partly unknown",
            (true, 1) => "passthrough",
            (true, _) => "partly passthrough",
            (false, _) => "translating",
        },
    };
    if unread > 0 && class != "wrong" {
        class = "doubt";
    }
    let mut notes = Vec::new();
    if !modes.is_empty() {
        let groups = counted(known.len(), "group");
        notes.push(format!("{groups} inspected: {}", Vec::from_iter(modes).join(", ")));
    }
    if unread > 0 {
        notes.push(format!("{} unreadable", counted(unread, "group")));
    }
    notes.push(checks);
    Tile { name: "IOMMU", class, value: value.to_owned(), notes }
}

/// Check that decides whether ACS redirects peer-to-peer traffic.
const PATH: &str = "acs.path";

fn acs(host: &HostPage) -> Tile {
    let (class, checks) = results(host, Group::Acs);
    let path = host.verdict.checks.iter().find(|judged| judged.id == PATH);
    let value = match path.map(|judged| judged.verdict) {
        Some(Verdict::Pass) => "direct P2P",
        Some(Verdict::Fail | Verdict::Warn) => "P2P redirected",
        Some(Verdict::NotApplicable) => "not applicable",
        Some(Verdict::Unknown) | None => "unknown",
    };
    Tile { name: "ACS", class, value: value.to_owned(), notes: vec![checks] }
}

fn firmware(host: &HostPage) -> Tile {
    let (class, checks) = results(host, Group::Firmware);
    let version = host.facts.dmi.bios_version.known();
    let value = version.map_or("version unknown", String::as_str).to_owned();
    Tile { name: "Firmware", class, value, notes: vec![checks] }
}

fn reboot(host: &HostPage) -> Tile {
    let (class, value, note) = match host.plan {
        Ok(Some(plan)) => {
            let (class, value) = match (plan.reboot, &plan.next_boot) {
                (RebootNeed::Reboot | RebootNeed::Cold, _) => ("doubt", "required"),
                (RebootNeed::None, NextBoot::Unsound { .. }) => ("wrong", "unsafe"),
                (RebootNeed::None, NextBoot::Unknown { .. }) => ("doubt", "not needed"),
                (RebootNeed::None, NextBoot::Sound) => ("good", "not needed"),
            };
            (class, value, style::strip_marks(&text::reboot(plan)))
        }
        Ok(None) => ("", "no profile", "no profile requires a reboot".to_owned()),
        Err(_) => ("doubt", "unknown", "no plan".to_owned()),
    };
    let mut notes = vec![note];
    if let Some(known) = host.outline.reboots.known()
        && !known.attempts.is_empty()
    {
        notes.push(format!("{} requested since the host last converged", known.attempts.len()));
    }
    Tile { name: "Reboot", class, value: value.to_owned(), notes }
}
