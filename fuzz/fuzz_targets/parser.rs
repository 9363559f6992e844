//! Fuzz target for one parser of `tests/src/parsers.rs`: `BEDPLATE_PARSER=grub-cfg cargo fuzz run parser
//! tests/data/corpus/grub-cfg`.

#![no_main]

use std::sync::LazyLock;

use bedplate_tests::parsers::{PARSERS, Parser, named};

static CHOSEN: LazyLock<Parser> = LazyLock::new(|| {
    let name = std::env::var("BEDPLATE_PARSER").unwrap_or_default();
    let names: Vec<&str> = PARSERS.iter().map(|(name, _)| *name).collect();
    named(&name).unwrap_or_else(|| panic!("BEDPLATE_PARSER={name} is none of {}", names.join(" ")))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| CHOSEN(bytes));
