//! Test suite on virtual GPU nodes: checks the kernel's state after bedplate has run. `cargo vm-test [FILTER]`.

mod scenarios;

use std::process::ExitCode;

use bedplate_tests::lab::Case;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One machine at a time: two under software emulation are slower than one after the other.
    arguments.test_threads = Some(1);
    let chosen = match scenarios::chosen() {
        Ok(chosen) => chosen,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let trials = chosen
        .into_iter()
        .map(|scenario| Trial::test(scenario.0, move || Case::run(scenario).map_err(Into::into)))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
