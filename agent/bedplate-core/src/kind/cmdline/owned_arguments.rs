//! Arguments that bedplate owns by the ledger: which of them to remove when the profile drops them, and which stay.

use super::{Context, NAME};
use crate::ledger::Ledger;
use bedplate_cmdline::{Edit, Token, fold_name};

/// Returns the arguments that bedplate owns by the ledger. Omits texts that cannot be arguments: they were never
/// written.
pub(crate) fn owned(ledger: &Ledger) -> Vec<Token> {
    let texts = ledger.owned.get(&NAME).into_iter().flatten();
    texts.filter_map(|text| Token::new(text).ok()).collect()
}

/// Returns the owned arguments that the profile no longer mentions, except those to keep.
pub(crate) fn disowned(edit: &Edit, context: &Context) -> Vec<Token> {
    let mut disowned = edit.disowned(&owned(context.ledger));
    disowned.retain(|token| !is_kept(&context.desired.cmdline.keep, token.as_str()));
    disowned
}

/// Returns the arguments that bedplate owns after the change: the desired ones, and earlier ones to keep.
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
    fn invalid_argument_is_not_owned() {
        let texts = ["quiet", "\"open", "a b", "", "iommu=pt"].map(str::to_owned).to_vec();
        let ledger = Ledger { owned: [(NAME, texts)].into(), ..Ledger::default() };
        assert_eq!(
            owned(&ledger).iter().map(Token::as_str).collect::<Vec<_>>(),
            ["quiet", "iommu=pt"]
        );
    }

    #[test]
    fn kept_argument_matches_the_whole_name() {
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
