//! Settings in systemd's configuration: a unit file or system.conf, and its drop-ins (systemd.unit(5),
//! systemd-system.conf(5)). Read from files, without contacting systemd.

use std::collections::BTreeMap;

use bedplate_base::OptionalRead as _;
use bedplate_base::ReadError;
use bedplate_host::{Reader, symlink};

/// Directories of units, highest priority first.
const UNITS: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
];
/// Directories of the manager's own configuration, highest priority first.
const MANAGER: [&str; 4] =
    ["/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"];

/// A setting and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Value as written.
    pub value: String,
    /// Path of the file.
    pub path: String,
}

/// Returns the path of a service's unit file; `None`: missing or masked.
///
/// # Errors
/// A file cannot be read.
pub fn service(reader: &dyn Reader, name: &str) -> Result<Option<String>, ReadError> {
    fragment(reader, &UNITS, &format!("{name}.service"))
}

/// Returns the effective value of a key in `[Service]` of the service with unit file `unit`.
///
/// # Errors
/// A file cannot be read.
pub fn of_service(
    reader: &dyn Reader,
    name: &str,
    unit: &str,
    key: &str,
) -> Result<Option<Setting>, ReadError> {
    // Names cut after each dash are prefixes of several units (systemd.unit(5)).
    let cut = name.match_indices('-').rev().map(|(at, _)| format!("{}.service.d", &name[..=at]));
    let drop_ins: Vec<String> = std::iter::once(format!("{name}.service.d"))
        .chain(cut)
        .chain(["service.d".to_owned()])
        .collect();
    let files = files(reader, Some(unit.to_owned()), &UNITS, &drop_ins)?;
    last(reader, &files, "Service", key)
}

/// Returns the effective value of a key in `[Manager]` of system.conf.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn of_manager(reader: &dyn Reader, key: &str) -> Result<Option<Setting>, ReadError> {
    let main = fragment(reader, &MANAGER, "system.conf")?;
    let files = files(reader, main, &MANAGER, &["system.conf.d".to_owned()])?;
    last(reader, &files, "Manager", key)
}

/// Returns the path of the file with this name in the directory of highest priority that has one; `None` if that one is a
/// mask.
fn fragment(reader: &dyn Reader, places: &[&str], name: &str) -> Result<Option<String>, ReadError> {
    for place in places {
        let path = format!("{place}/{name}");
        if is_mask(reader, &path)? {
            return Ok(None);
        }
        if reader.exists(&path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// bedplate's units that a boot starts: the first applies state that files cannot hold, the second is the daemon.
pub const OWN: [&str; 2] = ["bedplate-boot.service", "bedplate.service"];

/// Drop-in with which rendered files start these units where no tool enables units.
pub const OWN_DROP_IN: &str = "/etc/systemd/system/multi-user.target.d/50-bedplate.conf";

/// Whether starting `target` starts a service: by a link from `systemctl enable`, or by `Wants=` in a drop-in. False if
/// the service is missing or masked.
///
/// # Errors
/// A file or directory cannot be read.
pub fn is_wanted(reader: &dyn Reader, name: &str, target: &str) -> Result<bool, ReadError> {
    if service(reader, name)?.is_none() {
        return Ok(false);
    }
    let unit = format!("{name}.service");
    for place in UNITS {
        let Some(names) = reader.list(&format!("{place}/{target}.wants")).optional()? else {
            continue;
        };
        if names.contains(&unit) {
            if !is_mask(reader, &format!("{place}/{target}.wants/{unit}"))? {
                return Ok(true);
            }
            // The mask hides links in directories of lower priority.
            break;
        }
    }
    for path in files(reader, None, &UNITS, &[format!("{target}.d")])? {
        let text = reader.read(&path)?;
        let text = String::from_utf8_lossy(&text);
        let mut wanted = values(&text, "Unit", "Wants").into_iter().flat_map(str::split_whitespace);
        if wanted.any(|wanted| wanted == unit) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a service is masked, so that it cannot be started (`systemctl mask`).
pub(crate) fn is_masked(reader: &dyn Reader, name: &str) -> bool {
    UNITS[..2].iter().any(|place| leads_nowhere(reader, &format!("{place}/{name}.service")))
}

/// Whether a unit file or link is a mask: a link to /dev/null, or an empty file (systemd.unit(5)).
fn is_mask(reader: &dyn Reader, path: &str) -> Result<bool, ReadError> {
    if reader.link(path).is_ok() {
        return Ok(leads_nowhere(reader, path));
    }
    Ok(reader.read_start(path, 1).optional()?.is_some_and(|start| start.is_empty()))
}

/// Whether a path is a link that ends at /dev/null.
fn leads_nowhere(reader: &dyn Reader, path: &str) -> bool {
    reader.link(path).is_ok() && symlink::resolved(reader, path) == "/dev/null"
}

/// Returns the main file, then its drop-ins by name. A drop-in hides those of the same name in directories of lower
/// priority.
fn files(
    reader: &dyn Reader,
    main: Option<String>,
    places: &[&str],
    drop_ins: &[String],
) -> Result<Vec<String>, ReadError> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for directory in drop_ins {
        for place in places {
            let directory = format!("{place}/{directory}");
            let Some(names) = reader.list(&directory).optional()? else { continue };
            for name in names.into_iter().filter(|name| name.ends_with(".conf")) {
                found.entry(name.clone()).or_insert_with(|| format!("{directory}/{name}"));
            }
        }
    }
    let drop_ins = found.into_values().filter(|path| !leads_nowhere(reader, path));
    Ok(main.into_iter().chain(drop_ins).collect())
}

fn last(
    reader: &dyn Reader,
    files: &[String],
    section: &str,
    key: &str,
) -> Result<Option<Setting>, ReadError> {
    let mut found = None;
    for path in files {
        let Some(bytes) = reader.read(path).optional()? else { continue };
        for value in values(&String::from_utf8_lossy(&bytes), section, key) {
            // An empty value resets earlier ones.
            found = (!value.is_empty())
                .then(|| Setting { value: value.to_owned(), path: path.clone() });
        }
    }
    Ok(found)
}

/// Returns the values of a key in one section of a file, in order.
fn values<'a>(text: &'a str, section: &str, key: &str) -> Vec<&'a str> {
    let mut at = "";
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            at = name;
        } else if at == section
            && let Some((name, value)) = line.split_once('=')
            && name.trim_end() == key
        {
            found.push(value.trim());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_testhosts::fixture::Files;

    #[test]
    fn drop_ins_apply_by_name_and_directory_priority() {
        let unit = "/usr/lib/systemd/system/slurmd.service";
        let files = Files::new(&[
            (unit, "[Unit]\nLimitMEMLOCK=1\n[Service]\nLimitMEMLOCK=infinity\n"),
            ("/etc/systemd/system/slurmd.service.d/b.conf", "[Service]\n LimitMEMLOCK = 64K\n"),
            ("/usr/lib/systemd/system/slurmd.service.d/b.conf", "[Service]\nLimitMEMLOCK=2\n"),
            ("/usr/lib/systemd/system/service.d/a.conf", "[Service]\nLimitMEMLOCK=3\n"),
        ]);
        assert_eq!(service(&files, "slurmd"), Ok(Some(unit.to_owned())));
        let found = of_service(&files, "slurmd", unit, "LimitMEMLOCK").unwrap().unwrap();
        assert_eq!(found.value, "64K");
        assert_eq!(found.path, "/etc/systemd/system/slurmd.service.d/b.conf");
        assert_eq!(of_manager(&files, "DefaultLimitMEMLOCK"), Ok(None));
        let unit = "/etc/systemd/system/k3s-agent.service";
        let cut = "/etc/systemd/system/k3s-.service.d/a.conf";
        let files = Files::new(&[(unit, ""), (cut, "[Service]\nLimitMEMLOCK=1G\n")]);
        let found = of_service(&files, "k3s-agent", unit, "LimitMEMLOCK").unwrap().unwrap();
        assert_eq!(found.path, cut);
    }

    #[test]
    fn service_is_wanted_by_link_or_drop_in_unless_masked() {
        let unit = ("/usr/lib/systemd/system/x.service", "[Service]\n");
        let link = ("/etc/systemd/system/multi-user.target.wants/x.service", "[Service]\n");
        let weak = ("/usr/lib/systemd/system/multi-user.target.wants/x.service", "[Service]\n");
        let mask = ("/etc/systemd/system/multi-user.target.wants/x.service", "");
        let drop_in = (
            "/etc/systemd/system/multi-user.target.d/50.conf",
            "[Unit]\nWants=y.service x.service\n",
        );
        let is_wanted = |files: &[(&str, &str)]| {
            super::is_wanted(&Files::new(files), "x", "multi-user.target").unwrap()
        };
        assert!(is_wanted(&[unit, link]) && is_wanted(&[unit, drop_in]));
        assert!(!is_wanted(&[unit]) && !is_wanted(&[link, drop_in]));
        assert!(is_wanted(&[unit, weak]) && !is_wanted(&[unit, weak, mask]));
    }

    #[test]
    fn empty_value_resets_setting() {
        let main =
            "[Manager]\nDefaultLimitMEMLOCK=1G\nDefaultLimitMEMLOCK=\n#DefaultLimitMEMLOCK=2\n";
        let files = Files::new(&[("/etc/systemd/system.conf", main)]);
        assert_eq!(of_manager(&files, "DefaultLimitMEMLOCK"), Ok(None));
    }
}
