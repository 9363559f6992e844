//! Bits of a 16-bit register in PCI config space.

use serde::{Deserialize, Serialize};

use super::AcsBits;

/// Actual or desired values of some bits of a register. The remaining bits are unspecified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RegisterBits {
    /// Bits that are specified.
    pub mask: u16,
    /// Values of the specified bits.
    pub value: u16,
}

impl RegisterBits {
    /// Specifies all bits of a register.
    pub const fn whole(register: u16) -> Self {
        RegisterBits { mask: u16::MAX, value: register }
    }

    /// Specifies the bits in `mask`, with their values in `register`.
    pub const fn of(register: u16, mask: u16) -> Self {
        RegisterBits { mask, value: register & mask }
    }

    /// Whether `register` has these bits.
    pub const fn are_in(self, register: u16) -> bool {
        (register ^ self.value) & self.mask == 0
    }

    /// Returns `register` with these bits; the rest is unchanged.
    pub const fn applied_to(self, register: u16) -> u16 {
        register & !self.mask | self.value & self.mask
    }

    /// Returns those of these bits that are in `mask`.
    pub const fn limited_to(self, mask: u16) -> Self {
        RegisterBits::of(self.value, self.mask & mask)
    }

    /// Returns these bits, and those of `earlier` that are not specified here.
    pub const fn or(self, earlier: Self) -> Self {
        RegisterBits { mask: self.mask | earlier.mask, value: self.applied_to(earlier.value) }
    }

    /// Merges both requests. Where they conflict, the bit is set, which isolates if the register is ACS control.
    pub const fn isolating(self, other: Self) -> Self {
        RegisterBits { mask: self.mask | other.mask, value: self.value | other.value }
    }

    /// Returns the bits to set, for an ACS control register.
    pub const fn on(self) -> AcsBits {
        AcsBits(self.mask & self.value)
    }

    /// Returns the bits to clear, for an ACS control register.
    pub const fn off(self) -> AcsBits {
        AcsBits(self.mask & !self.value)
    }

    /// Parses the flags of `pci=config_acs=`: the most significant bit first (DT EC UF CR RR TB SV), `1`, `0`, or `x`
    /// for an unchanged bit (handbook §1.4). Returns `None` for any other character or more than 16 flags.
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

    /// Returns the flags for `pci=config_acs=`, one for each bit that the specification defines.
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
    fn flags_start_with_most_significant_bit() {
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
