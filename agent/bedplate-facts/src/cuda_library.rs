//! Version of the NVIDIA driver's user-space library, from its file name.

use bedplate_base::Reading;
use bedplate_host::{Reader, symlink};

/// Install directories of the driver's packages: Debian and Ubuntu first, then other distributions.
const DIRECTORIES: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
/// Soname of the library.
const NAME: &str = "libcuda.so.1";
/// Maximum links to follow; Debian's alternatives take four.
const LINKS: usize = 8;

/// CUDA library that programs on the host load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaLibrary {
    /// Link through which programs find it.
    pub path: String,
    /// For example `580.95.05`.
    pub version: String,
}

/// Finds the library. `Absent`: not installed, or its file name has no version.
pub fn observe(reader: &dyn Reader) -> Reading<CudaLibrary> {
    for directory in DIRECTORIES {
        let path = format!("{directory}/{NAME}");
        let mut at = path.clone();
        for _ in 0..LINKS {
            match Reading::from_result(reader.link(&at)) {
                Reading::Known(target) => at = symlink::target(&at, &target),
                Reading::Absent => break,
                Reading::Unknown(why) => return Reading::Unknown(why),
            }
            if let Some(version) = version(&at) {
                return Reading::Known(CudaLibrary { path, version: version.to_owned() });
            }
        }
    }
    Reading::Absent
}

fn version(path: &str) -> Option<&str> {
    let version = path.rsplit('/').next()?.strip_prefix("libcuda.so.")?;
    let is_version =
        version.contains('.') && version.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    is_version.then_some(version)
}
