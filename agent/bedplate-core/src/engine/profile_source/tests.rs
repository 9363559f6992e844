//! Machines that no shipped profile fits.

use super::*;
use bedplate_facts::{Depth, observe};
use bedplate_testhosts::HostSpec;

#[test]
fn no_match_reports_reasons_of_generic_profiles() {
    let strange = HostSpec::from_toml("machine = \"plain\"\ncpu = \"other\"").unwrap().build();
    let facts = observe(&strange, Depth::Plan);
    let error = choose(Choice::HostOrShipped, OwnerCheck::Require, &strange, &facts).unwrap_err();
    let said = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    for part in ["--profile", "generic-intel: CPU vendor is other, not intel", "generic-arm: "] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("hgx"), "{said}");
}
