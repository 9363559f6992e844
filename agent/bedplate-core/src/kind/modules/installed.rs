//! Modules available to a kernel, loaded or not: the indexes in /lib/modules/RELEASE, read only if a module is not live.

use bedplate_base::value::ModuleName;
use bedplate_facts::Facts;
use bedplate_host::{HostKind, Reader};

/// Whether a module can be loaded on a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModuleAvailability {
    /// In modules.dep.
    Yes,
    /// In modules.builtin: part of the kernel image.
    BuiltIn,
    /// In neither.
    No {
        /// The release of the inspected kernel.
        release: String,
    },
    /// The image has no kernel yet; availability depends on the machine that boots it.
    NoKernel,
    /// The lookup failed.
    Unknown(String),
}

/// Returns the release to search for modules: the running kernel, else the newest installed one.
pub(super) fn release(facts: &Facts) -> Option<&str> {
    facts.os.kernel.known().map(String::as_str).or(facts
        .os
        .installed_kernels
        .last()
        .map(String::as_str))
}

/// Searches for a module by file name; `-` and `_` are equal.
pub(super) fn installed(
    reader: &dyn Reader,
    facts: &Facts,
    module: &ModuleName,
) -> ModuleAvailability {
    let Some(release) = release(facts) else {
        if facts.host == HostKind::Image {
            return ModuleAvailability::NoKernel;
        }
        return ModuleAvailability::Unknown("no kernel found to search for modules".into());
    };
    installed_for(reader, release, module)
}

/// [`installed`] for the kernel of a release.
pub(crate) fn installed_for(
    reader: &dyn Reader,
    release: &str,
    module: &ModuleName,
) -> ModuleAvailability {
    for (index, found) in
        [("modules.dep", ModuleAvailability::Yes), ("modules.builtin", ModuleAvailability::BuiltIn)]
    {
        match reader.text(&format!("/lib/modules/{release}/{index}")) {
            Ok(text) if text.lines().any(|line| file_is(line, module)) => return found,
            Ok(_) => {}
            Err(error) if error.is_absent() && index == "modules.builtin" => {}
            Err(error) if error.is_absent() => {
                return ModuleAvailability::Unknown(format!(
                    "/lib/modules/{release}/modules.dep is missing"
                ));
            }
            Err(error) => return ModuleAvailability::Unknown(error.to_string()),
        }
    }
    ModuleAvailability::No { release: release.to_owned() }
}

/// Whether a line names the module's file: `kernel/drivers/…/mlx5-core.ko.zst: …` is module mlx5_core.
fn file_is(line: &str, module: &ModuleName) -> bool {
    let path = line.split(':').next().unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    file.split_once(".ko").is_some_and(|(stem, _)| {
        stem.len() == module.as_str().len() && stem.replace('-', "_") == module.as_str()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_file_name_is_normalized_and_matched_whole() {
        let module: ModuleName = "nvidia-peermem".parse().unwrap();
        assert!(file_is("updates/dkms/nvidia-peermem.ko.zst: updates/dkms/nvidia.ko.zst", &module));
        assert!(file_is("updates/dkms/nvidia_peermem.ko:", &module));
        assert!(!file_is("updates/dkms/nvidia.ko: updates/dkms/nvidia-peermem.ko", &module));
        assert!(!file_is("x/not-nvidia-peermem.ko:", &module));
    }
}
