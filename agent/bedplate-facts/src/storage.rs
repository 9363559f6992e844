//! Prerequisites of GPUDirect Storage: nvidia_fs or the kernel's P2PDMA, and the configuration of its library (handbook
//! §6.4).

use super::cufile::{self, Mistake, Settings};
use super::{Facts, kernel_config};
use bedplate_base::Reading;
use bedplate_host::{Reader, module};

/// State of GPUDirect Storage's prerequisites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Whether nvidia_fs is loaded.
    pub nvidia_fs: Reading<bool>,
    /// Version of nvidia_fs.
    pub version: Reading<String>,
    /// The library's configuration.
    pub cufile: Reading<Result<Settings, Mistake>>,
    /// Whether the running kernel has `CONFIG_PCI_P2PDMA=y`.
    pub p2pdma: Reading<bool>,
}

/// Reads the prerequisites.
pub fn read(reader: &dyn Reader, facts: &Facts) -> Storage {
    let config = kernel_config::of_running(reader, facts.os.kernel.known().map(String::as_str));
    Storage {
        nvidia_fs: Reading::from_result(module::is_loaded(reader, "nvidia_fs")),
        version: Reading::from_result(reader.attribute("/sys/module/nvidia_fs/version")),
        cufile: Reading::from_result(reader.text(cufile::PATH)).map(|text| cufile::parse(&text)),
        p2pdma: kernel_config::is_built(&config, "CONFIG_PCI_P2PDMA"),
    }
}
