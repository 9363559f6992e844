//! What is tested, one file a subject. A scenario asserts what the guest's kernel and tools say, not what bedplate says.

mod guest;
mod provision;

use bedplate_tests::lab::Scenario;

/// Every scenario, in the order in which they run.
pub fn all() -> Vec<Scenario> {
    [provision::SCENARIOS].concat()
}
