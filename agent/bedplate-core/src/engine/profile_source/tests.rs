//! Where no shipped profile is for a machine.

use super::*;
use bedplate_facts::{Depth, observe};
use bedplate_testhosts::HostSpec;

#[test]
fn where_none_fits_the_general_reasons_are_given() {
    let strange = HostSpec::from_toml("machine = \"plain\"\ncpu = \"other\"").unwrap().build();
    let facts = observe(&strange, Depth::Plan);
    let error = choose(Choice::HostOrShipped, OwnerCheck::Require, &strange, &facts).unwrap_err();
    let said = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    for part in ["--profile", "generic-intel: CPU vendor is other, not intel", "generic-arm: "] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("hgx"), "{said}");
}
