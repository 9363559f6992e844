//! Reactions of emulated hardware and kernel to writes.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use bedplate_host::SHM;

/// Directory of the NUMA nodes.
const NODES: &str = "/sys/devices/system/node/";

/// Deviations from correct behaviour.
#[derive(Clone, Default)]
pub struct Habits {
    /// Maximum number of VFs created, regardless of the request.
    pub most_vfs: Option<u16>,
    /// Maximum number of huge pages of each size on a node.
    pub most_pages: Option<u64>,
    /// Bits of 16-bit registers that cannot be changed.
    pub hard_wired: u16,
    /// VF attributes that the PF's driver cannot set, by name.
    pub not_for_vfs: Vec<&'static str>,
    /// Whether unbinding a driver takes longer than its writer waits.
    pub slow_unbind: bool,
    /// Whether the PF's driver does not answer.
    pub silent: bool,
}

/// Writes an attribute.
pub fn attribute(root: &Path, habits: &Habits, path: &str, value: &str) -> Result<(), String> {
    let file = super::at(root, path);
    let said = |error: io::Error| error.to_string();
    if let Some(device) = path.strip_suffix("/sriov_numvfs") {
        return numvfs(root, habits, device, value);
    }
    if let Some(driver) = path.strip_suffix("/bind") {
        uevent(root, value, Some(name(driver))).map_err(said)?;
        return symlink(
            format!("../../../bus/pci/drivers/{}", name(driver)),
            driver_link(root, value),
        )
        .map_err(said);
    }
    if path == SHM {
        return shm(root, value).map_err(said);
    }
    if let Some(pool) = path.strip_suffix("/nr_hugepages").filter(|_| path.starts_with(NODES)) {
        return hugepages(root, habits, pool, value);
    }
    if path.ends_with("/drivers_probe") {
        return super::nic::probe(root, value).map_err(said);
    }
    if path.ends_with("/unbind") {
        fs::remove_file(driver_link(root, value)).map_err(said)?;
        uevent(root, value, None).map_err(said)?;
        return if habits.slow_unbind { Err("the kernel was still at it".into()) } else { Ok(()) };
    }
    if !file.exists() {
        return Err("this kernel or device has no such attribute".into());
    }
    if path.ends_with("/driver_override") && value == "(null)" {
        return Err("the kernel would take that for a driver's name".into());
    }
    let shown =
        if path.ends_with("/driver_override") && value.is_empty() { "(null)" } else { value };
    show(&file, shown).map_err(said)
}

/// Behaves as mm/shmem.c: the mount has the new size.
fn shm(root: &Path, size: &str) -> io::Result<()> {
    let mounts = super::at(root, "/proc/mounts");
    let text = fs::read_to_string(&mounts)?;
    let line = |line: &str| match line.split(' ').nth(1) == Some(SHM) {
        true => format!("tmpfs {SHM} tmpfs rw,nosuid,nodev,size={size},inode64 0 0\n"),
        false => format!("{line}\n"),
    };
    fs::write(mounts, text.lines().map(line).collect::<String>())
}

/// Behaves as mm/hugetlb.c for pages that nobody uses: more pages are free pages.
fn hugepages(root: &Path, habits: &Habits, pool: &str, value: &str) -> Result<(), String> {
    let file = |name: &str| super::at(root, &format!("{pool}/{name}"));
    let read = |name: &str| -> Result<u64, String> {
        let text = fs::read_to_string(file(name)).map_err(|error| error.to_string())?;
        text.trim().parse().map_err(|_| "EINVAL".to_owned())
    };
    let (now, free) = (read("nr_hugepages")?, read("free_hugepages")?);
    let wanted: u64 = value.parse().map_err(|_| "EINVAL".to_owned())?;
    let wanted = wanted.min(habits.most_pages.unwrap_or(u64::MAX).max(now));
    let left = (free + wanted).checked_sub(now).ok_or("pages in use become surplus pages")?;
    let said = |error: io::Error| error.to_string();
    show(&file("free_hugepages"), &left.to_string()).map_err(said)?;
    show(&file("nr_hugepages"), &wanted.to_string()).map_err(said)
}

/// Changes the value that an attribute shows. Writes in place: an attribute is never truncated, even if its writer is
/// killed.
fn show(file: &Path, value: &str) -> io::Result<()> {
    let mut attribute = fs::OpenOptions::new().write(true).open(file)?;
    attribute.write_all(format!("{value}\n").as_bytes())?;
    attribute.set_len(value.len() as u64 + 1)
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Writes a VF's uevent, with its driver.
pub fn uevent(root: &Path, vf: &str, driver: Option<&str>) -> io::Result<()> {
    let driver = driver.map(|driver| format!("DRIVER={driver}\n")).unwrap_or_default();
    let text = format!("{driver}PCI_CLASS=20000\nPCI_ID=15B3:101E\n");
    fs::write(super::at(root, &format!("/sys/bus/pci/devices/{vf}/uevent")), text)
}

pub(super) fn driver_link(root: &Path, device: &str) -> std::path::PathBuf {
    super::at(root, &format!("/sys/bus/pci/devices/{device}/driver"))
}

/// Behaves as drivers/pci/iov.c: the number only changes by way of 0; creating fewer VFs than requested is a success.
fn numvfs(root: &Path, habits: &Habits, pf: &str, value: &str) -> Result<(), String> {
    let directory = super::at(root, pf);
    let read = |name: &str| {
        let text = fs::read_to_string(directory.join(name)).unwrap_or_default();
        text.trim().parse::<u16>().unwrap_or(0)
    };
    let (now, total) = (read("sriov_numvfs"), read("sriov_totalvfs"));
    let wanted: u16 = value.parse().map_err(|_| "EINVAL".to_owned())?;
    if wanted > total {
        return Err("ERANGE".into());
    }
    if wanted == now {
        return Ok(());
    }
    if now != 0 && wanted != 0 {
        return Err("EBUSY: VFs are there already".into());
    }
    let made = wanted.min(habits.most_vfs.unwrap_or(u16::MAX));
    let said = |error: io::Error| error.to_string();
    for number in 0..now.max(made) {
        let address = vf_address(name(pf), number);
        let device = super::at(root, &format!("/sys/bus/pci/devices/{address}"));
        let link = directory.join(format!("virtfn{number}"));
        if number < made {
            fs::create_dir_all(&device).map_err(said)?;
            fs::write(device.join("driver_override"), "(null)\n").map_err(said)?;
            fs::write(device.join("uevent"), "PCI_CLASS=20000\nPCI_ID=15B3:101E\n")
                .map_err(said)?;
            symlink(format!("../{}", name(pf)), device.join("physfn")).map_err(said)?;
            symlink(format!("../{address}"), link).map_err(said)?;
        } else {
            fs::remove_dir_all(&device).map_err(said)?;
            fs::remove_file(link).map_err(said)?;
        }
    }
    super::nic::vfs_came(root, pf, made);
    show(&directory.join("sriov_numvfs"), &made.to_string()).map_err(said)
}

/// VFs follow their PF (offset 1, stride 1), eight functions per device.
fn vf_address(pf: &str, number: u16) -> String {
    let (bus, _) = pf.rsplit_once(':').unwrap_or((pf, ""));
    let function = number + 1;
    format!("{bus}:{:02x}.{}", function / 8, function % 8)
}

/// Writes a 16-bit register of config space.
pub fn config(file: &Path, habits: &Habits, offset: u16, value: u16) -> io::Result<()> {
    let mut config = fs::OpenOptions::new().read(true).write(true).open(file)?;
    let mut old = [0; 2];
    config.seek(SeekFrom::Start(offset.into()))?;
    config.read_exact(&mut old)?;
    let kept = u16::from_le_bytes(old) & habits.hard_wired;
    config.seek(SeekFrom::Start(offset.into()))?;
    config.write_all(&(value & !habits.hard_wired | kept).to_le_bytes())
}
