//! Which arguments are bedplate's own, by the ledger: what goes with the profile that asked for it, and what stays.

use super::{Context, NAME};
use crate::ledger::Ledger;
use bedplate_cmdline::{Edit, Token, fold_name};

/// Arguments of bedplate's own, by the ledger. Texts that cannot be arguments are left out: they were never written.
pub(crate) fn owned(ledger: &Ledger) -> Vec<Token> {
    let texts = ledger.owned.get(&NAME).into_iter().flatten();
    texts.filter_map(|text| Token::new(text).ok()).collect()
}

/// What is bedplate's own and the profile no longer speaks of.
pub(crate) fn disowned(edit: &Edit, context: &Context) -> Vec<Token> {
    let mut disowned = edit.disowned(&owned(context.ledger));
    disowned.retain(|token| !is_kept(&context.desired.cmdline.keep, token.as_str()));
    disowned
}

/// What is bedplate's own afterwards: what is wanted, and what stays although nothing is known about it now.
pub(crate) fn owns(context: &Context) -> Vec<String> {
    let wanted = &context.desired.cmdline;
    let mut earlier = owned(context.ledger);
    earlier.retain(|token| is_kept(&wanted.keep, token.as_str()));
    wanted.set.iter().map(|arg| &arg.token).chain(&earlier).map(Token::to_string).collect()
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
    fn text_that_is_no_argument_is_not_owned() {
        let texts = ["quiet", "\"open", "a b", "", "iommu=pt"].map(str::to_owned).to_vec();
        let ledger = Ledger { owned: [(NAME, texts)].into(), ..Ledger::default() };
        assert_eq!(
            owned(&ledger).iter().map(Token::as_str).collect::<Vec<_>>(),
            ["quiet", "iommu=pt"]
        );
    }

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
