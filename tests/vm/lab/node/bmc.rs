//! A BMC outside QEMU that accepts power-cycle commands; QEMU's own (`ipmi-bmc-sim`) rejects them. It answers the
//! queries of Linux's ipmi_si at start and three chassis commands, and records every chassis control.
//! [`Node::power_cycle_by_bmc`] cuts the power; this end only accepts commands.
//!
//! QEMU's `ipmi-bmc-extern` forwards data that the guest writes to its KCS interface (hw/ipmi/ipmi_bmc_extern.c; the
//! "VM" connection of OpenIPMI's lanserv). In both directions a message is its number, network function and LUN,
//! command, data and a checksum that makes the sum 0 (in an answer a completion code precedes the data), then 0xA0. A
//! command about the connection itself ends in 0xA1 instead. Either byte inside a message, and 0xAA, is sent as 0xAA
//! and the byte with bit 4 set.

use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::super::{Result, fail};
use super::{Node, SILENCE};

const END_OF_MESSAGE: u8 = 0xA0;
const END_OF_COMMAND: u8 = 0xA1;
const ESCAPE: u8 = 0xAA;
const ESCAPED: u8 = 0x10;

/// To QEMU: whether an answer raises the interface's interrupt.
const ENABLE_IRQ: u8 = 0x05;
const DISABLE_IRQ: u8 = 0x06;
/// From QEMU: the machine was reset.
const RESET: u8 = 0x04;

/// Completion codes (IPMI v2.0 table 5-2): success, unknown command, invalid data.
const SUCCESS: u8 = 0x00;
const UNKNOWN: u8 = 0xC1;
const INVALID: u8 = 0xCC;

/// Chassis Control: power cycle (IPMI v2.0 §28.3).
pub const POWER_CYCLE: u8 = 0x02;

/// A received Chassis Control.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// Action (IPMI v2.0 table 28-4); only its lower four bits are defined.
    pub action: u8,
    /// Time of arrival.
    pub at: Instant,
}

/// A BMC. Like a real one, it stays on when its machine is off.
#[derive(Clone, Debug, Default)]
pub struct Bmc {
    controls: Arc<Mutex<Vec<Control>>>,
}

impl Bmc {
    /// All Chassis Controls so far, accepted or rejected, in order.
    pub fn controls(&self) -> Vec<Control> {
        self.controls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves the machine whose QEMU listens at `socket`, until QEMU ends.
    pub(super) fn attach(&self, socket: &Path) -> Result<()> {
        let stream = UnixStream::connect(socket)?;
        let mut line = Line { bmc: self.clone(), enables: 0, message: Vec::new(), escape: false };
        let (reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
        std::thread::spawn(move || {
            for byte in reader.bytes().map_while(std::result::Result::ok) {
                if writer.write_all(&line.take(byte)).is_err() {
                    break;
                }
            }
        });
        Ok(())
    }
}

impl Node {
    /// Replaces QEMU's BMC, from the next start on, by one that can power-cycle.
    pub fn with_bmc(&self) -> Bmc {
        self.bmc.borrow_mut().get_or_insert_default().clone()
    }

    /// Waits for the guest to request a power cycle from the BMC of [`Node::with_bmc`], carries it out, and waits for
    /// the next complete boot. The power is cut a second after the request, as BMCs do, and QEMU ends, so nothing else
    /// that the guest does can pass for it.
    ///
    /// # Errors
    /// The guest requests something else, resets itself, powers itself off, or does not boot again.
    pub fn power_cycle_by_bmc(&self) -> Result<()> {
        let (bmc, resets) = (self.with_bmc(), self.events("RESET"));
        let began = Instant::now();
        let mut ordered = None;
        while ordered.is_none_or(|at: Instant| at.elapsed() < Duration::from_secs(1)) {
            let controls = bmc.controls();
            if let Some(other) = controls.iter().find(|control| control.action != POWER_CYCLE) {
                return fail(format!("the guest ordered chassis control {:#04x}", other.action));
            }
            ordered = controls.last().map(|control| control.at);
            if self.events("RESET") != resets {
                return fail("the guest reset itself; the power was to be cycled by the BMC");
            }
            if !self.is_on() {
                return fail("the node switched itself off; the power was to be cycled by the BMC");
            }
            if began.elapsed() > SILENCE {
                return fail(format!("no power cycle was ordered within {} s", SILENCE.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.step("the BMC cycles the power");
        self.power_cut()?;
        std::thread::sleep(Duration::from_secs(1));
        self.boot()
    }
}

/// State of one machine's connection between two bytes.
struct Line {
    bmc: Bmc,
    /// BMC global enables, as set by the guest (IPMI v2.0 §22.1).
    enables: u8,
    message: Vec<u8>,
    escape: bool,
}

impl Line {
    /// Processes a byte; returns the bytes to send.
    fn take(&mut self, byte: u8) -> Vec<u8> {
        match byte {
            END_OF_MESSAGE => {
                let message = std::mem::take(&mut self.message);
                return self.message(&message);
            }
            // Versions and capabilities: there is only one version, and no capability is needed.
            END_OF_COMMAND => {
                if std::mem::take(&mut self.message) == [RESET] {
                    self.enables = 0;
                }
            }
            ESCAPE => self.escape = true,
            _ if std::mem::take(&mut self.escape) => self.message.push(byte & !ESCAPED),
            _ => self.message.push(byte),
        }
        Vec::new()
    }

    fn message(&mut self, message: &[u8]) -> Vec<u8> {
        let [number, function, command, data @ .., _] = message else { return Vec::new() };
        if sum(message) != 0 {
            return Vec::new();
        }
        let before = self.enables;
        let (code, said) = self.answer(function >> 2, *command, data);
        let mut sent = Vec::new();
        if self.enables & 1 != before & 1 {
            sent.extend([
                if self.enables & 1 == 0 { DISABLE_IRQ } else { ENABLE_IRQ },
                END_OF_COMMAND,
            ]);
        }
        // An answer's network function is that of the request plus one.
        let mut answer = vec![*number, function | 0x04, *command, code];
        answer.extend(said);
        answer.push(sum(&answer).wrapping_neg());
        sent.extend(escaped(&answer));
        sent.push(END_OF_MESSAGE);
        sent
    }

    /// Returns completion code and data.
    fn answer(&mut self, function: u8, command: u8, data: &[u8]) -> (u8, Vec<u8>) {
        match (function, command, data) {
            // Chassis status: power is on.
            (0x00, 0x01, _) => (SUCCESS, vec![0x01, 0x00, 0x00]),
            (0x00, 0x02, [action, ..]) => (self.control(action & 0x0F), Vec::new()),
            // Restart cause: chassis control after an accepted one, else unknown (IPMI v2.0 §28.11).
            (0x00, 0x07, _) => {
                let cycled =
                    self.bmc.controls().iter().any(|control| control.action == POWER_CYCLE);
                (SUCCESS, vec![u8::from(cycled), 0x00])
            }
            // Device id: IPMI 2.0, a chassis device, no vendor.
            (0x06, 0x01, _) => (SUCCESS, vec![0x20, 0x01, 0x01, 0x00, 0x02, 0x80, 0, 0, 0, 0, 0]),
            // Global enables: set and get.
            (0x06, 0x2E, [enables, ..]) => {
                self.enables = *enables;
                (SUCCESS, Vec::new())
            }
            (0x06, 0x2F, _) => (SUCCESS, vec![self.enables]),
            // Message flags: clear and get; always empty.
            (0x06, 0x30, _) => (SUCCESS, Vec::new()),
            (0x06, 0x31, _) => (SUCCESS, vec![0]),
            _ => (UNKNOWN, Vec::new()),
        }
    }

    fn control(&self, action: u8) -> u8 {
        let control = Control { action, at: Instant::now() };
        self.bmc.controls.lock().unwrap_or_else(PoisonError::into_inner).push(control);
        if action == POWER_CYCLE { SUCCESS } else { INVALID }
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

fn escaped(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().flat_map(|byte| match *byte {
        END_OF_MESSAGE | END_OF_COMMAND | ESCAPE => vec![ESCAPE, byte | ESCAPED],
        byte => vec![byte],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the answer to a message, which may need escapes.
    fn answer(line: &mut Line, message: &[u8]) -> Vec<u8> {
        let mut whole = message.to_vec();
        whole.push(sum(message).wrapping_neg());
        escaped(&whole).chain([END_OF_MESSAGE]).flat_map(|byte| line.take(byte)).collect()
    }

    #[test]
    fn messages_are_answered_and_controls_recorded() {
        let bmc = Bmc::default();
        let mut line = Line { bmc: bmc.clone(), enables: 0, message: Vec::new(), escape: false };
        assert_eq!(answer(&mut line, &[6, 0x00, 0x07])[3..5], [SUCCESS, 0x00]);
        assert_eq!(
            answer(&mut line, &[0xA0, 0x00, 0x02, 0x02]),
            [0xAA, 0xB0, 0x04, 0x02, 0x00, 0x5A, 0xA0]
        );
        assert_eq!(answer(&mut line, &[1, 0x00, 0x02, 0x00]), [1, 0x04, 0x02, INVALID, 0x2D, 0xA0]);
        assert_eq!(answer(&mut line, &[2, 0x18, 0x2E, 0x01])[..2], [ENABLE_IRQ, END_OF_COMMAND]);
        assert_eq!([RESET, END_OF_COMMAND].map(|byte| line.take(byte)), [[], []] as [[u8; 0]; 2]);
        assert_eq!(answer(&mut line, &[3, 0x18, 0x2F])[4], 0);
        assert_eq!(answer(&mut line, &[4, 0x18, 0x08])[3], UNKNOWN);
        assert_eq!(answer(&mut line, &[7, 0x00, 0x07])[3..5], [SUCCESS, 0x01]);
        // A message with a wrong checksum gets no answer.
        assert!(
            [5, 0x00, 0x02, 0x02, 0, END_OF_MESSAGE].iter().all(|byte| line.take(*byte).is_empty())
        );
        assert_eq!(bmc.controls().iter().map(|control| control.action).collect::<Vec<_>>(), [2, 0]);
    }
}
