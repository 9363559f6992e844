//! Writes to the running kernel: sysfs attributes and config space. An image has neither.

use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::uio::pwrite;

use super::error_text::{Fault, failed_to};
use super::{DirWriter, Root};
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
                    Errno::ENOENT => Fault::refusal("this kernel or device has no such attribute"),
                    errno => failed_to("open it")(errno),
                },
            )?;
        // The newline makes an empty value a write of at least one byte, which clears driver_override.
        let text = format!("{value}\n");
        let expected = text.len();
        let write = move || nix::unistd::write(&fd, text.as_bytes());
        match run_with_timeout("attribute", Duration::from_secs(limit_s.into()), write) {
            Ok(Ok(written)) if written == expected => Ok(()),
            Ok(Ok(written)) => {
                Err(Fault::refusal(format!("the kernel took {written} of {expected} bytes")))
            }
            Ok(Err(errno)) => Err(Fault::refusal(attribute_words(path, errno))),
            Err(Unfinished::NotStarted(error)) => {
                Err(Fault::refusal(format!("start a thread: {error}")))
            }
            Err(Unfinished::TimedOut) => Err(Fault::refusal(format!(
                "the kernel was still at it after {limit_s} s, and may yet finish: look at the kernel log, \
                 and run again when the value is still"
            ))),
        }
    }

    /// Writes two bytes with one pwrite(2), which is one 16-bit config write (handbook §3.1).
    pub(super) fn config_word(&mut self, path: &str, offset: u16, value: u16) -> Result<(), Fault> {
        self.only_live()?;
        self.pass("write config space", path)?;
        let fd = self.open_inside(path, OFlag::O_WRONLY).map_err(failed_to("open it"))?;
        match pwrite(&fd, &value.to_le_bytes(), offset.into()) {
            Ok(2) => Ok(()),
            Ok(written) => Err(Fault::refusal(format!(
                "the kernel took {written} of 2 bytes at offset {offset:#x}"
            ))),
            Err(Errno::EPERM) => Err(Fault::refusal(
                "the kernel does not permit it: kernel lockdown (Secure Boot, see /sys/kernel/security/lockdown) \
                 forbids config-space writes to everybody; use the kernel command line (pci=) instead",
            )),
            Err(errno) => Err(failed_to("write the register")(errno)),
        }
    }

    pub(super) fn only_live(&self) -> Result<(), Fault> {
        match self.root {
            Root::Live => Ok(()),
            Root::Image { .. } => {
                Err(Fault::refusal("an image has no running kernel: do it on the booted machine"))
            }
        }
    }
}

/// Meaning of an errno (drivers/pci/iov.c sriov_numvfs_store and the enable path; handbook §5.1).
fn attribute_words(path: &str, errno: Errno) -> String {
    if !path.ends_with("/sriov_numvfs") {
        return match errno {
            Errno::EPERM | Errno::EACCES => format!("{}; run as root", error_message(errno)),
            Errno::EBUSY => "the kernel says it is in use".into(),
            Errno::EINVAL => "the kernel does not take this value".into(),
            errno => error_message(errno),
        };
    }
    match errno {
        Errno::ENOENT => "no driver is bound to the device, or its driver has no SR-IOV through sysfs: \
                         load the driver of the PF first"
            .into(),
        Errno::EBUSY => "VFs are there already: they have to go (write 0) before another number comes".into(),
        Errno::ERANGE => "it is more than sriov_totalvfs: raise the firmware's limit first".into(),
        Errno::EINVAL => "the kernel does not take this number".into(),
        Errno::ENOMEM => "there is not enough MMIO space or not enough bus numbers for so many VFs: \
                         the kernel log says which; look at pci=realloc, ARI and SR-IOV in the firmware setup"
            .into(),
        Errno::EIO => {
            "the device reports a wrong number of initial VFs: reset its firmware configuration".into()
        }
        Errno::ENODEV | Errno::ENOSYS => {
            "it depends on another function (dep_link) that has its VFs switched off, or its driver cannot"
                .into()
        }
        Errno::EPERM | Errno::EACCES => format!("{}; run as root", error_message(errno)),
        errno => format!("{}: the kernel log says more", error_message(errno)),
    }
}
