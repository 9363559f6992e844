//! Bits of a 16-bit register in PCI config space.

use serde::{Deserialize, Serialize};

use super::AcsBits;

/// What some bits of a register are, or are to be; nothing is said of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RegisterBits {
    /// Which bits.
    pub mask: u16,
    /// Their value.
    pub value: u16,
}

impl RegisterBits {
    /// All bits of a register.
    pub const fn whole(register: u16) -> Self {
        RegisterBits { mask: u16::MAX, value: register }
    }

    /// Bits of a register that holds this.
    pub const fn of(register: u16, mask: u16) -> Self {
        RegisterBits { mask, value: register & mask }
    }

    /// Whether a register that holds this has these bits.
    pub const fn are_in(self, register: u16) -> bool {
        (register ^ self.value) & self.mask == 0
    }

    /// The register with these bits; other bits as they are.
    pub const fn applied_to(self, register: u16) -> u16 {
        register & !self.mask | self.value & self.mask
    }

    /// Those of these bits that `mask` names.
    pub const fn limited_to(self, mask: u16) -> Self {
        RegisterBits::of(self.value, self.mask & mask)
    }

    /// These bits, and those of `earlier` that are not among them.
    pub const fn or(self, earlier: Self) -> Self {
        RegisterBits { mask: self.mask | earlier.mask, value: self.applied_to(earlier.value) }
    }

    /// Both wishes; where they contradict each other the bit is to be on, which isolates where the register is ACS control.
    pub const fn isolating(self, other: Self) -> Self {
        RegisterBits { mask: self.mask | other.mask, value: self.value | other.value }
    }

    /// Those of these bits that are to be on, where the register is ACS control.
    pub const fn on(self) -> AcsBits {
        AcsBits(self.mask & self.value)
    }

    /// Those of these bits that are to be off, where the register is ACS control.
    pub const fn off(self) -> AcsBits {
        AcsBits(self.mask & !self.value)
    }

    /// From the flags of `pci=config_acs=`: the most significant bit first (DT EC UF CR RR TB SV), `1`, `0`, or `x` for a bit that
    /// is left alone (handbook §1.4). `None`: another character, or more than 16.
    pub const fn from_flags(flags: &str) -> Option<Self> {
        let flags = flags.as_bytes();
        let mut bits = RegisterBits { mask: 0, value: 0 };
        let mut at = 0;
        while at < flags.len() {
            let (mask, value) = match flags[at] {
                b'0' => (1, 0),
                b'1' => (1, 1),
                b'x' | b'X' => (0, 0),
                _ => return None,
            };
            bits = RegisterBits { mask: bits.mask << 1 | mask, value: bits.value << 1 | value };
            at += 1;
        }
        if flags.len() <= 16 { Some(bits) } else { None }
    }

    /// The flags that `pci=config_acs=` takes for these bits, one for each that the specification defines.
    pub fn flags(self) -> String {
        let flag = |bit: u16| match (self.mask >> bit & 1, self.value >> bit & 1) {
            (0, _) => 'x',
            (_, 1) => '1',
            _ => '0',
        };
        (0..7).rev().map(flag).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_and_written_from_the_most_significant_bit() {
        for flags in ["xx000x0", "1x111x1", "xx101x1", "xxx00xx", "0000000", "xxxxxxx"] {
            assert_eq!(
                RegisterBits::from_flags(flags).map(RegisterBits::flags).as_deref(),
                Some(flags)
            );
        }
        let bits = RegisterBits { mask: 0x1d, value: 0x19 };
        assert_eq!(RegisterBits::from_flags("xx110x1"), Some(bits));
        assert_eq!((bits.on(), bits.off()), (AcsBits(0x19), AcsBits(0x04)));
        assert_eq!(RegisterBits::from_flags("1x1"), Some(RegisterBits { mask: 5, value: 5 }));
        assert_eq!(RegisterBits::from_flags("q"), None);
        assert_eq!(RegisterBits::from_flags(&"1".repeat(17)), None);
    }
}
