//! Capability lists of working hardware, unprivileged readers and broken devices.

use std::cell::Cell;

use super::*;

/// In-memory config space that counts reads.
struct Memory {
    bytes: Vec<u8>,
    reads: Cell<u32>,
}

impl Memory {
    fn new(length: usize) -> Self {
        let mut memory = Memory { bytes: vec![0; length], reads: Cell::new(0) };
        memory.put(0x04, 0x0010_0000);
        memory
    }

    fn put(&mut self, at: usize, value: u32) {
        if at + 4 <= self.bytes.len() {
            self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }

    /// A switch port with PM, PCIe, AER and ACS capabilities.
    fn port(length: usize, flags: u32) -> Self {
        let mut memory = Memory::new(length);
        memory.put(0x34, 0x40);
        memory.put(0x40, 0x0003_6801);
        memory.put(0x68, flags << 16 | 0x0010);
        memory.put(0x100, 0x1481_0001);
        memory.put(0x148, 0x0001_000d);
        memory.put(0x14c, 0x001d_005f);
        memory
    }
}

impl ConfigSpace for Memory {
    fn read(&self, offset: u16, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.reads.set(self.reads.get() + 1);
        let rest = self.bytes.get(usize::from(offset)..).unwrap_or_default();
        let got = rest.len().min(buffer.len());
        buffer[..got].copy_from_slice(&rest[..got]);
        Ok(got)
    }
}

#[test]
fn acs_port_takes_seven_reads() {
    let memory = Memory::port(4096, 0x0162);
    assert_eq!(pcie(&memory).unwrap().unwrap().port(), PortType::Downstream);
    let acs = acs(&memory).unwrap().unwrap();
    assert_eq!((acs.offset, acs.capable, acs.control), (0x148, AcsBits(0x5f), AcsBits(0x1d)));
    assert_eq!(acs.control_offset(), 0x14e);
    assert_eq!(memory.reads.get(), 7);
}

#[test]
fn unprivileged_read_is_unknown() {
    let memory = Memory::port(64, 0x0162);
    assert_eq!(pcie(&memory), Err(CapError::Unprivileged));
    let Reading::Unknown(why) = reading(pcie(&memory)) else { panic!("claimed") };
    assert!(why.contains("root"), "{why}");
}

#[test]
fn missing_extended_space_is_not_acs_absent() {
    let memory = Memory::port(256, 0x0162);
    assert!(pcie(&memory).unwrap().is_some());
    assert_eq!(acs(&memory), Err(CapError::NoExtended));
}

#[test]
fn conventional_pci_has_no_port() {
    let mut memory = Memory::new(256);
    memory.put(0x04, 0);
    memory.put(0x34, 0x40);
    assert_eq!(pcie(&memory), Ok(None));
    let mut listed = Memory::new(256);
    listed.put(0x34, 0x40);
    listed.put(0x40, 0x0000_0005);
    assert_eq!(pcie(&listed), Ok(None));
}

#[test]
fn all_ones_device_gives_no_answer() {
    let dead = Memory { bytes: vec![0xff; 4096], reads: Cell::new(0) };
    assert_eq!(pcie(&dead), Err(CapError::NoAnswer));
    let mut dying = Memory::port(4096, 0x0162);
    dying.put(0x148, u32::MAX);
    assert_eq!(acs(&dying), Err(CapError::NoAnswer));
    let mut half = Memory::port(4096, 0x0162);
    half.put(0x14c, u32::MAX);
    assert_eq!(acs(&half), Err(CapError::NoAnswer));
}

#[test]
fn all_ones_first_header_means_empty_list() {
    let mut memory = Memory::port(4096, 0x0162);
    memory.put(0x100, u32::MAX);
    assert_eq!(acs(&memory), Ok(None));
    memory.put(0x100, 0);
    assert_eq!(acs(&memory), Ok(None));
}

#[test]
fn looping_lists_end_with_error() {
    let mut classic = Memory::new(4096);
    classic.put(0x34, 0x40);
    classic.put(0x40, 0x0000_4401);
    classic.put(0x44, 0x0000_4005);
    assert_eq!(pcie(&classic), Err(CapError::Loop));
    assert!(classic.reads.get() <= 50);
    let mut long = Memory::new(4096);
    long.put(0x100, 0x1481_0001);
    long.put(0x148, 0x1001_0003);
    assert_eq!(acs(&long), Err(CapError::Loop));
    assert!(long.reads.get() <= 480);
}

#[test]
fn truncated_list_is_not_read_past_its_end() {
    let mut memory = Memory::port(4096, 0x0162);
    // The last dword of the space: its registers are beyond the end.
    memory.put(0x100, 0xffc1_0001);
    memory.put(0xffc, 0x0001_000d);
    assert_eq!(acs(&memory), Err(CapError::NoExtended));
    memory.put(0x100, 0x0041_0001);
    assert_eq!(acs(&memory), Ok(None), "a pointer into the classic space ends the list");
}

#[test]
fn thorough_walk_reads_registers() {
    let mut memory = Memory::port(4096, 0x0002);
    memory.put(0x148, 0x1801_000f);
    memory.put(0x14c, 0x8000_0000);
    memory.put(0x180, 0x0001_0010);
    memory.put(0x18c, 0x0010_0010);
    memory.put(0x194, 0x0001_0002);
    memory.put(0x198, 0x101e_0000);
    let all = thorough(&memory).unwrap();
    assert_eq!(all.ats, Some(true));
    let sriov = SriovCapability { total: 16, first_offset: 2, stride: 1, vf_device: PciId(0x101e) };
    assert_eq!(all.sriov, Some(sriov));
    assert_eq!(all.acs, None);
}

#[test]
fn device_control_fields_are_decoded() {
    let mut memory = Memory::port(4096, 0x0002);
    memory.put(0x6c, 0x0000_8fe2);
    memory.put(0x70, 0x0000_5150);
    memory.put(0x90, 0x0000_0020);
    let found = control(&memory, pcie(&memory).unwrap().unwrap()).unwrap().device;
    let expected = DeviceControl {
        max_payload: 512,
        max_payload_supported: 512,
        max_read_request: 4096,
        relaxed_ordering: true,
        extended_tags: true,
        ari_forwarding: Some(true),
    };
    assert_eq!(found, expected);
}

#[test]
fn sunrise_point_root_ports_have_misplaced_acs() {
    assert!(has_misplaced_acs(PciId(0x8086), PciId(0xa112), PortType::RootPort));
    assert!(!has_misplaced_acs(PciId(0x8086), PciId(0xa112), PortType::Endpoint));
    assert!(!has_misplaced_acs(PciId(0x8086), PciId(0x2030), PortType::RootPort));
    assert!(!has_misplaced_acs(PciId(0x10de), PciId(0xa112), PortType::RootPort));
}
