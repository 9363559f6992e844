//! Which checks are asked for: ids, groups and patterns of `--check` and `--skip`.

use glob::Pattern;

use super::{CHECKS, Check};

/// A word that names no check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no check, and no group of checks, is called `{word}`")]
pub struct UnknownCheck {
    /// The word.
    pub word: String,
}

/// Which checks are asked for.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    ids: Option<Vec<&'static str>>,
}

impl Selection {
    /// Those that `check` names, or all, without those that `skip` names.
    ///
    /// # Errors
    /// [`UnknownCheck`]: a word that fits none. A mistyped one must not count as checked.
    pub fn new(check: &[String], skip: &[String]) -> Result<Self, UnknownCheck> {
        if check.is_empty() && skip.is_empty() {
            return Ok(Selection::default());
        }
        let wanted = named(check)?;
        let unwanted = named(skip)?;
        let ids = CHECKS.iter().map(|check| check.id);
        let ids = ids.filter(|id| check.is_empty() || wanted.contains(id));
        Ok(Selection { ids: Some(ids.filter(|id| !unwanted.contains(id)).collect()) })
    }

    /// Whether only some are asked for.
    pub fn is_partial(&self) -> bool {
        self.ids.as_ref().is_some_and(|ids| ids.len() < CHECKS.len())
    }

    /// Whether this one is.
    pub fn has(&self, check: &Check) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(&check.id))
    }
}

/// Ids that the words name.
fn named(words: &[String]) -> Result<Vec<&'static str>, UnknownCheck> {
    let mut ids = Vec::new();
    for word in words {
        let pattern = Pattern::new(word).ok();
        let fits = |check: &&Check| {
            check.group.name() == word
                || pattern.as_ref().map_or(check.id == word, |pattern| pattern.matches(check.id))
        };
        let before = ids.len();
        ids.extend(CHECKS.iter().filter(fits).map(|check| check.id));
        if ids.len() == before {
            return Err(UnknownCheck { word: word.clone() });
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(check: &[&str], skip: &[&str]) -> Result<Vec<&'static str>, String> {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let selection = Selection::new(&own(check), &own(skip)).map_err(|error| error.word)?;
        Ok(CHECKS.iter().filter(|check| selection.has(check)).map(|check| check.id).collect())
    }

    #[test]
    fn ids_groups_and_patterns_select() {
        assert_eq!(selected(&[], &[]).unwrap().len(), CHECKS.len());
        assert_eq!(selected(&["iommu.mode"], &[]).unwrap(), ["iommu.mode"]);
        assert!(selected(&["topology"], &[]).unwrap().contains(&"topology.devices"));
        assert!(selected(&["*.driver"], &[]).unwrap().contains(&"modules.driver"));
        assert!(!selected(&[], &["iommu.*"]).unwrap().contains(&"iommu.mode"));
        assert_eq!(selected(&["iommu"], &["iommu"]).unwrap(), Vec::<&str>::new());
    }

    #[test]
    fn a_mistyped_word_is_no_empty_selection() {
        assert_eq!(selected(&["iomu.mode"], &[]), Err("iomu.mode".to_owned()));
        assert_eq!(selected(&[], &["nothing.*"]), Err("nothing.*".to_owned()));
        assert_eq!(selected(&["["], &[]), Err("[".to_owned()));
    }
}
