//! Entries of the ledger that a seal removes. Each function removes its entries and returns their names. Pure.

use crate::kind::{acs, sriov};
use crate::ledger::{Entry, Ledger};
use crate::plan::KindId;
use bedplate_base::value::PciAddress;

/// Removes the records of runtime values, which can be restored only in their boot.
pub(super) fn take_runtime(ledger: &mut Ledger) -> Vec<String> {
    let attributes = std::mem::take(&mut ledger.attributes).into_keys();
    let registers = std::mem::take(&mut ledger.registers).into_keys();
    let vfs = std::mem::take(&mut ledger.vfs).into_keys();
    let starts = std::mem::take(&mut ledger.starts).into_keys();
    let eswitches = std::mem::take(&mut ledger.eswitches).into_keys();
    attributes.chain(registers).chain(vfs).chain(starts).chain(eswitches).collect()
}

/// Removes the records of module options that are pending until a boot.
pub(super) fn take_waiting(ledger: &mut Ledger) -> Vec<String> {
    std::mem::take(&mut ledger.waiting).into_iter().map(|record| record.subject).collect()
}

/// Removes results about devices, and the reasons of results except those of allowed lints.
pub(super) fn take_history(ledger: &mut Ledger) -> Vec<String> {
    let mut removed = Vec::new();
    ledger.history.retain_mut(|Entry { at, command, results, .. }| {
        let had_results = !results.is_empty();
        results.retain(|result| {
            let stays = !names_device(&result.subject);
            if !stays {
                removed.push(format!("{at} {command}: {}", result.subject));
            }
            stays
        });
        for result in results.iter_mut().filter(|result| result.result != "allowed") {
            if result.why.take().is_some() {
                removed.push(format!("{at} {command}: reason of {}", result.subject));
            }
        }
        !(had_results && results.is_empty())
    });
    removed
}

/// Whether the subject of a result is a device: a change of ACS bits or VFs, or any subject with a PCI address.
fn names_device(subject: &str) -> bool {
    let of_device = [acs::NAME, sriov::NAME].map(KindId::name);
    let kind = subject.split('/').next().unwrap_or_default();
    let words = subject.split(|c: char| !(c.is_ascii_hexdigit() || matches!(c, ':' | '.')));
    of_device.contains(&kind)
        || words.filter(|word| word.contains(':')).any(|word| word.parse::<PciAddress>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::EntryResult;

    fn result(subject: &str, result: &str, why: Option<&str>) -> EntryResult {
        let why = why.map(str::to_owned);
        EntryResult { subject: subject.into(), result: result.into(), why }
    }

    fn entry(results: Vec<EntryResult>) -> Entry {
        let at = "2026-03-03T03:00:00Z".into();
        Entry { at, command: "apply".into(), profile: None, results }
    }

    #[test]
    fn results_about_devices_and_reasons_are_removed() {
        let files = vec![
            result("lint kept-on", "allowed", Some("the site says so")),
            result("modules/options", "failed", Some("update-initramfs: node17: no space")),
            result("/etc/modprobe.d/zz-bedplate.conf", "reverted", None),
        ];
        let devices = [
            "acs/0000:15:01.0",
            "sriov/0000:18:00.0",
            "0000:18:00.0 VF 3",
            "/sys/bus/pci/devices/0000:18:00.0/sriov_numvfs",
            "ACS control of 0000:15:01.0",
        ];
        let devices: Vec<_> = devices.iter().map(|name| result(name, "done", None)).collect();
        let mut ledger = Ledger {
            history: vec![entry([files.clone(), devices.clone()].concat()), entry(devices)],
            ..Ledger::default()
        };
        let removed = take_history(&mut ledger);
        assert_eq!(removed.len(), 11, "{removed:#?}");
        let mut left = files;
        left[1].why = None;
        assert_eq!(ledger.history, [entry(left)]);
        assert_eq!(take_history(&mut ledger), [""; 0]);
    }
}
