//! How many cases property tests run: all of them in CI (`.ci/run` exports [`FULL_VAR`]), a quarter elsewhere.

use proptest::test_runner::Config;

/// Environment variable that asks for every case.
pub const FULL_VAR: &str = "BEDPLATE_FULL_PROPERTIES";

/// Divisor of the number of cases without [`FULL_VAR`].
const LOCAL_DIVISOR: u32 = 4;

/// The configuration of a property that is to hold in `full` cases. `PROPTEST_CASES` names another number.
pub fn config(full: u32) -> Config {
    let default = Config::default();
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => default.cases,
        None if std::env::var_os(FULL_VAR).is_some() => full,
        None => full.div_ceil(LOCAL_DIVISOR),
    };
    Config { cases, ..default }
}
