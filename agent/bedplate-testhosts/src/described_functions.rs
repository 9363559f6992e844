//! PCI functions in a host's description, one by one: added to a machine, or changed on it. With `machine = "bare"`
//! there are no others, so that the description shows the whole topology.
//!
//! ```toml
//! [[pci]]
//! at = "0008:00:00.0"
//! is = "root-port"        # root-port, upstream, downstream, gpu, nic, data-direct, nvme, other; needed for a new function
//! under = "0008:00:00.0"  # bridge above; default: the host bridge of its bus
//! id = "10de:22b1"        # default: that of its kind
//! class = 0x0c0600        # default: that of its kind
//! driver = "mlx5_core"    # default: that of its kind; "" = unbound
//! acs = 0x1d              # ACS control, for ports; default: as Linux sets it
//! acs-capable = 0x5f      # bits that the port supports
//! ats = true              # ATS capability, enabled (true) or not (false); default: no capability
//! vpd = "uuid"            # V3 of its Vital Product Data
//! board = "serial"        # SN of its Vital Product Data
//! numa = 0
//! group-with = "0008:06:00.0"  # shares that function's IOMMU group
//! vfio-dev = true         # a VFIO device is registered for it
//! link-max = [4, 16]      # maximum speed and lanes, as in link-now
//! link-now = [3, 8]       # its link has trained to this speed (as in link status: 3 = 8 GT/s) and so many lanes
//! payload = 256           # Max_Payload_Size; 512 without
//! read-request = 128      # Max_Read_Request_Size; 512 without
//! relaxed-ordering = false
//! ari = false             # a port that forwards no ARI
//! bus-master = false      # may not do DMA, or forwards none upstream
//! answers = false         # every read of its config space gives ones
//! errors = [0, 2, 1]      # AER: corrected, non-fatal, fatal
//! ```

use serde::Deserialize;

use bedplate_base::value::PciAddress;

/// Kind of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FunctionKind {
    /// Port of the root complex.
    RootPort,
    /// Upstream port of a switch.
    Upstream,
    /// Downstream port of a switch.
    Downstream,
    /// H100.
    Gpu,
    /// ConnectX-7.
    Nic,
    /// DMA function of a ConnectX-8.
    DataDirect,
    /// NVMe disk.
    Nvme,
    /// A function that bedplate ignores.
    Other,
}

/// One `[[pci]]` entry of a description; see the module documentation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each field is documented once, in the TOML form above")]
pub struct Described {
    pub at: PciAddress,
    pub is: Option<FunctionKind>,
    pub under: Option<PciAddress>,
    pub id: Option<String>,
    pub class: Option<u32>,
    pub driver: Option<String>,
    pub acs: Option<u16>,
    pub acs_capable: Option<u16>,
    pub ats: Option<bool>,
    pub vpd: Option<String>,
    pub board: Option<String>,
    pub numa: Option<i32>,
    pub group_with: Option<PciAddress>,
    #[serde(default)]
    pub vfio_dev: bool,
    pub link_now: Option<(u8, u8)>,
    /// Maximum speed and width of its link.
    pub link_max: Option<(u8, u8)>,
    pub payload: Option<u16>,
    pub read_request: Option<u16>,
    pub relaxed_ordering: Option<bool>,
    pub ari: Option<bool>,
    pub bus_master: Option<bool>,
    pub answers: Option<bool>,
    pub errors: Option<[u64; 3]>,
}
