//! Number of cases in property tests: all in CI (`.ci/run` exports [`FULL_VAR`]), a quarter elsewhere.

use proptest::test_runner::Config;

/// Environment variable that enables all cases.
pub const FULL_VAR: &str = "BEDPLATE_FULL_PROPERTIES";

/// Divisor of the number of cases without [`FULL_VAR`].
const LOCAL_DIVISOR: u32 = 4;

/// Configuration of a property with `full` cases. `PROPTEST_CASES` overrides the number.
pub fn config(full: u32) -> Config {
    let default = Config::default();
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => default.cases,
        None if std::env::var_os(FULL_VAR).is_some() => full,
        None => full.div_ceil(LOCAL_DIVISOR),
    };
    Config { cases, ..default }
}
