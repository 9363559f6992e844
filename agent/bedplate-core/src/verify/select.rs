//! Selection of checks: ids, groups and patterns of `--check` and `--skip`.

use glob::Pattern;

use super::{CHECKS, Check, Stage};

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
    #[error("no check is left after applying --check, --skip and --stage")]
    Nothing,
}

/// Selected checks.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    ids: Option<Vec<&'static str>>,
    stage: Stage,
}

impl Selection {
    /// Selects all checks of a stage.
    pub fn of_stage(stage: Stage) -> Self {
        Selection { ids: None, stage }
    }

    /// Selects the checks of a stage that `check` names, or all, except those that `skip` names.
    ///
    /// # Errors
    /// [`SelectError`]. A mistyped word must not count as checked.
    pub fn new(check: &[String], skip: &[String], stage: Stage) -> Result<Self, SelectError> {
        if check.is_empty() && skip.is_empty() {
            return Ok(Selection::of_stage(stage));
        }
        let wanted = named(check)?;
        let unwanted = named(skip)?;
        let ids = CHECKS.iter().filter(|one| stage.has_check(one)).map(|check| check.id);
        let ids = ids.filter(|id| check.is_empty() || wanted.contains(id));
        let ids: Vec<&str> = ids.filter(|id| !unwanted.contains(id)).collect();
        match ids.is_empty() {
            true => Err(SelectError::Nothing),
            false => Ok(Selection { ids: Some(ids), stage }),
        }
    }

    /// Returns the stage.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether some checks of the stage are left out.
    pub fn is_partial(&self) -> bool {
        CHECKS.iter().any(|check| self.stage.has_check(check) && !self.has(check))
    }

    /// Whether this check is selected.
    pub fn has(&self, check: &Check) -> bool {
        self.stage.has_check(check) && self.ids.as_ref().is_none_or(|ids| ids.contains(&check.id))
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
        let selection = Selection::new(&own(check), &own(skip), Stage::default())
            .map_err(|error| error.to_string())?;
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
    fn stage_limits_the_selection() {
        let all = Selection::new(&[], &[], Stage::Host).unwrap();
        let has = |id: &str| all.has(super::super::find(id).unwrap());
        assert!(has("iommu.mode") && has("profile.in-effect") && !has("modules.driver"));
        assert!(!all.is_partial());
        let check = ["modules".to_owned()];
        assert_eq!(Selection::new(&check, &[], Stage::Host).err(), Some(SelectError::Nothing));
        let skip = ["iommu".to_owned()];
        assert!(Selection::new(&[], &skip, Stage::Host).unwrap().is_partial());
    }

    #[test]
    fn empty_selection_is_an_error() {
        for (check, skip) in [(&["iommu"][..], &["iommu"][..]), (&[], &["*"])] {
            let error = selected(check, skip).expect_err("an empty selection");
            assert!(error.starts_with("no check is left"), "{error}");
        }
    }
}
