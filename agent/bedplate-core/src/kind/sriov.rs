//! SR-IOV: the number of VFs of each PF, and their drivers. [`resolve()`] yields the desired VFs; the plan here compares
//! PFs with them and refuses to destroy VFs that are in use. Only `apply` writes.

mod attributes;
mod change;
mod disruption;
mod drivers;
mod operator;
mod paths;
mod permissions;
mod resolve;
pub mod section;
#[cfg(test)]
mod tests;
mod unstarted_vfs;
mod usage;
mod vf_diff;

use crate::desired::{Desired, VfDriver, WantedVfs};
use crate::plan::{Blocker, Device, DeviceRole, KindId, KindPlan, Note, Subject};
use crate::profile::model::Profile;
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::EswitchMode;
use bedplate_base::{Reading, Reason};
use bedplate_facts::pci::{Function, PciTree, SriovPf};
use bedplate_facts::{Depth, Facts, observe};
use bedplate_host::{HostKind, Reader};

use super::{Context, Kind, Privacy, some_of};
use crate::image_config::{ContributeError, ImageConfig};

use attributes::Stop;
use change::vfs;
use operator::left_to_operator;
pub use paths::{LINK_DIRECTORY, LINK_PREFIX, UDEV_DIRECTORIES, UDEV_RULES};
pub use resolve::resolve;
use section::SriovManaged;
use vf_diff::VfDifference;

/// Name of this resource type.
pub const NAME: KindId = KindId::Sriov;

/// Returns the uses of a PF's VFs before they are destroyed, one text per VF; empty means unused. Unknown counts as use.
pub(crate) fn users_of_vfs(reader: &dyn Reader, pf: PciAddress) -> Vec<String> {
    let facts = observe(reader, Depth::Plan);
    match sriov_of(&facts, pf) {
        Ok(Some((tree, sriov))) => usage::users(sriov, tree, reader),
        Ok(None) => Vec::new(),
        Err(reason) => vec![reason.to_string()],
    }
}

/// Returns the PCI functions and the state of a PF's VFs; `None` if the PF is missing or has no SR-IOV.
fn sriov_of(facts: &Facts, pf: PciAddress) -> Result<Option<(&PciTree, &SriovPf)>, &Reason> {
    let Some(tree) = facts.pci.optional()? else { return Ok(None) };
    let Some(function) = tree.get(pf) else { return Ok(None) };
    Ok(function.sriov.optional()?.map(|sriov| (tree, sriov)))
}

/// Describes the use of a VF; `None` if it is unused, or the PF has no SR-IOV. Unknown counts as use.
pub(crate) fn use_of_vf(
    facts: &Facts,
    reader: &dyn Reader,
    pf: PciAddress,
    vf: u16,
) -> Option<String> {
    let (tree, sriov) = match sriov_of(facts, pf) {
        Ok(found) => found?,
        Err(reason) => return Some(reason.to_string()),
    };
    match sriov.vfs.get(usize::from(vf)).and_then(|vf| tree.get(*vf)) {
        Some(function) => usage::use_of(function, tree, reader),
        None => Some("not visible among the PCI functions".to_owned()),
    }
}

/// Entry in the registry of resource types.
pub(crate) const KIND: Kind = Kind {
    id: NAME,
    about: "SR-IOV virtual functions and their drivers",
    resolve: resolve::resolve_into,
    plan,
    contribute,
    watch: paths::watch,
    recorded: paths::RECORDED,
    owns: paths::OWNS,
    files: &[],
    privacy: Privacy::OPEN,
    labels: paths::labels,
};

/// Passes the rules on: VFs do not survive a boot, and each target format creates them in its own way.
fn contribute(
    profile: &Profile,
    _: &Facts,
    desired: &Desired,
    out: &mut ImageConfig,
) -> Result<(), ContributeError> {
    let section = &profile.sriov;
    out.vfs_are_external = section.managed == SriovManaged::External;
    out.vfs.clone_from(&section.rules);
    out.vfs_of_host.clone_from(&desired.sriov);
    Ok(())
}

fn plan(context: &Context) -> KindPlan {
    let mut section = KindPlan::default();
    let Some(tree) = context.facts.pci.known() else { return section };
    section.changes.extend(unstarted_vfs::left_behind(context, tree));
    if context.desired.sriov.is_empty() || left_to_operator(context, &mut section) {
        return section;
    }
    section.notes.extend(link_files(context));
    for wanted in &context.desired.sriov {
        let function = tree.get(wanted.pf);
        // An unreadable PF is in the desired state's unknowns or blockers, not among its VFs.
        if let Some((function, Reading::Known(sriov))) =
            function.map(|function| (function, &function.sriov))
        {
            Pf { context, tree, wanted, function, sriov, switch: None }.plan(&mut section);
        }
    }
    section
}

/// Notes .link files that set VFs: systemd-udevd applies them whenever the PF's interface appears (handbook §5.4).
fn link_files(context: &Context) -> Vec<Note> {
    let mut notes = Vec::new();
    for directory in ["/etc/systemd/network", "/run/systemd/network"] {
        for name in context.reader.list(directory).unwrap_or_default() {
            let path = format!("{directory}/{name}");
            let text = context.reader.text(&path).ok().filter(|_| name.ends_with(".link"));
            let text = text.unwrap_or_default();
            let has = |start: &str| text.lines().any(|line| line.trim_start().starts_with(start));
            let remarks = [
                (
                    "SR-IOVVirtualFunctions=",
                    "also sets VF counts (SR-IOVVirtualFunctions=); configure each PF in one place only",
                ),
                (
                    "[SR-IOV]",
                    "also sets VF attributes ([SR-IOV]); configure each VF in one place only",
                ),
            ];
            for (_, text) in remarks.into_iter().filter(|(start, _)| has(start)) {
                notes.push(NAME.note(path.clone(), text.to_owned()));
            }
        }
    }
    notes
}

/// One PF in the desired state, and its observed state.
struct Pf<'a> {
    context: &'a Context<'a>,
    tree: &'a PciTree,
    wanted: &'a WantedVfs,
    function: &'a Function,
    sriov: &'a SriovPf,
    /// Current and desired mode of the eswitch, if they differ.
    switch: Option<(EswitchMode, EswitchMode)>,
}

/// Work needed on a PF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    /// The VF count is right and the VFs are unbound; only their driver is missing.
    Bind,
    /// No VF has a driver; driver probing must be switched off.
    StopProbing,
    /// From 0 VFs to some.
    Create,
    /// To 0 VFs, then to the desired count unless that is 0; destroys the existing VFs.
    Destroy,
}

impl Pf<'_> {
    fn plan(mut self, section: &mut KindPlan) {
        match self.try_plan(section) {
            Ok(()) => {}
            Err(Stop::Unknown(reason)) => self.unknown(reason, section),
            Err(Stop::Blocked { reason, fix }) => {
                section.blockers.push(NAME.blocker(self.subject(), reason, fix));
            }
        }
    }

    fn try_plan(&mut self, section: &mut KindPlan) -> Result<(), Stop> {
        let present = match &self.sriov.enabled {
            Reading::Known(present) => *present,
            Reading::Absent => return Err(Stop::Unknown("sriov_numvfs is missing".to_owned())),
            Reading::Unknown(reason) => return Err(Stop::Unknown(reason.to_string())),
        };
        self.switch = self.switching()?;
        let need = self.need(present)?;
        section.notes.extend(self.remarks(need));
        let image = self.context.facts.host == HostKind::Image;
        let obstacle = (need != Need::Nothing && !image).then(|| self.obstacle(present, need));
        if let Some(blocker) = obstacle.flatten() {
            section.blockers.push(blocker);
            return Ok(());
        }
        let differing = self.differing(matches!(need, Need::Create | Need::Destroy))?;
        if need == Need::Nothing && differing.is_empty() && self.switch.is_none() {
            let attributes = self.attributes_settled();
            let state = format!("{} with {}{attributes}", vfs(present), self.driver_wanted());
            section.unchanged.push(NAME.up_to_date(self.subject().to_string(), state));
            return Ok(());
        }
        if differing.iter().any(|vf| !vf.after.is_empty()) || self.switch.is_some() {
            self.may_set()?;
        }
        // The routes of an image depend on the machine that will run it.
        let route = if image { Ok(None) } else { self.route_at_stake(need, &differing) };
        if self.may_disturb(need, &differing, &route, section) {
            section.changes.push(self.change(present, need, image, &differing, &route));
        }
        Ok(())
    }

    fn subject(&self) -> Subject {
        let interface = self.function.net.first().map(ToString::to_string);
        Device { interface, ..Device::new(DeviceRole::Pf, self.wanted.pf) }.into()
    }

    fn unknown(&self, reason: String, section: &mut KindPlan) {
        section.unknowns.push(NAME.unknown(self.subject(), reason));
    }

    fn need(&self, present: u16) -> Result<Need, Stop> {
        let need = match (present, self.wanted.count) {
            (0, 0) => Need::Nothing,
            (0, _) => Need::Create,
            // An eswitch changes its mode only while there are no VFs (handbook §5.2).
            (_, _) if self.switch.is_some() => Need::Destroy,
            (present, wanted) if present != wanted => Need::Destroy,
            _ => self.driver_need(present)?,
        };
        // Only the PF's driver creates VFs, and the effect depends on the driver.
        match self.tree.unread_drivers.get(&self.wanted.pf) {
            Some(reason) if matches!(need, Need::Create | Need::Destroy) => {
                Err(Stop::Unknown(format!("driver unknown: {reason}")))
            }
            _ => Ok(need),
        }
    }

    /// Whether the kernel probes drivers for new VFs. Defaults to true, as in the kernel (handbook §5.1).
    fn probes(&self) -> bool {
        self.sriov.autoprobe.known().copied().unwrap_or(true)
    }

    fn needs_iommu(&self) -> bool {
        let vfio =
            matches!(&self.wanted.rule.vf_driver, VfDriver::Named(name) if name.contains("vfio"));
        vfio && self.wanted.count > 0
    }

    fn driver_wanted(&self) -> String {
        match &self.wanted.rule.vf_driver {
            VfDriver::Auto => "the kernel's default driver".to_owned(),
            VfDriver::None => "no driver".to_owned(),
            VfDriver::Named(name) => format!("driver {name}"),
        }
    }

    fn remarks(&self, need: Need) -> Vec<Note> {
        let note = |text: &str| NAME.note(self.subject().to_string(), text.to_owned());
        let mut notes = Vec::new();
        let makes = matches!(need, Need::Create | Need::Destroy) && self.wanted.count > 0;
        if makes && self.wanted.rule.vf_driver == VfDriver::Auto && !self.is_to_probe() {
            notes.push(note("sriov_drivers_autoprobe is 0: new VFs get no driver"));
        }
        if makes && self.function.class >> 8 == 0x0207 && !self.wanted.rule.vf.guid {
            notes.push(note(
                "InfiniBand VFs stay down until they have GUIDs: add `vf = { guid = \"derived\" }` to the rule, or set \
                 them by hand (`ip link set PF vf N node_guid …`, `port_guid …`; handbook §5.2)",
            ));
        }
        notes
    }

    /// Returns the reason for refusing the change, if any.
    fn obstacle(&self, present: u16, need: Need) -> Option<Blocker> {
        let blocker = |reason: String, fix: String| Some(NAME.blocker(self.subject(), reason, fix));
        match (need, self.function.driver.as_deref()) {
            (Need::Create | Need::Destroy, None) => {
                return blocker(
                    "no driver is bound; only the PF's driver can create VFs (the kernel returns ENOENT)"
                        .to_owned(),
                    "load and bind its driver first, for example by listing the module in [modules]".to_owned(),
                );
            }
            (Need::Create | Need::Destroy, Some(driver)) if driver.contains("vfio") => {
                return blocker(
                    format!("bound to {driver}: the whole PF is assigned to a guest"),
                    "release the PF from the guest and bind its own driver".to_owned(),
                );
            }
            _ => {}
        }
        if self.needs_iommu() && self.context.facts.iommu.active.known().is_some_and(Vec::is_empty)
        {
            return blocker(
                "vfio-pci needs an IOMMU, but no IOMMU is active (Linux Documentation/driver-api/vfio.rst)".to_owned(),
                "enable VT-d or AMD-Vi in the BIOS and on the kernel command line ([iommu] of the profile), then reboot"
                    .to_owned(),
            );
        }
        let users = match need {
            Need::Destroy => usage::users(self.sriov, self.tree, self.context.reader),
            Need::Nothing | Need::Bind | Need::StopProbing | Need::Create => Vec::new(),
        };
        if users.is_empty() {
            return None;
        }
        if let Some((from, to)) = self.switch {
            return blocker(
                format!(
                    "changing the eswitch mode from {from} to {to} requires removing all VFs, but VFs are in use: {}",
                    some_of(users.into_iter(), 4, "VFs")
                ),
                "stop their users (drain the node), then run again".to_owned(),
            );
        }
        blocker(
            format!(
                "changing {} to {} with {} goes through 0 VFs, which destroys VFs in use: {}",
                vfs(present),
                vfs(self.wanted.count),
                self.driver_wanted(),
                some_of(users.into_iter(), 4, "VFs")
            ),
            "stop their users (drain the node), then run again".to_owned(),
        )
    }
}
