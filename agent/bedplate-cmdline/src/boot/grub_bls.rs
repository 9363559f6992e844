//! Variables of a `grub.cfg` at its `blscfg` command, where entry files use them in their options.

use super::NotUnderstood;
use super::grub_files::GrubFiles;
use super::grub_run::{ItemKind, Run};
use super::grub_script::parse;
use super::grub_vars::State;

/// Returns the value of a variable when GRUB reads the entry files. An unset variable is empty. `None` if only the
/// machine knows the value.
///
/// # Errors
/// [`NotUnderstood`] if the script cannot be followed or reads no entry files.
pub fn value_at_blscfg(
    cfg: &str,
    around: &GrubFiles<'_>,
    name: &str,
) -> Result<Option<String>, NotUnderstood> {
    let mut run = Run::new(cfg, around, State::default());
    run.commands(&parse(cfg)?)?;
    let mut values = run.items.iter().filter_map(|item| match &item.kind {
        ItemKind::Bls(state) => Some(state.get(name)),
        ItemKind::Entry(_) | ItemKind::Submenu(_) => None,
    });
    let first = values.next().ok_or_else(|| {
        NotUnderstood::at(cfg, 0, "this configuration does not read the boot entry files")
    })?;
    Ok(if values.all(|other| other == first) { first } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::grubenv::Grubenv;

    fn value(cfg: &str, env: &str) -> Result<Option<String>, NotUnderstood> {
        let env = Grubenv::parse(&format!("{:#<1024}", format!("# GRUB Environment Block\n{env}")));
        let env = env.expect("a block");
        let around = GrubFiles { grubenv: Some(&env), files: &["grubenv"], ..GrubFiles::default() };
        value_at_blscfg(cfg, &around, "kernelopts")
    }

    #[test]
    fn fallback_applies_if_environment_lacks_variable() {
        let cfg = "load_env\nif [ -z \"${kernelopts}\" ]; then\n  set kernelopts=\"root=/dev/r ro\"\nfi\nblscfg\n";
        assert_eq!(value(cfg, ""), Ok(Some("root=/dev/r ro".to_owned())));
        assert_eq!(value(cfg, "kernelopts=root=/dev/s\n"), Ok(Some("root=/dev/s".to_owned())));
        assert_eq!(value("load_env\nblscfg\n", ""), Ok(Some(String::new())));
    }

    #[test]
    fn machine_dependent_value_is_unknown() {
        let cfg = "if [ x$grub_platform = xefi ]; then set kernelopts=a; fi\nblscfg\n";
        assert_eq!(value(cfg, ""), Ok(None));
        assert!(value("set default=0\n", "").is_err(), "no entry files are read");
    }
}
