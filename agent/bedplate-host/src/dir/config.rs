//! Config space of a function. On a live machine each dword is an access to the device, so only the requested ones are
//! read. In an image it is a plain file, read once.

use std::os::fd::OwnedFd;

use nix::sys::uio::pread;

use super::{DirReader, error};
use crate::ConfigSpace;
use bedplate_base::ReadError;

/// Largest config space (PCI Express Base Specification 7.2).
pub(super) const LARGEST: usize = 4096;

/// The registers of a device.
pub(super) struct Registers<'a> {
    pub(super) reader: &'a DirReader,
    pub(super) fd: OwnedFd,
    pub(super) path: String,
}

impl ConfigSpace for Registers<'_> {
    fn read(&self, offset: u16, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.reader.count(1);
        let got = pread(&self.fd, &mut *buffer, offset.into())
            .map_err(|errno| error(&self.path, errno))?;
        self.reader.count_dwords(offset, got);
        Ok(got)
    }
}

/// Config space from a file. Counts dwords like a live machine, because planning costs are measured on recorded trees.
pub(super) struct RecordedConfigReader<'a> {
    pub(super) reader: &'a DirReader,
    pub(super) bytes: Vec<u8>,
}

impl ConfigSpace for RecordedConfigReader<'_> {
    fn read(&self, offset: u16, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let there = self.bytes.get(offset.into()..).unwrap_or_default();
        let got = there.len().min(buffer.len());
        buffer[..got].copy_from_slice(&there[..got]);
        self.reader.count_dwords(offset, got);
        Ok(got)
    }
}
