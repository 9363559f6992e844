//! AER counters: errors that a PCIe function has reported since boot (Documentation/ABI/testing/
//! sysfs-bus-pci-devices-aer_stats). Without native AER (firmware-first error handling) Linux counts nothing.

use serde::Serialize;

use super::pci::Function;
use bedplate_base::Reading;
use bedplate_host::Reader;

/// AER totals of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct AerTotals {
    /// Errors that the link corrected itself by retransmission.
    pub correctable: u64,
    /// Errors that lost a transaction.
    pub nonfatal: u64,
    /// Errors that made the link unreliable.
    pub fatal: u64,
}

/// Counter files in sysfs, each with the name of its total line.
pub const FILES: [(&str, &str); 3] = [
    ("aer_dev_correctable", "TOTAL_ERR_COR"),
    ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
    ("aer_dev_fatal", "TOTAL_ERR_FATAL"),
];

/// Reads the totals. `Absent`: the kernel has no counters for this function.
pub fn totals(reader: &dyn Reader, function: &Function) -> Reading<AerTotals> {
    let mut counts = [0; 3];
    for (count, (file, line)) in counts.iter_mut().zip(FILES) {
        let path = function.attribute(file);
        let text = match reader.attribute(&path) {
            Ok(text) => text,
            Err(error) => return Reading::from_result(Err(error)),
        };
        match total(&text, line) {
            Some(found) => *count = found,
            None => return Reading::unknown(format!("{path} has no line {line}")),
        }
    }
    let [correctable, nonfatal, fatal] = counts;
    Reading::Known(AerTotals { correctable, nonfatal, fatal })
}

fn total(text: &str, name: &str) -> Option<u64> {
    let mut rows = text.lines().filter_map(|line| line.split_once(' '));
    rows.find(|(row, _)| *row == name)?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_is_read_from_its_named_line() {
        let text = "RxErr 3\nBadTLP 1\nTOTAL_ERR_COR 4\n";
        assert_eq!(total(text, "TOTAL_ERR_COR"), Some(4));
        assert_eq!(total(text, "TOTAL_ERR_FATAL"), None);
        assert_eq!(total("TOTAL_ERR_COR many", "TOTAL_ERR_COR"), None);
    }
}
