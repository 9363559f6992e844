//! GPU driver facts that decide between DMA-BUF and nvidia_peermem (handbook §6.2, §6.3).

use serde::Serialize;

use crate::host::{Reader, Reading};

/// The loaded NVIDIA kernel driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NvidiaDriver {
    /// `570.86.15`.
    pub version: String,
    /// Built from the open kernel modules.
    pub open: bool,
}

/// What is known of the GPU software stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuStack {
    /// NVIDIA driver, from /proc/driver/nvidia/version; `Absent` = not loaded.
    pub nvidia: Reading<NvidiaDriver>,
    /// Whether the kernel's ib_core exports `ib_register_peer_memory_client` (MLNX_OFED / DOCA-OFED do, mainline does not).
    pub peer_memory_symbols: Reading<bool>,
}

/// Symbol that nvidia_peermem needs from ib_core (handbook §6.3).
pub const PEER_SYMBOL: &str = "ib_register_peer_memory_client";

/// Observe. `kernel` is the release whose module index is asked.
pub fn observe(reader: &dyn Reader, kernel: Option<&str>) -> GpuStack {
    let nvidia = Reading::from_result(reader.text("/proc/driver/nvidia/version"));
    let nvidia = match nvidia {
        Reading::Known(text) => parse_version(&text).map_or_else(
            || Reading::Unknown("/proc/driver/nvidia/version has no NVRM line".into()),
            Reading::Known,
        ),
        Reading::Absent => Reading::Absent,
        Reading::Unknown(why) => Reading::Unknown(why),
    };
    // The answer only matters where an NVIDIA driver is: spare everybody else a file of half a megabyte.
    let peer_memory_symbols = match (&nvidia, kernel) {
        (Reading::Absent, _) | (_, None) => Reading::Absent,
        (_, Some(release)) => {
            let index = reader.read(&format!("/lib/modules/{release}/modules.symbols"));
            Reading::from_result(index).map(|bytes| {
                let needle = format!("symbol:{PEER_SYMBOL} ");
                bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
            })
        }
    };
    GpuStack { nvidia, peer_memory_symbols }
}

/// The first line: `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build …`.
fn parse_version(text: &str) -> Option<NvidiaDriver> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let version = line.split_whitespace().find(|word| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.contains('.')
            && word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    })?;
    Some(NvidiaDriver { version: version.to_owned(), open: line.contains("Open Kernel Module") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_open_from_proprietary() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (root@host)  Thu\nGCC version: gcc 12\n";
        assert_eq!(
            parse_version(open),
            Some(NvidiaDriver { version: "570.86.15".into(), open: true })
        );
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n";
        assert_eq!(
            parse_version(closed),
            Some(NvidiaDriver { version: "535.183.01".into(), open: false })
        );
        assert_eq!(parse_version("GCC version: gcc 12.2.0\n"), None);
    }
}
