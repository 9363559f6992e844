//! Writes NIC settings that no file supports: attributes of VFs and modes of eswitches, by netlink. An image has
//! neither.

use nix::errno::Errno;

use super::DirWriter;
use super::error_text::Fault;
use crate::dir::DirReader;
use crate::errno::error_message;
use crate::netlink::{self, Refusal, devlink, rtm_link};
use crate::{NicCause, NicError, WriteError};
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::{EswitchMode, VfAttributes};

impl DirWriter {
    pub(super) fn vf(
        &mut self,
        (pf, interface): (PciAddress, &str),
        vf: u16,
        attributes: &VfAttributes,
        limit_s: u32,
    ) -> Result<(), NicError> {
        let named = |attributes: &VfAttributes| format!("{attributes} of VF {vf} of {interface}");
        self.only_live()
            .and_then(|()| self.pass("set a VF", &named(attributes)))
            .map_err(|fault| other(fault.about("set", &named(attributes))))?;
        let reader = DirReader::live();
        for one in rtm_link::one_per_message(attributes) {
            // Each time, because the interface may be renamed or replaced in between.
            let index = netlink::index_below(&reader, pf, interface).map_err(|error| {
                other(Fault::refusal(error.to_string()).about("set", &named(&one)))
            })?;
            rtm_link::set_vf(index, vf, &one, limit_s)
                .map_err(|refusal| refused(&refusal, limit_s, &named(&one)))?;
        }
        Ok(())
    }

    pub(super) fn eswitch(
        &mut self,
        pf: PciAddress,
        mode: EswitchMode,
        limit_s: u32,
    ) -> Result<(), NicError> {
        let named = format!("the eswitch of {pf} to {mode}");
        self.only_live()
            .and_then(|()| self.pass("set an eswitch", &named))
            .map_err(|fault| other(fault.about("set", &named)))?;
        devlink::set_eswitch(pf, mode, limit_s)
            .map_err(|refusal| refused(&refusal, limit_s, &named))
    }
}

fn other(error: WriteError) -> NicError {
    NicError { error, cause: NicCause::Other }
}

fn refused(refusal: &Refusal, limit_s: u32, named: &str) -> NicError {
    NicError { error: meaning(refusal, limit_s).about("set", named), cause: cause(refusal) }
}

/// Returns the cause of a refusal: rights and missing interfaces are not the driver's fault, unless it sends a message.
fn cause(refusal: &Refusal) -> NicCause {
    match refusal.errno {
        Errno::ETIMEDOUT => NicCause::NoAnswer,
        Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ERANGE | Errno::EBUSY => NicCause::Driver,
        _ if refusal.words.is_some() => NicCause::Driver,
        _ => NicCause::Other,
    }
}

/// Returns the meaning of an errno (net/core/rtnetlink.c do_setvfinfo, net/devlink/dev.c), with the driver's message if
/// it sends one.
fn meaning(refusal: &Refusal, limit_s: u32) -> Fault {
    let meaning = match refusal.errno {
        Errno::EOPNOTSUPP => "not supported by the driver".to_owned(),
        Errno::EINVAL | Errno::ERANGE => "the driver rejects this value".to_owned(),
        Errno::EPERM | Errno::EACCES => {
            "not permitted: run as root (the daemon needs bedplate-worker@.service.d/vf-attributes.conf); on a DPU's host the PF \
             may not manage its VFs"
                .to_owned()
        }
        Errno::EBUSY => "the driver is busy".to_owned(),
        Errno::ENODEV => "the interface, the VF or the eswitch does not exist".to_owned(),
        Errno::ETIMEDOUT => format!(
            "the driver did not finish in {limit_s} s and may still be working: check the kernel log, then run again"
        ),
        errno => format!("{}; see the kernel log", error_message(errno)),
    };
    Fault::refusal(match &refusal.words {
        Some(words) => format!("{meaning}: {words}"),
        None => meaning,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_driver_refusals_are_attributed_to_driver() {
        let of = |errno, words: Option<&str>| {
            let words = words.map(str::to_owned);
            cause(&Refusal { errno, words })
        };
        for errno in [Errno::EOPNOTSUPP, Errno::EINVAL, Errno::ERANGE, Errno::EBUSY] {
            assert_eq!(of(errno, None), NicCause::Driver, "{errno}");
        }
        assert_eq!(of(Errno::EPERM, None), NicCause::Other);
        assert_eq!(of(Errno::ENODEV, None), NicCause::Other);
        assert_eq!(of(Errno::EPERM, Some("VF is trusted")), NicCause::Driver);
        assert_eq!(of(Errno::ETIMEDOUT, None), NicCause::NoAnswer);
    }
}
