//! Categories by which reports list checks.

use bedplate_base::counted_as;
use bedplate_core::verify::{Judged, Verdict};

/// Category of a check in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    Failed,
    Warned,
    Unknown,
    Passed,
    NotApplicable,
    /// Neither passed nor not applicable, and ignored by the profile.
    Ignored,
}

impl Category {
    /// Returns the category of a check.
    pub(crate) fn of(judged: &Judged) -> Self {
        match judged.verdict {
            Verdict::Pass => Category::Passed,
            Verdict::NotApplicable => Category::NotApplicable,
            _ if judged.is_ignored() => Category::Ignored,
            Verdict::Fail => Category::Failed,
            Verdict::Warn => Category::Warned,
            Verdict::Unknown => Category::Unknown,
        }
    }

    /// Label at the start of a line or card.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Category::Failed => "FAIL",
            Category::Warned => "WARN",
            Category::Unknown => "UNKNOWN",
            Category::Passed => "PASS",
            Category::NotApplicable => "N/A",
            Category::Ignored => "IGNORED",
        }
    }

    /// Formats a number of checks: `2 warnings`.
    pub(crate) fn count(self, count: usize) -> String {
        match self {
            Category::Failed => format!("{count} failed"),
            Category::Warned => counted_as(count, "warning", "warnings"),
            Category::Unknown => format!("{count} unknown"),
            Category::Passed => format!("{count} passed"),
            Category::NotApplicable => format!("{count} not applicable"),
            Category::Ignored => format!("{count} ignored by the profile"),
        }
    }

    /// Whether the check needs a fix.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Category::Failed | Category::Warned | Category::Unknown)
    }

    /// Number of checks of this category.
    pub(crate) fn number(self, checks: &[Judged]) -> usize {
        checks.iter().filter(|judged| Category::of(judged) == self).count()
    }
}
