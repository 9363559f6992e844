//! Possible sizes of a GPU's large memory window (resizable BAR) from `resourceN_resize`, a bitmap in which bit n means
//! 2^(n+20) bytes (drivers/pci/pci-sysfs.c; handbook §6.1). Readable by root only.

use super::pci::Function;
use bedplate_base::Reading;
use bedplate_host::Reader;

/// Returns the largest memory window of a function.
pub fn largest(function: &Function) -> Option<super::pci::Bar> {
    let bars = &function.detail.as_ref()?.bars;
    // 6 is the ROM; 7 and above are windows of VFs.
    let own = bars.iter().filter(|bar| bar.index < 6 && bar.flags & 0x200 != 0);
    own.max_by_key(|bar| bar.size).cloned()
}

/// Returns the largest possible size in bytes; `Absent`: not resizable.
pub fn largest_possible(reader: &dyn Reader, function: &Function) -> Reading<u64> {
    let Some(bar) = largest(function) else { return Reading::Absent };
    let path = function.attribute(&format!("resource{}_resize", bar.index));
    match reader.attribute(&path) {
        Ok(text) => match u64::from_str_radix(text.trim_start_matches("0x"), 16) {
            Ok(0) => Reading::Absent,
            // Sizes beyond 2^63 bytes are invalid.
            Ok(bits) if bits.ilog2() + 20 < 64 => Reading::Known(1 << (bits.ilog2() + 20)),
            _ => Reading::unknown(format!("{path} holds {text:?}, not a bitmap")),
        },
        Err(error) => Reading::from_result(Err(error)),
    }
}
