//! Every shipped profile is for its own machine, and for no other.

use super::*;
use bedplate_facts::{Depth, observe};
use bedplate_testhosts::HostSpec;

/// A profile, and made-up hosts that it is for. `vfio` has none: it is only used when it is named.
const HOSTS: &[(&str, &[&str])] = &[
    ("hgx-a100", &["gpu = \"10de:20b2\"", "gpu = \"10de:20b0\"\ncpu = \"amd\""]),
    ("a100-pcie", &["gpu = \"10de:20b5\"", "machine = \"epyc-l40s\"\ngpu = \"10de:20f1\""]),
    ("hgx-h100", &["", "gpu = \"10de:2335\"", "cpu = \"amd\""]),
    (
        "h100-pcie",
        &[
            "gpu = \"10de:2331\"",
            "machine = \"epyc-l40s\"\ngpu = \"10de:233b\"",
            "gpu = \"10de:2321\"",
        ],
    ),
    ("l40s", &["machine = \"epyc-l40s\"", "gpu = \"10de:26b9\""]),
    ("b200", &["gpu = \"10de:2901\""]),
    ("b300", &["machine = \"b300\""]),
    (
        "grace",
        &[
            "machine = \"grace\"",
            "machine = \"grace\"\ngpu = \"10de:2345\"",
            "machine = \"gb200\"\ngpu = \"10de:31c2\"",
        ],
    ),
    ("gb200", &["machine = \"gb200\""]),
    ("gb300", &["machine = \"gb300\""]),
    ("vera-rubin", &["machine = \"vera-rubin\""]),
    ("dgx-spark", &["machine = \"dgx-spark\""]),
    ("mi300x", &["machine = \"mi300x\"", "machine = \"mi300x\"\ncpu = \"intel\""]),
    ("mi325x", &["machine = \"mi300x\"\ngpu = \"1002:74a5\""]),
    (
        "mi350x",
        &["machine = \"mi300x\"\ngpu = \"1002:75a0\"", "machine = \"mi300x\"\ngpu = \"1002:75a3\""],
    ),
    ("generic-intel", &["machine = \"plain\""]),
    (
        "generic-amd",
        &["machine = \"plain\"\ncpu = \"amd\"", "machine = \"mi300x\"\ngpu = \"1002:740f\""],
    ),
    ("generic-arm", &["machine = \"plain\"\ncpu = \"arm\""]),
];

/// Profiles that fit besides the best one, less specifically: the generic one of the CPU, and Grace's without Data Direct.
fn may_fit_too(best: &str, other: &str) -> bool {
    other.starts_with("generic-") || (best == "gb300" && other == "grace")
}

#[test]
fn every_shipped_profile_is_the_best_for_its_own_machine_and_for_no_other() {
    let named: Vec<&str> = HOSTS.iter().map(|(name, _)| *name).chain(["vfio"]).collect();
    let shipped: Vec<&str> = profile::shipped().iter().map(|shipped| shipped.name).collect();
    assert_eq!(named, shipped);
    for (expected, hosts) in HOSTS {
        for host in *hosts {
            let facts = observe(&HostSpec::from_toml(host).unwrap().build(), Depth::Plan);
            assert_eq!(best_shipped(&facts).as_deref(), Ok(*expected), "{host}");
            for listed in listed(&facts) {
                assert_eq!(listed.best, listed.name == *expected, "{host}");
                let fits = listed.judged.fails.is_empty();
                assert!(
                    !fits || listed.best || may_fit_too(expected, listed.name),
                    "{} fits {host}: {:?}",
                    listed.name,
                    listed.judged
                );
            }
        }
    }
}

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
