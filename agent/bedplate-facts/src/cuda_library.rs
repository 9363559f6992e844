//! Version of the NVIDIA driver's library for user space, from the name of its file.

use bedplate_base::Reading;
use bedplate_host::{Reader, symlink};

/// Where the driver's packages put it: Debian and Ubuntu, then the others.
const DIRECTORIES: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
/// Its soname.
const NAME: &str = "libcuda.so.1";
/// Debian's alternatives take four.
const LINKS: usize = 8;

/// The library that programs of the host load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaLibrary {
    /// The link by which they find it.
    pub path: String,
    /// `580.95.05`.
    pub version: String,
}

/// `Absent`: there is none, or its name tells no version.
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
