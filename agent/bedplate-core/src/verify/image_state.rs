//! State of images in addition to their plan.

use bedplate_base::Reading;

/// State of an image in addition to its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageState {
    /// Files of an interrupted change.
    pub unfinished: Vec<String>,
    /// Tools that the image build still has to run.
    pub owed: Vec<String>,
    /// Whether bedplate on the machine has this profile; `Absent` if it needs none.
    pub has_profile: Reading<bool>,
    /// Units that the profile needs on the machine and that no boot starts.
    pub disabled: Reading<Vec<String>>,
    /// Settings that files of other tools override at boot, each with its file.
    pub overridden: Vec<String>,
    /// Whether the profile lets bedplate make changes on the machine.
    pub may_enforce: bool,
}
