//! Writes to the running kernel: sysfs attributes, the size of /dev/shm, and config space. An image has none of them.

use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::uio::pwrite;
use rustix::fs::CWD;
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_string, fspick};

use super::error_text::{Fault, failed_to, from_rustix};
use super::{DirWriter, Root};
use crate::SHM;
use crate::errno::error_message;
use crate::timeout::{Unfinished, run_with_timeout};

impl DirWriter {
    /// Writes with one write(2), in a thread: creating VFs blocks uninterruptibly under the device lock (handbook
    /// §5.1).
    pub(super) fn attribute(&mut self, path: &str, value: &str, limit_s: u32) -> Result<(), Fault> {
        self.only_live()?;
        self.pass("write an attribute", path)?;
        let fd =
            self.open_inside(path, OFlag::O_WRONLY | OFlag::O_NOCTTY).map_err(
                |errno| match errno {
                    Errno::ENOENT => {
                        Fault::refusal("the kernel or device does not have this attribute")
                    }
                    errno => failed_to("open")(errno),
                },
            )?;
        // The newline makes an empty value a write of at least one byte, which clears driver_override.
        let text = format!("{value}\n");
        let expected = text.len();
        let write = move || nix::unistd::write(&fd, text.as_bytes());
        match run_with_timeout("attribute", Duration::from_secs(limit_s.into()), write) {
            Ok(Ok(written)) if written == expected => Ok(()),
            Ok(Ok(written)) => {
                Err(Fault::refusal(format!("the kernel accepted {written} of {expected} bytes")))
            }
            Ok(Err(errno)) => Err(Fault::refusal(attribute_words(path, errno))),
            Err(Unfinished::NotStarted(error)) => {
                Err(Fault::refusal(format!("cannot start a thread: {error}")))
            }
            Err(Unfinished::TimedOut) => Err(Fault::refusal(format!(
                "the kernel did not finish in {limit_s} s and may still be working: check the kernel log, and run \
                again once the value is stable"
            ))),
        }
    }

    /// Sets the size of the file system mounted on /dev/shm, in the form of the mount option. Other options stay: with
    /// fspick(2) the kernel changes only those that are given (mm/shmem.c, shmem_reconfigure). Never below its use.
    pub(super) fn shm_size(&mut self, size: &str) -> Result<(), Fault> {
        self.only_live()?;
        self.pass("set the size", SHM)?;
        // The kernel takes 0 for no limit.
        if !size.strip_suffix('k').is_some_and(|kib| kib.parse::<u64>().is_ok_and(|kib| kib > 0)) {
            return Err(Fault::refusal("expected a size in KiB"));
        }
        let reconfigured = fspick(CWD, SHM, FsPickFlags::FSPICK_CLOEXEC).and_then(|context| {
            fsconfig_set_string(&context, "size", size)?;
            fsconfig_reconfigure(&context)
        });
        reconfigured.map_err(|errno| match from_rustix(errno) {
            Errno::EINVAL => Fault::refusal("the kernel rejects this size: files there use more"),
            Errno::ENOSYS => Fault::refusal("needs Linux 5.4 or newer"),
            errno @ (Errno::EPERM | Errno::EACCES) => Fault::refusal(format!(
                "{}; run as root (the daemon needs bedplate-worker@.service.d/limits.conf: bedplate-daemon(1), Additional rights)",
                error_message(errno)
            )),
            errno => failed_to("reconfigure the file system")(errno),
        })
    }

    /// Writes two bytes with one pwrite(2), which is one 16-bit config write (handbook §3.1).
    pub(super) fn config_word(&mut self, path: &str, offset: u16, value: u16) -> Result<(), Fault> {
        self.only_live()?;
        self.pass("write config space", path)?;
        let fd = self.open_inside(path, OFlag::O_WRONLY).map_err(failed_to("open"))?;
        match pwrite(&fd, &value.to_le_bytes(), offset.into()) {
            Ok(2) => Ok(()),
            Ok(written) => Err(Fault::refusal(format!(
                "the kernel accepted {written} of 2 bytes at offset {offset:#x}"
            ))),
            Err(Errno::EPERM) => Err(Fault::refusal(
                "not permitted: kernel lockdown (Secure Boot, see /sys/kernel/security/lockdown) forbids all \
                config-space writes; use the kernel command line (pci=) instead",
            )),
            Err(errno) => Err(failed_to("write the register")(errno)),
        }
    }

    pub(super) fn only_live(&self) -> Result<(), Fault> {
        match self.root {
            Root::Live => Ok(()),
            Root::Image { .. } => Err(Fault::refusal(
                "an image has no running kernel; run this on the booted machine",
            )),
        }
    }
}

/// Meaning of an errno (drivers/pci/iov.c sriov_numvfs_store and the enable path; handbook §5.1).
fn attribute_words(path: &str, errno: Errno) -> String {
    if !path.ends_with("/sriov_numvfs") {
        return match errno {
            Errno::EPERM | Errno::EACCES => format!("{}; run as root", error_message(errno)),
            Errno::EBUSY => "in use, according to the kernel".into(),
            Errno::EINVAL => "the kernel rejects this value".into(),
            errno => error_message(errno),
        };
    }
    match errno {
        Errno::ENOENT => "no driver is bound, or the driver does not support SR-IOV through sysfs; load the PF's driver first"
            .into(),
        Errno::EBUSY => "VFs exist already; write 0 before another number".into(),
        Errno::ERANGE => "more than sriov_totalvfs; raise the firmware limit first".into(),
        Errno::EINVAL => "the kernel rejects this number".into(),
        Errno::ENOMEM => "not enough MMIO space or bus numbers for this many VFs (see the kernel log); check \
        pci=realloc, ARI and SR-IOV in the firmware setup"
            .into(),
        Errno::EIO => {
            "the device reports a wrong number of initial VFs; reset its firmware configuration".into()
        }
        Errno::ENODEV | Errno::ENOSYS => {
            "it depends on another function (dep_link) with VFs disabled, or the driver does not support it"
                .into()
        }
        Errno::EPERM | Errno::EACCES => format!("{}; run as root", error_message(errno)),
        errno => format!("{}; see the kernel log", error_message(errno)),
    }
}
