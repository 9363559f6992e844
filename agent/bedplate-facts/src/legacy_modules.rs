//! Obsolete GPUDirect modules that boot-time module lists still name (modules-load.d(5); handbook §6.3, §12.42).

use bedplate_base::OptionalRead as _;
use bedplate_base::{ReadError, Reading};
use bedplate_host::Reader;

/// Directories of module lists; Debian also has /etc/modules.
const DIRECTORIES: [&str; 4] = [
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
];
/// The predecessor of nvidia_peermem, and a name that no module ever had.
const MODULES: [&str; 2] = ["nv_peer_mem", "amd_peer_mem"];

/// Returns lines that name an obsolete module, as (file, module).
pub fn listed(reader: &dyn Reader) -> Reading<Vec<(String, String)>> {
    Reading::from_result(find(reader))
}

fn find(reader: &dyn Reader) -> Result<Vec<(String, String)>, ReadError> {
    let mut files = vec!["/etc/modules".to_owned()];
    for directory in DIRECTORIES {
        let Some(names) = reader.list(directory).optional()? else { continue };
        let lists = names.iter().filter(|name| name.ends_with(".conf"));
        files.extend(lists.map(|name| format!("{directory}/{name}")));
    }
    let mut found = Vec::new();
    for path in files {
        let Some(bytes) = reader.read(&path).optional()? else { continue };
        for line in String::from_utf8_lossy(&bytes).lines() {
            let name = line.trim().replace('-', "_");
            if MODULES.contains(&name.as_str()) {
                found.push((path.clone(), name));
            }
        }
    }
    Ok(found)
}
