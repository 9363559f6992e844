//! Which arguments are bedplate's own, by the ledger: what goes with the profile that asked for it, and what stays.

use super::{Context, NAME};
use crate::desired::DesiredCmdline;
use bedplate_cmdline::{Edit, fold_name};

/// What the ledger calls bedplate's own.
fn earlier<'a>(context: &'a Context) -> &'a [String] {
    context.ledger.owned.get(&NAME).map(Vec::as_slice).unwrap_or_default()
}

/// What is bedplate's own and the profile no longer speaks of.
pub(crate) fn disowned(edit: &Edit, context: &Context, keep: &[String]) -> Vec<String> {
    let disowned = edit.disowned(earlier(context));
    disowned.into_iter().filter(|token| !is_kept(keep, token)).collect()
}

/// What is bedplate's own afterwards: what is wanted, and what stays although nothing is known about it now.
pub(crate) fn owns(wanted: &DesiredCmdline, context: &Context) -> Vec<String> {
    let mut own: Vec<String> = wanted.set.iter().map(|arg| arg.token.clone()).collect();
    own.extend(earlier(context).iter().filter(|token| is_kept(&wanted.keep, token)).cloned());
    own
}

/// Whether an argument has one of these names, or is one of these options (`pci=disable_acs_redir`).
fn is_kept(keep: &[String], token: &str) -> bool {
    let token = fold_name(token);
    keep.iter().any(|key| {
        token
            .strip_prefix(&fold_name(key))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_the_name_and_not_only_its_beginning() {
        let keep = ["iommu", "iommu.passthrough", "pci=disable_acs_redir"].map(str::to_owned);
        for kept in
            ["iommu", "iommu=pt", "iommu.passthrough=1", "pci=disable-acs-redir=0000:15:01.0"]
        {
            assert!(is_kept(&keep, kept), "{kept}");
        }
        for other in ["iommu.strict=1", "iommufd.x=1", "pci=realloc", "pci=disable_acs_redirx"] {
            assert!(!is_kept(&keep, other), "{other}");
        }
    }
}
