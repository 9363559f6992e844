//! Selection of checks: ids, groups and patterns of `--check` and `--skip`.

use glob::Pattern;

use super::{CHECKS, Check};

/// Why a selection is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A word that names no check.
    #[error("no check or group is named `{word}`")]
    Unknown {
        /// The word.
        word: String,
    },
    /// No check is left: a host without checks would count as ready.
    #[error("no check is left after applying --check and --skip")]
    Nothing,
}

/// Selected checks.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    ids: Option<Vec<&'static str>>,
}

impl Selection {
    /// Selects the checks that `check` names, or all, except those that `skip` names.
    ///
    /// # Errors
    /// [`SelectError`]. A mistyped word must not count as checked.
    pub fn new(check: &[String], skip: &[String]) -> Result<Self, SelectError> {
        if check.is_empty() && skip.is_empty() {
            return Ok(Selection::default());
        }
        let wanted = named(check)?;
        let unwanted = named(skip)?;
        let ids = CHECKS.iter().map(|check| check.id);
        let ids = ids.filter(|id| check.is_empty() || wanted.contains(id));
        let ids: Vec<&str> = ids.filter(|id| !unwanted.contains(id)).collect();
        match ids.is_empty() {
            true => Err(SelectError::Nothing),
            false => Ok(Selection { ids: Some(ids) }),
        }
    }

    /// Whether some checks are left out.
    pub fn is_partial(&self) -> bool {
        self.ids.as_ref().is_some_and(|ids| ids.len() < CHECKS.len())
    }

    /// Whether this check is selected.
    pub fn has(&self, check: &Check) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(&check.id))
    }
}

/// Returns the ids that the words name.
fn named(words: &[String]) -> Result<Vec<&'static str>, SelectError> {
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
            return Err(SelectError::Unknown { word: word.clone() });
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(check: &[&str], skip: &[&str]) -> Result<Vec<&'static str>, String> {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let selection =
            Selection::new(&own(check), &own(skip)).map_err(|error| error.to_string())?;
        Ok(CHECKS.iter().filter(|check| selection.has(check)).map(|check| check.id).collect())
    }

    #[test]
    fn checks_are_selected_by_id_group_and_pattern() {
        assert_eq!(selected(&[], &[]).unwrap().len(), CHECKS.len());
        assert_eq!(selected(&["iommu.mode"], &[]).unwrap(), ["iommu.mode"]);
        assert!(selected(&["topology"], &[]).unwrap().contains(&"topology.devices"));
        assert!(selected(&["*.driver"], &[]).unwrap().contains(&"modules.driver"));
        assert!(!selected(&[], &["iommu.*"]).unwrap().contains(&"iommu.mode"));
    }

    #[test]
    fn mistyped_word_is_an_error() {
        for (check, skip, word) in [
            (&["iomu.mode"][..], &[][..], "iomu.mode"),
            (&[], &["nothing.*"], "nothing.*"),
            (&["["], &[], "["),
        ] {
            let error = selected(check, skip).expect_err("a mistyped word");
            assert!(error.ends_with(&format!("`{word}`")), "{error}");
        }
    }

    #[test]
    fn empty_selection_is_an_error() {
        for (check, skip) in [(&["iommu"][..], &["iommu"][..]), (&[], &["*"])] {
            let error = selected(check, skip).expect_err("an empty selection");
            assert!(error.starts_with("no check is left"), "{error}");
        }
    }
}
