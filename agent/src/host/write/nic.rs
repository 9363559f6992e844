//! Writes to NICs that no file takes: attributes of VFs and modes of eswitches, by netlink. An image has neither.

use nix::errno::Errno;

use super::DirWriter;
use super::words::{Fault, plain};
use crate::host::WriteError;
use crate::host::netlink::{Refusal, devlink, link};
use crate::value::PciAddress;
use crate::value::vf::{EswitchMode, VfAttributes};

impl DirWriter {
    pub(super) fn vf(
        &mut self,
        interface: &str,
        vf: u16,
        attributes: &VfAttributes,
        limit_s: u32,
    ) -> Result<(), WriteError> {
        let named = |attributes: &VfAttributes| format!("{attributes} of VF {vf} of {interface}");
        self.only_live()
            .and_then(|()| self.pass("set a VF", &named(attributes)))
            .map_err(|fault| fault.about("set", &named(attributes)))?;
        link::set_vf(interface, vf, attributes, limit_s)
            .map_err(|(one, refusal)| refused(&refusal, limit_s).about("set", &named(&one)))
    }

    pub(super) fn eswitch(
        &mut self,
        pf: PciAddress,
        mode: EswitchMode,
        limit_s: u32,
    ) -> Result<(), WriteError> {
        let named = format!("the eswitch of {pf} to {mode}");
        self.only_live()
            .and_then(|()| self.pass("set an eswitch", &named))
            .and_then(|()| {
                devlink::set_eswitch(pf, mode, limit_s)
                    .map_err(|refusal| refused(&refusal, limit_s))
            })
            .map_err(|fault| fault.about("set", &named))
    }
}

/// What the kernel means by an error (net/core/rtnetlink.c do_setvfinfo, net/devlink/dev.c), and what the driver says
/// where it says something.
fn refused(refusal: &Refusal, limit_s: u32) -> Fault {
    let meaning = match refusal.errno {
        Errno::EOPNOTSUPP => "the driver cannot do it".to_owned(),
        Errno::EINVAL | Errno::ERANGE => "the driver does not take this value".to_owned(),
        Errno::EPERM | Errno::EACCES => {
            "not permitted: run as root (the daemon needs bedplate.service.d/vf-attributes.conf); on a DPU's host the PF \
             may not manage its VFs"
                .to_owned()
        }
        Errno::EBUSY => "the driver says that it is busy".to_owned(),
        Errno::ENODEV => "the interface, the VF or the eswitch is not there".to_owned(),
        Errno::ETIMEDOUT => format!(
            "the driver was still at it after {limit_s} s, and may yet finish: look at the kernel log, and run again"
        ),
        errno => format!("{}: the kernel log says more", plain(errno)),
    };
    Fault::said(match &refusal.words {
        Some(words) => format!("{meaning}: {words}"),
        None => meaning,
    })
}
