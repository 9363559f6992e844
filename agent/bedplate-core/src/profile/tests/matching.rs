//! Choosing a profile by hardware.

use super::*;
use bedplate_base::{Arch, CpuVendor, Reading};
use bedplate_facts::Facts;
use bedplate_testhosts::fixture::Machine;

fn unknown<T>() -> Reading<T> {
    Reading::unknown("not recorded")
}

fn machine(arch: Arch, vendor: CpuVendor, gpus: &[(u16, u16, u8)]) -> Facts {
    let mut machine = Machine::default();
    for (vendor, device, count) in gpus {
        for _ in 0..*count {
            let address = format!("0000:{:02x}:00.0", machine.tree.functions.len());
            machine.add(&address, None, 0x030200, (*vendor, *device));
        }
    }
    let mut facts = Facts::of_vendor(vendor);
    facts.arch = Reading::Known(arch);
    facts.dmi.sys_vendor = Reading::Known("NVIDIA ".into());
    facts.dmi.product_name = Reading::Known("DGXH100".into());
    facts.pci = Reading::Known(machine.tree);
    facts
}

fn all_shipped() -> Vec<(String, model::Match)> {
    super::super::shipped()
        .iter()
        .map(|s| (s.name.to_owned(), good(s.text).profile.matching))
        .collect()
}

fn conditions(text: &str) -> model::Match {
    good(&format!("schema = 1\n[match]\n{text}\n")).profile.matching
}

#[test]
fn one_directory_serves_a_mixed_fleet() {
    use Arch::{Aarch64, X86_64};
    use CpuVendor::{Amd, Arm, Intel};
    let fleet = [
        (machine(X86_64, Intel, &[(0x10de, 0x2330, 8), (0x15b3, 0x1021, 8)]), "hgx-h100"),
        (machine(X86_64, Amd, &[(0x10de, 0x2335, 8)]), "hgx-h100"),
        (machine(X86_64, Intel, &[(0x10de, 0x2901, 8)]), "b200"),
        (machine(X86_64, Amd, &[(0x1002, 0x74a1, 8)]), "mi300x"),
        (machine(X86_64, Intel, &[(0x1002, 0x74a1, 8)]), "mi300x"),
        (machine(Aarch64, Arm, &[(0x10de, 0x2342, 1)]), "grace"),
        (machine(Aarch64, Arm, &[(0x10de, 0x2941, 4)]), "gb200"),
        (machine(Aarch64, Arm, &[(0x10de, 0x31c2, 4)]), "grace"),
        (machine(Aarch64, Arm, &[(0x10de, 0x31c3, 4)]), "grace"),
        (machine(Aarch64, Arm, &[(0x10de, 0x31c2, 4), (0x15b3, 0x2100, 4)]), "gb300"),
        (machine(Aarch64, Arm, &[(0x10de, 0x31a1, 4)]), "grace"),
        (machine(Aarch64, Arm, &[(0x10de, 0x31a1, 4), (0x15b3, 0x2100, 4)]), "gb300"),
        (machine(Aarch64, Arm, &[]), "generic-arm"),
        (machine(X86_64, Amd, &[(0x10de, 0x2330, 4)]), "hgx-h100"),
        (machine(X86_64, Intel, &[(0x10de, 0x2330, 3)]), "generic-intel"),
        (machine(X86_64, Amd, &[]), "generic-amd"),
    ];
    let profiles = all_shipped();
    for (facts, expected) in fleet {
        assert_eq!(pick(&profiles, &facts).unwrap(), expected);
    }
}

#[test]
fn no_match_lists_reasons_per_profile() {
    let facts = machine(Arch::Aarch64, CpuVendor::Arm, &[]);
    let profiles = [
        ("a".to_owned(), conditions("arch = \"x86_64\"\ncpu_vendor = \"intel\"")),
        ("b".to_owned(), conditions("sys_vendor = \"Dell*\"")),
        ("c".to_owned(), conditions("pci = [{ id = [\"10de:2330\", \"10de:*\"], at_least = 8 }]")),
        ("d".to_owned(), model::Match::default()),
    ];
    assert_eq!(
        pick(&profiles, &facts).unwrap_err().to_string(),
        "no profile matches this machine; name one, or adapt the [match] of one of these:\n  \
         a: CPU vendor is arm, not intel; architecture is aarch64, not x86_64\n  \
         b: DMI system vendor is `NVIDIA`, not `Dell*`\n  \
         c: 0 PCI functions are 10de:2330 or 10de:*, not at least 8\n  \
         d: no conditions in [match]: used only by name"
    );
}

#[test]
fn unknown_fact_never_matches_and_is_reported() {
    let mut facts = machine(Arch::X86_64, CpuVendor::Intel, &[(0x10de, 0x2330, 8)]);
    facts.pci = unknown();
    facts.dmi.product_name = Reading::Absent;
    facts.cpu.vendor = unknown();
    let wanted =
        conditions("cpu_vendor = \"intel\"\nproduct_name = \"*\"\npci = [{ id = \"10de:*\" }]");
    assert_eq!(
        match_profile(&wanted, &facts).fails,
        [
            "CPU vendor is unknown: not recorded",
            "no DMI product name on this host",
            "number of PCI functions 10de:* is unknown: not recorded",
        ]
    );
}

#[test]
fn tie_lists_both_profiles() {
    let facts = machine(Arch::X86_64, CpuVendor::Intel, &[]);
    let profiles = [
        ("a".to_owned(), conditions("arch = \"x86_64\"")),
        ("b".to_owned(), conditions("cpu_vendor = \"intel\"")),
        ("c".to_owned(), conditions("cpu_vendor = \"amd\"")),
    ];
    let error = pick(&profiles, &facts).unwrap_err();
    assert_eq!(error, MatchError::Tie(vec!["a".into(), "b".into()]));
    assert!(error.to_string().contains("a, b"), "{error}");
}

#[test]
fn specific_conditions_beat_many_general_ones() {
    let facts = machine(Arch::X86_64, CpuVendor::Intel, &[(0x10de, 0x2330, 8)]);
    let order = [
        "pci = [{ id = \"10de:2330\" }]",
        "pci = [{ id = \"10de:*\" }]",
        "sys_vendor = \"nvidia\"\nproduct_name = \"dgx*\"",
        "product_name = \"DGXH100\"\narch = \"x86_64\"\ncpu_vendor = \"intel\"",
        "arch = \"x86_64\"\ncpu_vendor = \"intel\"",
        "arch = \"x86_64\"",
    ];
    for (at, pair) in order.windows(2).enumerate() {
        let profiles =
            [("less".to_owned(), conditions(pair[1])), ("more".to_owned(), conditions(pair[0]))];
        assert_eq!(pick(&profiles, &facts).unwrap(), "more", "{at}");
    }
}

#[test]
fn virtual_functions_do_not_count() {
    let mut facts = machine(Arch::X86_64, CpuVendor::Intel, &[(0x1002, 0x74a1, 2)]);
    let Reading::Known(tree) = &mut facts.pci else { unreachable!() };
    let pf = *tree.functions.keys().next().unwrap();
    tree.functions.values_mut().last().unwrap().physfn = Some(pf);
    let one = conditions("pci = [{ id = \"1002:*\", at_least = 1, at_most = 1 }]");
    assert_eq!(match_profile(&one, &facts).fails, Vec::<String>::new());
    let two = conditions("pci = [{ id = \"1002:*\", at_least = 2 }]");
    assert_eq!(match_profile(&two, &facts).fails.len(), 1);
}

#[test]
fn only_profiles_of_rack_trays_are_for_them() {
    let shipped = super::super::shipped().iter();
    let trays = shipped.filter(|shipped| good(shipped.text).profile.is_for_rack_trays());
    assert_eq!(trays.map(|shipped| shipped.name).collect::<Vec<_>>(), ["gb200", "gb300"]);
}
