//! Texts of bedplate's two module files, `modules-load.d/bedplate.conf` and `modprobe.d/zz-bedplate.conf`. Pure:
//! resource type `modules` writes them to hosts, `render` exports them for other tools; both must get the same bytes.

use std::fmt::Write as _;

use crate::desired::{DesiredModules, WantedModule};
use crate::file_heading::{header, reasons};

/// Modules to load at boot, one name per line (modules-load.d(5); handbook §9).
pub(crate) const MODULES_LOAD_PATH: &str = "/etc/modules-load.d/bedplate.conf";

/// Options and blacklist (modprobe.d(5); handbook §9). Sorts last: of two values for one option, the later file's
/// applies.
pub const MODPROBE_PATH: &str = "/etc/modprobe.d/zz-bedplate.conf";

/// A module option that modprobe.d cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot write option `{parameter}={value}` of module {module} to modprobe.d: {reason}; change it in \
     [modules.options.{module}]"
)]
pub(crate) struct BadOption {
    /// Name of the module.
    pub module: String,
    /// Name of the parameter.
    pub parameter: String,
    /// Value as given.
    pub value: String,
    /// Fault.
    pub reason: &'static str,
}

/// Returns the content of [`MODULES_LOAD_PATH`]; `None` if there is no module to load.
pub(crate) fn modules_load(modules: &DesiredModules, profile: &str) -> Option<String> {
    if modules.load.is_empty() {
        return None;
    }
    let mut text = header("#", profile);
    for WantedModule { name, why, .. } in &modules.load {
        let _ = write!(text, "\n{}{name}\n", reasons("#", why));
    }
    Some(text)
}

/// Returns the content of [`MODPROBE_PATH`]; `None` if there is neither an option nor a blacklisted module.
///
/// `blacklist` only stops loading by alias; a module that is named explicitly still loads (handbook §9).
///
/// # Errors
/// [`BadOption`] for a parameter name or value that would end the line, or change its meaning.
pub(crate) fn modprobe(
    modules: &DesiredModules,
    profile: &str,
) -> Result<Option<String>, BadOption> {
    if modules.options.is_empty() && modules.blacklist.is_empty() {
        return Ok(None);
    }
    let mut text = header("#", profile);
    // Options of one module add up over lines (handbook §9), so each can have its own line below its reason.
    for option in &modules.options {
        let (module, parameter, value) = (&option.module, &option.parameter, &option.value);
        if let Some(reason) = option_fault(parameter, value) {
            let (module, parameter, value) = (module.to_string(), parameter.clone(), value.clone());
            return Err(BadOption { module, parameter, value, reason });
        }
        let _ =
            write!(text, "\n{}options {module} {parameter}={value}\n", reasons("#", &option.why));
    }
    for WantedModule { name, why, .. } in &modules.blacklist {
        let _ = write!(text, "\n{}blacklist {name}\n", reasons("#", why));
    }
    Ok(Some(text))
}

/// Returns why modprobe.d cannot express `parameter=value`. libkmod passes the rest of an `options` line to the kernel,
/// which splits it at blanks outside double quotes (handbook §1.1).
fn option_fault(parameter: &str, value: &str) -> Option<&'static str> {
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if parameter.is_empty() || !parameter.chars().all(named) {
        return Some("a parameter name has only letters, digits, `_` and `-`");
    }
    if value.chars().any(char::is_control) {
        return Some("the value contains a control character");
    }
    if value.ends_with('\\') {
        return Some("a backslash at the end of a line joins the next line to it");
    }
    let mut quoted = false;
    for c in value.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                return Some("a blank outside double quotes ends the value");
            }
            _ => {}
        }
    }
    quoted.then_some("a double quote is never closed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::ModuleLoad;
    use crate::desired::WantedOption;
    use crate::plan::Rationale;

    fn modules() -> DesiredModules {
        let load = |name: &str, why| WantedModule {
            name: name.parse().unwrap(),
            load: ModuleLoad::Now,
            why,
        };
        let option = |parameter: &str, value: &str, why| WantedOption {
            module: "nvidia".parse().unwrap(),
            parameter: parameter.to_owned(),
            value: value.to_owned(),
            why,
        };
        DesiredModules {
            load: vec![
                load("ib-uverbs", vec![Rationale::new("verbs for user space", "handbook §5.3")]),
                load("nvidia_peermem", vec![Rationale::because("no DMA-BUF here")]),
            ],
            options: vec![
                option(
                    "NVreg_EnableStreamMemOPs",
                    "1",
                    vec![Rationale::because("ends in a backslash \\")],
                ),
                option(
                    "NVreg_RegistryDwords",
                    "\"A=1; B=2\"",
                    vec![Rationale::new("two\nlines", "p.toml:7")],
                ),
            ],
            blacklist: vec![load("nouveau", vec![Rationale::because("takes the GPU")])],
            unload: Vec::new(),
        }
    }

    #[test]
    fn modules_load_lists_modules_below_their_reasons() {
        assert_eq!(
            modules_load(&modules(), "hgx").unwrap(),
            "# written by bedplate from profile hgx; changes made here are overwritten\n\
             \n# verbs for user space [handbook §5.3]\nib_uverbs\n\
             \n# no DMA-BUF here\nnvidia_peermem\n"
        );
        assert_eq!(modules_load(&DesiredModules::default(), "hgx"), None);
    }

    #[test]
    fn modprobe_lists_options_then_blacklist() {
        assert_eq!(
            modprobe(&modules(), "hgx").unwrap().unwrap(),
            "# written by bedplate from profile hgx; changes made here are overwritten\n\
             \n# ends in a backslash \\.\noptions nvidia NVreg_EnableStreamMemOPs=1\n\
             \n# two lines [p.toml:7]\noptions nvidia NVreg_RegistryDwords=\"A=1; B=2\"\n\
             \n# takes the GPU\nblacklist nouveau\n"
        );
        assert_eq!(modprobe(&DesiredModules::default(), "hgx").unwrap(), None);
    }

    #[test]
    fn ambiguous_options_are_rejected() {
        for (parameter, value) in [
            ("x", "1\ninstall nvidia /bin/false"),
            ("x", "1 y=2"),
            ("x", "\"open"),
            ("x", "1\\"),
            ("x y", "1"),
            ("", "1"),
        ] {
            let mut wanted = modules();
            wanted.options[0].parameter = parameter.to_owned();
            wanted.options[0].value = value.to_owned();
            let error = modprobe(&wanted, "hgx").unwrap_err();
            assert_eq!((error.parameter.as_str(), error.value.as_str()), (parameter, value));
            assert!(error.to_string().contains("[modules.options.nvidia]"), "{error}");
        }
    }

    #[test]
    fn profile_name_stays_in_the_header() {
        assert_eq!(header("#", "a\nrm -rf /").lines().count(), 1);
    }
}
