//! Build configuration of a kernel: the options that it was built with.

use bedplate_base::Reading;
use bedplate_host::Reader;

/// Places of the build configuration, for display.
pub const PLACES: &str = "/boot/config-RELEASE or /usr/lib/modules/RELEASE/config";

/// Reads the build configuration of a release. Packages put it into /boot, or next to the modules, from where it need not
/// be copied to /boot (handbook §14.2). `Absent`: neither place has it.
pub fn kernel_config(reader: &dyn Reader, release: &str) -> Reading<String> {
    let mut found = Reading::Absent;
    for path in [format!("/boot/config-{release}"), format!("/usr/lib/modules/{release}/config")] {
        match Reading::from_result(reader.text(&path)) {
            Reading::Known(text) => return Reading::Known(text),
            Reading::Unknown(why) if found == Reading::Absent => found = Reading::Unknown(why),
            _ => {}
        }
    }
    found
}

/// Reads the build configuration of the running kernel, which is never `Absent`.
pub(crate) fn of_running(reader: &dyn Reader, release: Option<&str>) -> Reading<String> {
    let Some(release) = release else { return Reading::unknown("the running kernel is unknown") };
    match kernel_config(reader, release) {
        // The release of a foreign snapshot may be hostile, and operators run the command.
        Reading::Absent => Reading::unknown(format!(
            "the kernel's build configuration is neither /boot/config-{release} nor /usr/lib/modules/{release}/config; \
             where /proc/config.gz exists, run `zcat /proc/config.gz >/boot/config-$(uname -r)`"
        )),
        other => other,
    }
}

/// Whether the kernel has `option` built in.
pub(crate) fn is_built(config: &Reading<String>, option: &str) -> Reading<bool> {
    let line = format!("{option}=y");
    config.clone().map(|text| text.lines().any(|one| one.trim() == line))
}

/// Whether the kernel was built with the boolean `option`. Unknown if its configuration does not name the option, as in
/// snapshots of earlier versions.
pub(crate) fn is_set(config: &Reading<String>, option: &str) -> Reading<bool> {
    let (on, off) = (format!("{option}=y"), format!("# {option} is not set"));
    config.clone().and_then(|text| {
        match text.lines().map(str::trim).find(|line| *line == on || *line == off) {
            Some(line) => Reading::Known(line == on),
            None => Reading::unknown(format!("the kernel's build configuration has no {option}")),
        }
    })
}
