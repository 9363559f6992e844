//! A separate disk for the boot entries: a FAT32 on which QEMU logs every write, slowly enough to cut in between.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use bedplate_tests::lab::{Result, fail};

/// Bytes per sector, the unit of the log and of writes that a power cut leaves whole.
pub const SECTOR: usize = 512;
/// FAT32 needs 65,525 clusters; they have one sector each, so that directories and entries need several.
const BYTES: u64 = 40 << 20;
/// Longer than any log here. Unwritten parts read as zeros, which end the log.
const LOG_BYTES: u64 = 64 << 20;
/// Writes per second: slow enough to be counted from outside.
const RATE: u32 = 20;

/// Files of the disk on this machine.
pub struct Disk {
    dir: PathBuf,
}

/// An entry of the log.
pub struct Entry {
    /// Position on the disk.
    pub sector: u64,
    /// Data; empty for a flush.
    pub data: Vec<u8>,
    /// Position of the data in the log, in sectors.
    pub at: u64,
}

impl Entry {
    /// Whether this is a flush: everything before it is on the disk from here on, regardless of caches.
    pub fn is_flush(&self) -> bool {
        self.data.is_empty()
    }
}

impl Disk {
    /// Creates the file system, with these files in `/entries`.
    pub fn make(dir: &Path, files: &[(String, String)]) -> Result<Self> {
        let disk = Self { dir: dir.to_owned() };
        let image = disk.image();
        File::create(&image)?.set_len(BYTES)?;
        let image = image.display().to_string();
        tool(&["mkfs.vfat", "-F", "32", "-s", "1", "-n", "BOOT", &image])?;
        tool(&["mmd", "-i", &image, "::/entries"])?;
        for (name, text) in files {
            let file = dir.join(name);
            std::fs::write(&file, text)?;
            let file = file.display().to_string();
            tool(&["mcopy", "-i", &image, &file, &format!("::/entries/{name}")])?;
        }
        std::fs::copy(disk.image(), disk.as_made())?;
        Ok(disk)
    }

    /// Image of the disk.
    fn image(&self) -> PathBuf {
        self.dir.join("entries.img")
    }

    /// Copy of the initial image.
    pub fn as_made(&self) -> PathBuf {
        self.dir.join("entries.made")
    }

    /// QEMU's log of the disk.
    pub fn log(&self) -> PathBuf {
        self.dir.join("entries.log")
    }

    /// Creates an empty log. QEMU starts writing at the beginning; old entries must not be mistaken for the end.
    pub fn fresh_log(&self) -> Result<()> {
        Ok(File::create(self.log())?.set_len(LOG_BYTES)?)
    }

    /// QEMU's arguments. Data that the guest has sent is kept, as on a disk without a cache; caches are modelled from
    /// the log.
    pub fn arguments(&self) -> [String; 6] {
        let file = |path: PathBuf| serde_json::json!({ "driver": "file", "filename": path, "cache": { "no-flush": true } });
        let logged = serde_json::json!({
            "driver": "throttle", "node-name": "entries", "throttle-group": "slow",
            "file": { "driver": "blklogwrites", "file": file(self.image()), "log": file(self.log()) },
        });
        [
            "-object".into(),
            format!("throttle-group,id=slow,x-iops-write={RATE}"),
            "-blockdev".into(),
            logged.to_string(),
            "-device".into(),
            "virtio-blk-pci,drive=entries,serial=entries,bus=pcie.0,addr=0x6".into(),
        ]
    }

    /// Reads the log so far (the format of Linux' drivers/md/dm-log-writes.c, written by block/blklogwrites.c).
    pub fn logged(&self) -> Result<Vec<Entry>> {
        let log = File::open(self.log())?;
        let mut entries = Vec::new();
        let mut at = 1;
        loop {
            let mut header = [0; 32];
            log.read_exact_at(&mut header, at * SECTOR as u64)?;
            let word = |index: usize| {
                header[index * 8..][..8]
                    .iter()
                    .rev()
                    .fold(0, |word, byte| word << 8 | u64::from(*byte))
            };
            let (sector, sectors, flags) = (word(0), word(1), word(2));
            match (sectors, flags) {
                (0, 0) => return Ok(entries),
                // A write, a write-through write, or a flush.
                (_, 0..=2) => {}
                _ => return fail(format!("QEMU's log has an entry of kind {flags} at {at}")),
            }
            let mut data = vec![0; usize::try_from(sectors)? * SECTOR];
            log.read_exact_at(&mut data, (at + 1) * SECTOR as u64)?;
            entries.push(Entry { sector, data, at: at + 1 });
            at += 1 + sectors;
        }
    }
}

/// Runs a tool of this machine; returns its output for any exit status, because fsck.fat has many.
pub fn said(argv: &[&str]) -> Result<(bool, Vec<u8>)> {
    let output = Command::new("sh")
        .args(["-c", "PATH=$PATH:/usr/sbin:/sbin; exec \"$0\" \"$@\""])
        .args(argv)
        .env("MTOOLS_SKIP_CHECK", "1")
        .output()?;
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Ok((output.status.success(), said))
}

fn tool(argv: &[&str]) -> Result<()> {
    match said(argv)? {
        (true, _) => Ok(()),
        (false, said) => fail(format!("{argv:?}: {}", String::from_utf8_lossy(&said))),
    }
}
