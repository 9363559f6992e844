//! The `firmware` method: makes the kernel's last step of an ordinary reboot as cold as possible, by /sys/kernel/reboot
//! (since 5.11). The default type, `acpi`, writes the platform's reset register in any mode (handbook §2.2). `efi`
//! requests EfiResetCold from the firmware; `pci` writes 0x0E to port 0xCF9, whose bit 3 requests a cycle of the power
//! rails on Intel platforms.

use super::{Env, MethodError, Next, Row, Undo, Unusable, attribute, under, unusable};
use bedplate_host::capability::{self, STATUS};

const DIRECTORY: &str = "/sys/kernel/reboot";
const MODE: &str = "/sys/kernel/reboot/mode";
const TYPE: &str = "/sys/kernel/reboot/type";
/// Exists if the machine was booted by EFI (`drivers/firmware/efi/efi.c`).
const EFI: &str = "/sys/firmware/efi";
const COLD: &str = "cold";

/// Values that the attributes accept (`kernel/reboot.c`). Any other current value, for example `undefined`, could not be
/// restored.
const VALUES: [(&str, &[&str]); 2] = [
    (MODE, &[COLD, "warm", "hard", "soft", "gpio"]),
    (TYPE, &["bios", "acpi", "kbd", "triple", "efi", "pci"]),
];

/// Registry entry.
pub(super) const ROW: Row = Row {
    subject: "a reset by the firmware",
    next: Next::LogindReboot,
    probe,
    find_undo,
    prepare,
    undoes,
    survives_boot: false,
};

/// Checks that the method can be used.
fn probe(env: &Env<'_>) -> Result<String, Unusable> {
    if !under(env.root, DIRECTORY).is_dir() {
        let why = "the kernel must be 5.11 or newer, and /sys mounted";
        return unusable(format!("{DIRECTORY} is missing: {why}"));
    }
    if !under(env.root, TYPE).exists() {
        let why = "only x86 kernels offer a choice of reset type";
        return unusable(format!("{TYPE} is missing: {why}"));
    }
    for (path, values) in VALUES {
        attribute::writable(env.root, path)?;
        let found = attribute::read(env.root, path)?;
        if !values.contains(&found.as_str()) {
            let why = "which could not be restored after a cancelled reboot";
            return unusable(format!("{path} reads `{found}`, {why}"));
        }
    }
    capable(env)?;
    Ok(match reset(env) {
        "efi" => "a cold reset by the firmware (EfiResetCold)".into(),
        _ => "a full reset by port 0xCF9, which cycles the power rails on Intel platforms (unverified on others)".into(),
    })
}

/// Returns the current values of both, the last written first.
fn find_undo(env: &Env<'_>) -> Result<Vec<Undo>, MethodError> {
    let step =
        |path: &str| Ok(Undo::Write { path: path.into(), value: attribute::read(env.root, path)? });
    [TYPE, MODE].into_iter().map(step).collect()
}

/// Writes both attributes.
fn prepare(env: &Env<'_>) -> Result<(), MethodError> {
    for (path, value) in [(MODE, COLD), (TYPE, reset(env))] {
        attribute::write_and_check(env.root, path, value)?;
    }
    Ok(())
}

/// Whether this step restores one of the two.
fn undoes(step: &Undo) -> bool {
    let Undo::Write { path, value } = step else { return false };
    VALUES.iter().any(|(ours, values)| path == ours && values.contains(&value.as_str()))
}

/// Returns the coldest type that this machine has.
fn reset(env: &Env<'_>) -> &'static str {
    if under(env.root, EFI).exists() { "efi" } else { "pci" }
}

fn capable(env: &Env<'_>) -> Result<(), Unusable> {
    let status = attribute::read(env.root, STATUS)?;
    match capability::in_effect(&status, capability::SYS_BOOT) {
        Some(true) => Ok(()),
        Some(false) => unusable(format!(
            "writing {TYPE} needs CAP_SYS_BOOT: run as root, and keep it in CapabilityBoundingSet="
        )),
        None => unusable(format!(
            "unknown whether this process has CAP_SYS_BOOT: no readable CapEff in {STATUS}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Tree, cannot, works};
    use super::super::{Method, prepare, undo};
    use super::*;

    fn tree() -> Tree {
        let tree = Tree::new();
        tree.put(MODE, "warm\n");
        tree.put(TYPE, "acpi\n");
        tree.put("/proc/self/status", "Name:\tbedplate\nCapEff:\t000001ffffffffff\n");
        tree
    }

    #[test]
    fn type_follows_the_boot_mode_and_undo_restores_both() {
        for (efi, expected) in [(false, "pci"), (true, "efi")] {
            let tree = tree();
            if efi {
                tree.put("/sys/firmware/efi/fw_platform_size", "64\n");
            }
            works(Method::Firmware, &tree.env());
            assert_eq!(
                (tree.get(MODE), tree.get(TYPE)),
                ("warm\n".into(), "acpi\n".into()),
                "probing wrote"
            );
            let prepared = prepare(Method::Firmware, &tree.env()).unwrap();
            assert_eq!(prepared.next, Next::LogindReboot);
            assert_eq!((tree.get(MODE), tree.get(TYPE)), ("cold".into(), expected.into()));
            undo(&prepared, &tree.0).unwrap();
            assert_eq!((tree.get(MODE), tree.get(TYPE)), ("warm".into(), "acpi".into()));
        }
    }

    #[test]
    fn missing_read_only_or_unknown_values_are_reported() {
        let old = Tree::new();
        assert!(cannot(Method::Firmware, &old.env()).contains("5.11"));
        let arm = tree();
        std::fs::remove_file(under(&arm.0, TYPE)).unwrap();
        assert!(cannot(Method::Firmware, &arm.env()).contains("x86"));
        let strange = tree();
        strange.put(TYPE, "undefined\n");
        assert!(cannot(Method::Firmware, &strange.env()).contains("`undefined`"));
        let locked = tree();
        locked.chmod(TYPE, 0o444);
        assert!(cannot(Method::Firmware, &locked.env()).contains("read-only"));
        let failed = prepare(Method::Firmware, &locked.env()).unwrap_err();
        assert!(failed.to_string().contains("cannot be used"), "{failed}");
        assert_eq!(locked.get(MODE), "warm\n", "nothing was written");
    }

    #[test]
    fn capability_must_be_present_and_known() {
        let tree = tree();
        tree.put("/proc/self/status", "CapEff:\t000001ffffbfffff\n");
        assert!(cannot(Method::Firmware, &tree.env()).contains("CAP_SYS_BOOT"));
        tree.put("/proc/self/status", "Name:\tbedplate\n");
        assert!(cannot(Method::Firmware, &tree.env()).contains("unknown"));
    }

    #[test]
    fn ineffective_write_is_an_error_with_undo_steps() {
        let tree = tree();
        // Accepts every write and shows none, like an attribute with an empty store function.
        std::fs::remove_file(under(&tree.0, TYPE)).unwrap();
        std::os::unix::fs::symlink("/dev/null", under(&tree.0, TYPE)).unwrap();
        let steps = super::find_undo(&tree.env()).unwrap();
        let failed = super::prepare(&tree.env()).unwrap_err();
        assert!(failed.to_string().starts_with(&format!("{TYPE} reads `` after")), "{failed}");
        assert_eq!(steps.len(), 2, "both can be taken back");
        assert_eq!(steps[1], Undo::Write { path: MODE.into(), value: "warm".into() });
    }
}
