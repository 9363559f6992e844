//! PCI functions that a host's description names one by one: added to a machine, or changed on it. With `machine = "bare"`
//! they are all there is, so that a fabric can be read from its description.
//!
//! ```toml
//! [[pci]]
//! at = "0008:00:00.0"
//! is = "root-port"        # root-port, upstream, downstream, gpu, nic, data-direct, nvme, other; needed for a new function
//! under = "0008:00:00.0"  # the bridge that it hangs below; none: the host bridge of its bus
//! id = "10de:22b1"        # of its kind unless given
//! class = 0x0c0600        # of its kind unless given
//! driver = "mlx5_core"    # of its kind unless given; "" = none
//! acs = 0x1d              # ACS control, for ports; without, as Linux sets it
//! acs-capable = 0x5f      # what the port can do
//! ats = true              # ATS capability, enabled (true) or not (false); without, none
//! vpd = "uuid"            # V3 of its Vital Product Data
//! board = "serial"        # SN of its Vital Product Data
//! numa = 0
//! group-with = "0008:06:00.0"  # shares that function's IOMMU group
//! vfio-dev = true         # a VFIO device is registered for it
//! link-max = [4, 16]      # what it can do at best, in the same way
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

/// What a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FunctionKind {
    /// A port of the root complex.
    RootPort,
    /// The upstream port of a switch.
    Upstream,
    /// A downstream port of a switch.
    Downstream,
    /// An H100.
    Gpu,
    /// A ConnectX-7.
    Nic,
    /// The DMA function of a ConnectX-8.
    DataDirect,
    /// A disk.
    Nvme,
    /// Something without a meaning here.
    Other,
}

/// One `[[pci]]` of a description; see the head of this file.
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
    /// Speed and width of its link, at best.
    pub link_max: Option<(u8, u8)>,
    pub payload: Option<u16>,
    pub read_request: Option<u16>,
    pub relaxed_ordering: Option<bool>,
    pub ari: Option<bool>,
    pub bus_master: Option<bool>,
    pub answers: Option<bool>,
    pub errors: Option<[u64; 3]>,
}
