//! Three chassis commands to the machine's own BMC: Get Chassis Status, Get System Restart Cause, and Chassis Control with
//! power cycle. No other control is implemented, because power down would leave the host off.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ipmi_rs::connection::{
    IpmiConnection as _, LogicalUnit, Message, NetFn, Request, RequestTargetAddress, Response,
};
use serde::{Deserialize, Serialize};

/// Get Chassis Status (IPMI v2.0 §28.2).
const STATUS: u8 = 0x01;
/// Chassis Control (IPMI v2.0 §28.3).
const CONTROL: u8 = 0x02;
/// Get System Restart Cause (IPMI v2.0 §28.11).
const RESTART_CAUSE: u8 = 0x07;
/// Chassis Control, "power cycle": off for at least a second, then on. 0x00 is power down, 0x03 a hard reset (IPMI v2.0
/// §28.3; `IPMI_CHASSIS_POWER_CYCLE`, `drivers/char/ipmi/ipmi_poweroff.c`).
const POWER_CYCLE: u8 = 0x02;
/// Longest wait for an answer. The driver itself gives a BMC 5 s for each step of a transfer before it retries
/// (`IBF_RETRY_TIMEOUT`, `drivers/char/ipmi/ipmi_kcs_sm.c`), so a shorter limit would end before its retry.
const PATIENCE: Duration = Duration::from_secs(10);

/// Error of a chassis command.
#[derive(Debug, thiserror::Error)]
pub enum IpmiError {
    /// The device cannot be opened.
    #[error(
        "cannot open {path}; load the modules ipmi_devintf and ipmi_si (or ipmi_ssif), and run as root"
    )]
    Device {
        /// The device.
        path: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The BMC is silent. It may have acted anyway.
    #[error(
        "the BMC did not answer `{0}` in time; run `ipmitool mc info`, and reset the BMC if that hangs too"
    )]
    Silent(Command),
    /// The driver failed.
    #[error("the IPMI driver failed at `{command}`")]
    Driver {
        /// The command.
        command: Command,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The BMC refused.
    #[error("the BMC refused `{command}`: {code}")]
    Refused {
        /// The command.
        command: Command,
        /// Its reason.
        code: Code,
    },
    /// The answer is too short.
    #[error("the BMC's answer to `{command}` is too short (length {length})")]
    Short {
        /// The command.
        command: Command,
        /// Bytes received, without the completion code.
        length: usize,
    },
}

/// A chassis command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Get Chassis Status.
    Status,
    /// Chassis Control: power cycle.
    PowerCycle,
    /// Get System Restart Cause.
    RestartCause,
}

impl Command {
    /// Returns command number and data on the wire.
    pub fn bytes(self) -> (u8, &'static [u8]) {
        match self {
            Command::Status => (STATUS, &[]),
            Command::PowerCycle => (CONTROL, &[POWER_CYCLE]),
            Command::RestartCause => (RESTART_CAUSE, &[]),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::Status => "chassis status",
            Command::PowerCycle => "chassis power cycle",
            Command::RestartCause => "chassis restart_cause",
        })
    }
}

/// A completion code that is not success (IPMI v2.0 table 5-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub u8);

impl Code {
    /// The BMC is busy: retry.
    pub const BUSY: Code = Code(0xC0);
    /// The BMC, or the kernel's driver on its behalf, timed out. The command may have been executed.
    pub const TIMEOUT: Code = Code(0xC3);
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.0 {
            0xC0 => "busy",
            0xC1 => "unknown command",
            0xC3 => "timed out",
            0xC9 | 0xCC => "unknown action",
            0xD2 => "still starting",
            0xD4 => "insufficient privilege",
            0xD5 => "not supported in its current state",
            0xD6 => "command disabled",
            _ => "see the completion codes in the IPMI specification",
        };
        write!(f, "{words} (completion code 0x{:02X})", self.0)
    }
}

/// An answer of the BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The completion code; 0 = success.
    pub code: u8,
    /// Data after the completion code.
    pub data: Vec<u8>,
}

/// Connection to a BMC.
pub trait Ipmi {
    /// Sends one chassis command and waits for its answer.
    ///
    /// # Errors
    /// [`IpmiError::Device`], [`IpmiError::Silent`], [`IpmiError::Driver`]. A refusal is an answer.
    fn ask(&self, command: Command) -> Result<Answer, IpmiError>;
}

/// The BMC of this machine, through the kernel's IPMI driver. Opened for each command: an open descriptor would keep the
/// driver from being unloaded.
#[derive(Debug, Clone)]
pub struct Device {
    path: PathBuf,
}

impl Device {
    /// Returns `/dev/ipmi0`.
    pub fn first() -> Device {
        Device { path: "/dev/ipmi0".into() }
    }

    /// Returns the device at a path.
    pub fn at(path: impl Into<PathBuf>) -> Device {
        Device { path: path.into() }
    }
}

impl Ipmi for Device {
    fn ask(&self, command: Command) -> Result<Answer, IpmiError> {
        let path = || self.path.display().to_string();
        let mut file = ipmi_rs::File::new(&self.path, PATIENCE)
            .map_err(|source| IpmiError::Device { path: path(), source })?;
        let (number, data) = command.bytes();
        let message = Message::new_request(NetFn::Chassis, number, data.to_vec());
        let mut request = Request::new(message, RequestTargetAddress::Bmc(LogicalUnit::Zero));
        match file.send_recv(&mut request) {
            Ok(response) => answer(command, &response),
            // The crate returns this error for a poll that timed out.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                Err(IpmiError::Silent(command))
            }
            Err(source) => Err(IpmiError::Driver { command, source }),
        }
    }
}

/// Checks that the answer belongs to the command: the number alone says "success" to any command.
fn answer(command: Command, response: &Response) -> Result<Answer, IpmiError> {
    if response.netfn() != NetFn::Chassis || response.cmd() != command.bytes().0 {
        let source = std::io::Error::other("the answer is to another command");
        return Err(IpmiError::Driver { command, source });
    }
    Ok(Answer { code: response.cc(), data: response.data().to_vec() })
}

/// Chassis status, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Main power is on. A BMC that denies it for a running machine does not control that machine's power.
    pub power_on: bool,
    /// The power subsystem reports a fault: a machine turned off may not turn on again.
    pub power_fault: bool,
}

/// Requests the chassis status.
///
/// # Errors
/// Any [`IpmiError`].
pub fn status(ipmi: &dyn Ipmi) -> Result<Status, IpmiError> {
    let command = Command::Status;
    let data = success(command, ipmi.ask(command)?)?;
    // Current power state, last power event, other state (IPMI v2.0 table 28-3).
    let [power, _, _, ..] = data[..] else {
        return Err(IpmiError::Short { command, length: data.len() });
    };
    Ok(Status { power_on: power & 0x01 != 0, power_fault: power & 0x18 != 0 })
}

/// Cause of the last start according to the BMC (IPMI v2.0 §28.11), without the reserved upper half of its byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RestartCause(u8);

impl RestartCause {
    /// A Chassis Control command.
    pub(crate) const CHASSIS_CONTROL: RestartCause = RestartCause(0x1);
    /// The operating system, or Ctrl-Alt-Del.
    pub(crate) const SOFT_RESET: RestartCause = RestartCause(0xA);

    /// Parses the answer's byte.
    pub(crate) fn from_byte(byte: u8) -> Self {
        RestartCause(byte & 0x0F)
    }

    /// Whether it names no cause: unknown to the BMC, vendor-specific, or not in the specification.
    pub(crate) fn is_unknown(self) -> bool {
        matches!(self.0, 0x0 | 0x5 | 0xC..)
    }
}

impl fmt::Display for RestartCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0x0 => "cause unknown",
            0x1 => "a chassis control command",
            0x2 => "the reset button",
            0x3 => "the power button",
            0x4 => "an expired watchdog",
            0x5 => "a vendor-specific cause",
            0x6 | 0x7 => "restored power",
            0x8 | 0x9 => "a platform event filter of the BMC",
            0xA => "a soft reset",
            0xB => "the clock's alarm",
            reserved => return write!(f, "reserved cause 0x{reserved:X}"),
        })
    }
}

/// Requests the cause of the last start. Many BMCs know only their own actions.
///
/// # Errors
/// Any [`IpmiError`].
pub(crate) fn restart_cause(ipmi: &dyn Ipmi) -> Result<RestartCause, IpmiError> {
    let command = Command::RestartCause;
    let data = success(command, ipmi.ask(command)?)?;
    // The cause, and the channel of a chassis control command.
    let [cause, ..] = data[..] else {
        return Err(IpmiError::Short { command, length: data.len() });
    };
    Ok(RestartCause::from_byte(cause))
}

/// Requests a power cycle. Success means that the BMC accepted the command; the power is cut some seconds later.
///
/// # Errors
/// Any [`IpmiError`]; after [`IpmiError::Silent`] the power may still be cut.
pub fn power_cycle(ipmi: &dyn Ipmi) -> Result<(), IpmiError> {
    let command = Command::PowerCycle;
    success(command, ipmi.ask(command)?).map(drop)
}

fn success(command: Command, answer: Answer) -> Result<Vec<u8>, IpmiError> {
    match Code(answer.code) {
        Code(0) => Ok(answer.data),
        Code::TIMEOUT => Err(IpmiError::Silent(command)),
        code => Err(IpmiError::Refused { command, code }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bmc, code, on};
    use super::*;

    #[test]
    fn only_three_chassis_commands_are_sent() {
        assert_eq!(Command::PowerCycle.bytes(), (0x02, &[0x02][..]));
        assert_eq!(Command::Status.bytes(), (0x01, &[][..]));
        assert_eq!(Command::RestartCause.bytes(), (0x07, &[][..]));
    }

    #[test]
    fn status_answers_are_classified() {
        let says = |answer| status(&Bmc::new(vec![answer]));
        assert_eq!(says(Ok(on())).unwrap(), Status { power_on: true, power_fault: false });
        let fault = Answer { code: 0, data: vec![0x09, 0, 0] };
        assert_eq!(says(Ok(fault)).unwrap(), Status { power_on: true, power_fault: true });
        assert!(matches!(
            says(Ok(Answer { code: 0, data: vec![1] })),
            Err(IpmiError::Short { length: 1, .. })
        ));
        assert!(matches!(says(Ok(code(0xC3))), Err(IpmiError::Silent(Command::Status))));
        let refused = says(Ok(code(0xD5))).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the BMC refused `chassis status`: not supported in its current state (completion code 0xD5)"
        );
    }

    #[test]
    fn restart_cause_is_the_lower_half_of_a_byte() {
        let says = |answer| restart_cause(&Bmc::new(vec![answer]));
        let bytes = |data: &[u8]| Ok(Answer { code: 0, data: data.to_vec() });
        assert_eq!(says(bytes(&[0xF1, 0x0E])).unwrap(), RestartCause::CHASSIS_CONTROL);
        assert_eq!(says(bytes(&[0x0A])).unwrap(), RestartCause::SOFT_RESET);
        assert_eq!(says(bytes(&[0x0C, 0])).unwrap(), RestartCause(0x0C));
        assert!(matches!(says(bytes(&[])), Err(IpmiError::Short { length: 0, .. })));
        let refused = says(Ok(code(0xC1))).unwrap_err().to_string();
        assert!(
            refused.starts_with("the BMC refused `chassis restart_cause`: unknown command"),
            "{refused}"
        );
    }

    #[test]
    fn answer_to_another_command_is_an_error() {
        let response = |netfn, cmd, data: &[u8]| {
            Response::new(Message::new_response(netfn, cmd, data.to_vec()), 0).unwrap()
        };
        let right = answer(Command::PowerCycle, &response(NetFn::Chassis, 2, &[0, 7])).unwrap();
        assert_eq!(right, Answer { code: 0, data: vec![7] });
        assert!(answer(Command::PowerCycle, &response(NetFn::Chassis, 1, &[0])).is_err());
        assert!(answer(Command::PowerCycle, &response(NetFn::App, 2, &[0])).is_err());
    }

    #[test]
    fn missing_or_wrong_device_is_an_error() {
        let missing = Device::at("/nonexistent/ipmi0").ask(Command::Status).unwrap_err();
        assert!(
            matches!(&missing, IpmiError::Device { .. })
                && missing.to_string().contains("ipmi_devintf")
        );
        let other = Device::at("/dev/null").ask(Command::Status).unwrap_err();
        assert!(matches!(other, IpmiError::Driver { .. }), "{other}");
    }
}
