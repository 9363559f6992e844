//! Keys that a kernel argument of a profile owns, for merging. Only this module gets them from [`bedplate_cmdline`].

use bedplate_base::Arch;
use bedplate_cmdline::{Edit, EditError, Key, Token, TokenError};

/// Profiles are merged before any host is known. x86-64 knows every spelling of the other architectures, and `iommu=pt`
/// as well.
const ARCH: Arch = Arch::X86_64;

/// Key that one argument, or one option of it, owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnedOption {
    /// Parameter. `iommu=pt` and `iommu.passthrough=1` share one.
    pub param: String,
    /// Same as `param`, or the option within it (`pci=realloc`).
    pub key: String,
    /// Token that sets only this key.
    pub token: Token,
}

/// Diagnostic for an entry of the profile that is not an argument.
pub(super) struct BadArgument {
    /// Title of the diagnostic.
    pub message: String,
    /// Label below the entry.
    pub label: &'static str,
    /// Optional advice.
    pub help: Option<String>,
}

impl From<TokenError> for BadArgument {
    fn from(error: TokenError) -> Self {
        let (label, help) = match &error {
            TokenError::SeveralArguments(text) => {
                let each: Vec<String> =
                    text.split_whitespace().map(|word| format!("\"{word}\"")).collect();
                ("more than one", Some(format!("list them separately: {}", each.join(", "))))
            }
            _ => ("not a kernel argument", None),
        };
        BadArgument { message: error.to_string(), label, help }
    }
}

impl From<EditError> for BadArgument {
    fn from(error: EditError) -> Self {
        BadArgument { message: error.to_string(), label: "not manageable", help: None }
    }
}

/// Splits an argument by the keys that it owns: `pci=realloc=off,noats` has two.
///
/// # Errors
/// [`BadArgument`] if the argument has no option, or an option is not an argument by itself.
pub(super) fn owned(token: &Token) -> Result<Vec<OwnedOption>, BadArgument> {
    let keys = keys(token)?;
    if let [key] = keys.as_slice() {
        return Ok(vec![owned_token(key, token)]);
    }
    let value = token.value().unwrap_or_default();
    let mut out = Vec::new();
    for option in value.split(',').filter(|option| !option.is_empty()) {
        let one = Token::from_parts(&token.name(), Some(option))?;
        out.extend(self::keys(&one)?.iter().map(|key| owned_token(key, &one)));
    }
    if out.is_empty() {
        return Err(EditError::NoOption { text: token.to_string() }.into());
    }
    Ok(out)
}

/// Returns the parameter that a bare name in `absent` clears, or the keys of a `name=value`.
///
/// # Errors
/// [`BadArgument`] as for [`owned`].
pub(super) fn unwanted(token: &Token) -> Result<UnwantedEntry, BadArgument> {
    let nothing: [Token; 0] = [];
    Edit::new(ARCH, nothing)?.without([token])?;
    let text = token.as_str();
    match text.contains('=') {
        false => Ok(UnwantedEntry::Whole(param_of(&Key::Param(bedplate_cmdline::fold_name(text))))),
        true => owned(token).map(UnwantedEntry::Parts),
    }
}

/// Target of an entry of `absent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnwantedEntry {
    /// A parameter with any value.
    Whole(String),
    /// Single values or options of a parameter.
    Parts(Vec<OwnedOption>),
}

/// Checks that the arguments of one file, or of the merged profile, do not contradict each other.
///
/// # Errors
/// [`EditError`] names the two entries that contradict each other.
pub(super) fn check_consistency<T: AsRef<Token>>(
    args: impl IntoIterator<Item = T>,
    absent: impl IntoIterator<Item = T>,
) -> Result<(), EditError> {
    Edit::new(ARCH, args)?.without(absent).map(|_| ())
}

fn keys(token: &Token) -> Result<Vec<Key>, EditError> {
    let edit = Edit::new(ARCH, [token])?;
    Ok(edit.wanted().iter().map(|wanted| wanted.key().clone()).collect())
}

fn owned_token(key: &Key, token: &Token) -> OwnedOption {
    let param = param_of(key);
    let key = match key {
        Key::Param(_) | Key::Sequence(_) | Key::Units { .. } => param.clone(),
        Key::Option { .. } | Key::Item { .. } => key.to_string(),
    };
    OwnedOption { param, key, token: token.clone() }
}

fn param_of(key: &Key) -> String {
    match key {
        // `absent = ["hugepages"]` covers the sequence of sizes and counts.
        Key::Param(name) if name == "hugepages" => "hugepagesz".to_owned(),
        Key::Param(name) => name.clone(),
        Key::Option { param, .. } | Key::Item { param, .. } | Key::Units { param, .. } => {
            param.clone()
        }
        Key::Sequence(params) => params.first().cloned().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(text: &'static str) -> Vec<OwnedOption> {
        super::owned(&Token::from_static(text)).ok().unwrap()
    }

    fn keys_of(text: &'static str) -> Vec<String> {
        owned(text).into_iter().map(|owned| owned.key).collect()
    }

    #[test]
    fn option_lists_are_split_and_other_values_are_not() {
        assert_eq!(keys_of("pci=realloc=off,noats"), ["pci=realloc", "pci=noats"]);
        assert_eq!(owned("pci=realloc=off,noats")[0].token, "pci=realloc=off");
        assert_eq!(keys_of("isolcpus=1,2,3"), ["isolcpus"]);
        assert_eq!(
            keys_of("modprobe.blacklist=a,b"),
            ["modprobe.blacklist=a", "modprobe.blacklist=b"]
        );
    }

    #[test]
    fn passthrough_spellings_own_the_same_key() {
        assert_eq!(keys_of("iommu=pt"), keys_of("iommu.passthrough=0"));
        assert_eq!(keys_of("intel-iommu=on"), keys_of("intel_iommu=off"));
    }

    #[test]
    fn page_sizes_and_counts_share_a_parameter() {
        let param = |text| owned(text)[0].param.clone();
        assert_eq!(param("hugepages=4"), param("hugepagesz=1G"));
        assert_ne!(param("hugepages=4"), param("default_hugepagesz=1G"));
        let unwanted = unwanted(&Token::from_static("hugepages")).ok();
        assert_eq!(unwanted, Some(UnwantedEntry::Whole("hugepagesz".into())));
    }
}
