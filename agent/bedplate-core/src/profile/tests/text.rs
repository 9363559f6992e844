//! The profile as text: `show` and `explain`.

use serde_json::Value;

use super::*;

const EVERYTHING: &str = r#"schema = 1
name = "all of it"
description = "a \"quoted\" line"
[match]
cpu_vendor = "amd"
arch = "x86_64"
sys_vendor = "Super*"
product_name = "AS -8125*"
pci = [{ id = "10de:2330", at_least = 8, at_most = 8 }, { id = ["15b3:*"] }]
[iommu]
mode = "passthrough"
why = "needed"
[cmdline]
args = ["foo=1", { arg = "pci=realloc,noats", why = "two", source = "here" }, "x=\"a b\""]
absent = ["quiet", { arg = "bar=2", why = "no" }]
[modules]
load = ["b", { name = "a", load = "boot", why = "first" }]
load_default = "now"
gpudirect = "auto"
blacklist = ["nouveau"]
unload = ["nouveau"]
[modules.options.nvidia]
A = 1
B = { value = "x y", why = "spaces" }
"C.d" = true
[acs]
policy = "direct-p2p"
source = "there"
[[sriov.devices]]
name = "the one"
select = { vendor = "15b3", device = "1021", driver = "mlx5_core", interface = "ens*", address = "17:00.0", numa_node = 0 }
vfs = "per-gpu"
vf_driver = "none"
why = "wanted"
[[sriov.devices]]
name = "two"
select = { vendor = "15b3" }
vfs = 4
[reboot]
policy = "schedule"
methods = ["bmc", "ordinary"]
windows = ["Sat 01:00-02:00 UTC"]
delay = "10m"
jitter = "1h"
inhibitor_wait = "48h"
busy_devices = false
idle_holders = ["mmfsd"]
busy_command = ["/usr/bin/drained", "-q"]
command = ["/usr/bin/cycle"]
rtc_wakes = true
dry_run = true
fleetlock = { url = "http://lock:9090/base", group = "gpu-a" }
[agent]
mode = "observe"
interval = "1h 30m"
boot_timeout = "40s"
ready_timeout = "3m"
"#;

/// Returns a profile as data, without reasons that only name the requesting line.
fn data(loaded: &LoadedProfile) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(object) => object.values_mut().for_each(strip),
            Value::Array(items) => {
                items.retain(|item| item["reason"] != "requested by the profile");
                for item in items.iter_mut() {
                    // The default source of a reason is its line.
                    if item["source"].as_str().is_some_and(|source| source.starts_with(PATH)) {
                        item["source"] = Value::Null;
                    }
                    strip(item);
                }
            }
            _ => {}
        }
    }
    let mut value = serde_json::to_value(&loaded.profile).unwrap();
    strip(&mut value);
    value
}

#[test]
fn shown_profile_loads_as_the_same_profile() {
    let texts = super::super::shipped()
        .iter()
        .map(|shipped| shipped.text)
        .chain([EVERYTHING, "schema = 1\n"]);
    for text in texts {
        let loaded = good(text);
        for with_origin in [false, true] {
            let shown = show(&loaded, with_origin);
            let again = good(&shown);
            assert_eq!(data(&again), data(&loaded), "{shown}");
            assert_eq!(show(&again, false), show(&loaded, false));
        }
    }
}

/// An empty profile equals one with the schema's defaults written out.
#[test]
fn schema_defaults_equal_empty_profile() {
    let mut text = "schema = 1\n".to_owned();
    let mut written = 0;
    for key in explained_keys().iter().filter(|key| key.contains('.')) {
        let default = explained(key).and_then(|found| found.default);
        // Keys of list entries and of a FleetLock server apply only if there is one.
        let top = !key.contains("devices.") && !key.contains("pci.") && !key.contains("fleetlock");
        if let Some(default) = default.filter(|_| top) {
            text += &format!("{key} = {default}\n");
            written += 1;
        }
    }
    assert!(written > 20, "{text}");
    assert_eq!(data(&good(&text)), data(&good("schema = 1\n")));
}

#[test]
fn origins_are_shown_line_by_line() {
    let profile = "schema = 1\nextends = \"generic-intel\"\n[cmdline]\nargs = [\"foo=1\"]\n";
    let drop_in = "schema = 1\n[cmdline]\nargs = [\"foo=2\"]\n[modules]\ngpudirect = \"dmabuf\"\n";
    let shown = show(&good_files(&[("/etc/p.toml", profile), ("/etc/p.d/1.toml", drop_in)]), true);
    for line in [
        "name = \"p\"  # default",
        "mode = \"passthrough\"  # from shipped:generic-intel.toml:14",
        "  \"foo=2\",  # from /etc/p.d/1.toml:3",
        "gpudirect = \"dmabuf\"  # from /etc/p.d/1.toml:5",
        "attempts = 1  # default",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
}

#[test]
fn key_description_includes_values_and_source() {
    assert_eq!(
        explain("acs.persistence").unwrap(),
        "\
acs.persistence (word)
    How the bits survive a reboot, a device reset and a driver bind.

VALUES
    auto: The kernel command line if the kernel is known good, else runtime
      writes.
    cmdline: The kernel command line, or a blocker.
    live: Runtime writes at every boot.

DEFAULT
    \"auto\"

SOURCE
    drivers/pci/pci.c; Documentation/admin-guide/kernel-parameters.txt; handbook
      §1.4, §3.4
"
    );
    assert!(
        explain("acs")
            .unwrap()
            .contains("\nKEYS\n    guests: Whether GPUs and NICs are assigned to guests")
    );
    assert!(
        explain("sriov.devices.vfs").unwrap().starts_with("sriov.devices.vfs (integer or word)\n")
    );
    assert!(explain("modules.options.nvidia.NVreg_EnableStreamMemOPs").is_some());
    assert_eq!(explain("acs.polciy"), None);
    assert_eq!(explain(""), None);
}
