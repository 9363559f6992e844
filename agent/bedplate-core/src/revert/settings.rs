//! Revert of runtime settings.

use std::collections::BTreeMap;

use super::{FORCE, GONE, GUESTS, RevertPlan, Step};
use crate::kind::{acs, hugepages, owns_register, sriov};
use crate::ledger::{Ledger, SettingRecord};
use crate::register;
use crate::setting::{
    SetConfigBits, SetEswitch, SetVf, SettingChange, VfKey, WriteAttribute, read_attribute,
};
use bedplate_base::chain;
use bedplate_base::value::vf::VfAttributes;
use bedplate_base::value::{AcsBits, PciAddress, RegisterBits};
use bedplate_facts::{Facts, uplink};
use bedplate_host::{Reader, symlink};

/// Fix for a PF without an interface.
const NO_INTERFACE: &str = "load its network driver, or move the interface back from its network namespace, then run again";
/// Fix for huge pages in use.
const IN_USE: &str = "end the programs that use huge pages, then run again";
/// Time limit in seconds for removing or creating VFs, for any number (handbook §5.1).
const VFS_LIMIT_S: u32 = 600;

/// Input for planning the revert of settings.
pub(super) struct Planner<'a> {
    pub reader: &'a dyn Reader,
    pub ledger: &'a Ledger,
    /// Id of the running boot, if known; not set for an image.
    pub boot: Option<&'a str>,
    /// Whether to revert settings changed by other tools too.
    pub force: bool,
    pub facts: &'a dyn Fn() -> &'a Facts,
}

impl Planner<'_> {
    /// Plans all settings. VFs without a driver from an interrupted run are last, except for registers: driver
    /// autoprobe may have to be enabled first.
    pub(super) fn plan(&self, plan: &mut RevertPlan) {
        let ledger = self.ledger;
        ledger.vfs.values().for_each(|record| self.plan_vf(plan, record));
        let eswitches = ledger.eswitches.values();
        let mut eswitches: BTreeMap<PciAddress, SetEswitch> =
            eswitches.filter_map(|record| self.reversed_eswitch(plan, record)).collect();
        // Fewer huge pages of one size first: they free the memory for more of another.
        let mut attributes: Vec<_> = ledger.attributes.values().collect();
        attributes.sort_by_key(|record| {
            let WriteAttribute { before, after, .. } = record.action.clone();
            hugepages::adds_pages(&record.action.with(after, before))
        });
        for record in attributes {
            self.plan_attribute(plan, record, &mut eswitches);
        }
        eswitches.into_values().for_each(|action| self.plan_eswitch(plan, action));
        self.plan_starts(plan);
        ledger.registers.values().for_each(|record| self.plan_register(plan, record));
    }

    /// Whether a setting was made in this boot; if not, adds a note that it is gone.
    fn is_of_this_boot(&self, plan: &mut RevertPlan, subject: &str, boot: &str) -> bool {
        let is = self.boot == Some(boot);
        if !is {
            plan.notes.push(format!("{subject} {GONE}"));
        }
        is
    }

    /// Returns the action that reverts a setting with value `now`; `None` if there is none, or another tool has set it.
    fn reversed<C: SettingChange>(
        &self,
        plan: &mut RevertPlan,
        record: &SettingRecord<C>,
        now: &C::Value,
    ) -> Option<C> {
        let action = record.reversed(now)?;
        let before = action.before();
        if !self.force && !record.is_ours(&before) {
            plan.refuse(action.name(), action.changed_by_others(&before), FORCE);
            return None;
        }
        Some(action)
    }

    /// Plans an attribute. `eswitches` are reverted while their PF has no VFs.
    fn plan_attribute(
        &self,
        plan: &mut RevertPlan,
        record: &SettingRecord<WriteAttribute>,
        eswitches: &mut BTreeMap<PciAddress, SetEswitch>,
    ) {
        let path = &record.action.path;
        if !self.is_of_this_boot(plan, path, &record.boot) {
            return;
        }
        let now = match read_attribute(self.reader, path) {
            Ok(now) => now,
            Err(error) if error.is_absent() => {
                plan.notes.push(format!("{path} is gone, including its value"));
                return;
            }
            Err(error) => return plan.refuse(path, error.to_string(), "run as root"),
        };
        let Some(action) = self.reversed(plan, record, &now) else { return };
        if let Some(reason) = hugepages::use_of_pages(self.reader, &action) {
            return plan.refuse(path, reason, IN_USE);
        }
        let counted = action.counts_vfs_of();
        let pf = counted.filter(|_| now != "0");
        if let Some(users) =
            pf.filter(|_| !self.force).map(|pf| sriov::users_of_vfs(self.reader, pf))
            && !users.is_empty()
        {
            return plan.refuse(path, format!("VFs in use: {}", users.join(", ")), FORCE);
        }
        // Another number of VFs can only follow 0 (handbook §5.1).
        let mut between = counted.and_then(|pf| eswitches.remove(&pf)).map(Step::Eswitch);
        let by_way_of = (pf.is_some() && action.after != "0").then(|| "0".to_owned());
        let mut before = now;
        for after in by_way_of.into_iter().chain([action.after.clone()]) {
            plan.steps.extend(between.take_if(|_| before == "0"));
            plan.steps.push(Step::Attribute(action.with(before, after.clone())));
            before = after;
        }
        plan.steps.extend(between);
    }

    fn plan_register(&self, plan: &mut RevertPlan, record: &SettingRecord<SetConfigBits>) {
        let subject = record.action.name();
        if !self.is_of_this_boot(plan, &subject, &record.boot) {
            return;
        }
        match owns_register(self.reader, record.kind, &record.action) {
            Ok(true) => {}
            Ok(false) => return plan.notes.push(format!("{subject} is gone, including its value")),
            Err(reason) => return plan.refuse(subject, reason, "run as root"),
        }
        if !self.force
            && record.kind != acs::NAME
            && let Some(reason) = guest_of((self.facts)(), record.action.address)
        {
            return plan.refuse(subject, reason, GUESTS);
        }
        let now = match register::read(self.reader, &record.action) {
            Ok(now) => RegisterBits::whole(now),
            Err(error) => return plan.refuse(subject, chain(&error), "run as root"),
        };
        let Some(action) = self.reversed(plan, record, &now) else { return };
        // A state that apply refuses above a function assigned to a VM is not restored either.
        let lost = AcsBits(action.before & !action.bits.value);
        if !self.force
            && record.kind == acs::NAME
            && !lost.is_empty()
            && let Some(reason) = acs::guests_exposed((self.facts)(), action.address, lost)
        {
            return plan.refuse(subject, reason, GUESTS);
        }
        plan.steps.push(Step::Register(action));
    }

    /// Plans the attributes of a VF. Those that vanish with the VF need no step.
    fn plan_vf(&self, plan: &mut RevertPlan, record: &SettingRecord<SetVf>) {
        let key = &record.action.key;
        let subject = key.name();
        if !self.is_of_this_boot(plan, &format!("attributes of {subject}:"), &record.boot) {
            return;
        }
        if self.vf_count_changes(key.pf) {
            plan.notes.push(format!("attributes of {subject} are removed with the VF"));
            return;
        }
        let gone = format!("{subject} is gone, including its attributes");
        // Uses the current name: interfaces are renamed, and a ledger entry does not justify writes to another device.
        let interface = match uplink::now(self.reader, key.pf) {
            Ok(Some(interface)) => interface,
            Ok(None)
                if self.reader.exists(&format!("/sys/bus/pci/devices/{}", key.pf)) == Ok(false) =>
            {
                return plan.notes.push(gone);
            }
            Ok(None) => {
                let reason = format!("{} has no network interface here", key.pf);
                return plan.refuse(subject, reason, NO_INTERFACE);
            }
            Err(error) => return plan.refuse(subject, error.to_string(), "run as root"),
        };
        let table = match self.reader.vfs(key.pf, &interface) {
            Ok(table) => table,
            Err(error) => return plan.refuse(subject, error.to_string(), "run again, as root"),
        };
        let Some(found) = table.vfs.get(&key.vf) else { return plan.notes.push(gone) };
        let Some(mut action) = self.reversed(plan, record, found) else { return };
        action.start &= action.after.need_restart() && !has_no_driver(self.reader, key);
        let is_restarted = action.start && !self.force;
        if is_restarted
            && let Some(user) = sriov::use_of_vf((self.facts)(), self.reader, key.pf, key.vf)
        {
            let after = action.after;
            let reason =
                format!("in use ({user}), and reverting this restarts its driver: {after}");
            return plan.refuse(subject, reason, FORCE);
        }
        action.key.interface = interface;
        plan.steps.push(Step::Vf(action));
    }

    fn plan_starts(&self, plan: &mut RevertPlan) {
        let starts = self.ledger.starts.values();
        for record in starts.filter(|record| self.boot == Some(record.boot.as_str())) {
            if !self.vf_count_changes(record.key.pf) && has_no_driver(self.reader, &record.key) {
                plan.steps.push(Step::Vf(SetVf {
                    key: record.key.clone(),
                    before: VfAttributes::default(),
                    after: VfAttributes::default(),
                    start: true,
                    limit_s: record.limit_s,
                }));
            }
        }
    }

    /// Whether the PF's VFs are removed, or created again.
    fn vf_count_changes(&self, pf: PciAddress) -> bool {
        let path = format!("/sys/bus/pci/devices/{pf}/sriov_numvfs");
        let now = self.reader.attribute(&path);
        let record = self.ledger.attributes.get(&path);
        record.is_some_and(|record| now.is_ok_and(|now| record.reversed(&now).is_some()))
    }

    /// Returns the PF with the revert of its eswitch, which needs a moment without VFs.
    fn reversed_eswitch(
        &self,
        plan: &mut RevertPlan,
        record: &SettingRecord<SetEswitch>,
    ) -> Option<(PciAddress, SetEswitch)> {
        let (pf, subject) = (record.action.pf, record.action.name());
        if !self.is_of_this_boot(plan, &subject, &record.boot) {
            return None;
        }
        match self.reader.eswitch(pf) {
            Ok(Some(now)) => Some((pf, self.reversed(plan, record, &now)?)),
            Ok(None) => {
                plan.notes.push(format!("{subject} is gone with its driver"));
                None
            }
            Err(error) => {
                plan.refuse(subject, error.to_string(), "run as root");
                None
            }
        }
    }

    /// Plans an eswitch if its PF keeps its number of VFs: they are removed and created again.
    fn plan_eswitch(&self, plan: &mut RevertPlan, action: SetEswitch) {
        let pf = action.pf;
        let path = format!("/sys/bus/pci/devices/{pf}/sriov_numvfs");
        let count = match self.reader.attribute(&path) {
            Ok(count) => count,
            Err(error) => return plan.refuse(action.name(), error.to_string(), "run as root"),
        };
        if count == "0" {
            return plan.steps.push(Step::Eswitch(action));
        }
        let users = sriov::users_of_vfs(self.reader, pf);
        if !self.force && !users.is_empty() {
            let users = users.join(", ");
            let reason = format!("changing the mode removes the VFs, which are in use: {users}");
            return plan.refuse(action.name(), reason, FORCE);
        }
        let (before, after) = (count, "0".to_owned());
        let remove = WriteAttribute { path, before, after, limit_s: VFS_LIMIT_S };
        let make = remove.with(remove.after.clone(), remove.before.clone());
        let around = [Step::Attribute(remove), Step::Eswitch(action), Step::Attribute(make)];
        plan.steps.extend(around);
    }
}

/// Returns why a function's registers belong to a VM. `None` for bridges, which VMs do not get.
fn guest_of(facts: &Facts, address: PciAddress) -> Option<String> {
    let tree = match facts.pci.optional() {
        Ok(tree) => tree?,
        Err(why) => return Some(format!("cannot tell whether a VM has the function: {why}")),
    };
    let is_guests = tree.get(address).is_some_and(|function| tree.may_be_a_guests(function));
    is_guests.then(|| "assigned to a VM, or possibly: its guest owns the register".to_owned())
}

/// Whether the VF exists without a driver.
fn has_no_driver(reader: &dyn Reader, key: &VfKey) -> bool {
    let vf = symlink::virtual_function(reader, key.pf, key.vf);
    vf.and_then(|vf| symlink::driver(reader, &vf)).is_ok_and(|driver| driver.is_none())
}
