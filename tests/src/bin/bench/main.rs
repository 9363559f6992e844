//! Measures how long bedplate takes to read a machine, compared with the tools in common use.
//!
//! Run it with
//!
//! ```text
//! cargo build --release && cargo run --release -p bedplate-tests --bin bench [-- --runs N]
//! ```
//!
//! It builds two machines with the demo builder, an HGX node and one of more than 10,000 functions, as files in a
//! temporary directory (on tmpfs if /dev/shm exists). `bedplate plan`, `inspect --json`, `verify` and `topology`,
//! `lspci -vvv` and a loop of `setpci` over all bridges then read them. To make them the running machine for bedplate,
//! the benchmark restarts itself in a mount namespace in which their `/sys` covers the real one (unshare -rm). If that
//! is not allowed, it reports this and measures only commands that can read an image root. Whole processes are timed
//! one after another in rounds, so that a slow moment of the machine affects all of them; the first round is discarded.
//! strace counts system calls, processes and config-space reads in separate runs; GNU time measures peak memory.
//!
//! Finally it reads an NCCL log of one gigabyte, compared with `grep -c`.
//!
//! Limits of the numbers: files on tmpfs respond at once, registers do not. A config-space dword takes about 1 µs on
//! hardware and 10 µs or more in a VM, so dwords matter more than milliseconds.
//!
//! Prints numbers and ratios, without a verdict. Needs lspci, setpci, strace, GNU time and a release build of bedplate.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program whose output is its purpose"
)]

mod log;
mod machine;
mod measure;
mod programs;
mod table;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use bedplate_testhosts::HostSpec;

use machine::Machine;

/// Functions of the huge machine.
const HUGE: usize = 10_000;
/// Default number of rounds.
const RUNS: usize = 11;

type Fallible<T> = Result<T, Box<dyn Error>>;

/// Marks a process inside the private namespace.
const INSIDE: &str = "BEDPLATE_BENCH_INSIDE";

fn main() -> ExitCode {
    match in_a_namespace().unwrap_or_else(bench) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the benchmark in a private mount namespace. `None`: already inside, or namespaces are not available.
fn in_a_namespace() -> Option<Fallible<()>> {
    let quiet =
        |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if std::env::var_os(INSIDE).is_some()
        || !quiet(Command::new("unshare").args(["-rm", "true"]))
            .is_ok_and(|status| status.success())
    {
        return None;
    }
    let run = || {
        let mut inside = Command::new("unshare");
        inside.arg("-rm").arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
        match inside.env(INSIDE, "1").status()?.success() {
            true => Ok(()),
            false => Err("it failed inside of its namespace".into()),
        }
    };
    Some(run())
}

fn bench() -> Fallible<()> {
    let live = std::env::var_os(INSIDE).is_some();
    if !live {
        println!("no mount namespace here (unshare -rm): only image roots are measured");
    }
    let runs = runs()?;
    let bedplate = tools()?;
    let shm = Path::new("/dev/shm");
    let on_tmpfs = shm.is_dir();
    let directory = if on_tmpfs { tempfile::tempdir_in(shm)? } else { tempfile::tempdir()? };
    println!(
        "{runs} rounds each, in {} ({})",
        directory.path().display(),
        if on_tmpfs { "tmpfs" } else { "no /dev/shm: a file system that may be slower" }
    );
    let hgx = HostSpec::default();
    let huge = HostSpec { functions: HUGE, ..HostSpec::default() };
    let mut tables = Vec::new();
    for (name, spec) in [("hgx", hgx), ("huge", huge)] {
        let machine = Machine::make(name, &spec, directory.path())?;
        if live {
            machine.become_the_running_one()?;
        }
        let programs = programs::programs(&bedplate, &machine, live);
        let rows = measure::measure(&machine, &programs, runs, directory.path())?;
        table::print(&machine, &programs, &rows);
        tables.push((machine.functions, rows));
    }
    if let [(small, hgx), (large, huge)] = &tables[..] {
        table::linearity(*small, hgx, *large, huge);
    }
    log::measure(&bedplate, runs, directory.path())?;
    Ok(())
}

/// Parses `--runs N`.
fn runs() -> Fallible<usize> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => Ok(RUNS),
        [flag, number] if flag == "--runs" => match number.parse() {
            Ok(runs @ 1..) => Ok(runs),
            _ => Err(format!("--runs wants a number from 1, not {number:?}").into()),
        },
        _ => Err("usage: bench [--runs N]".into()),
    }
}

/// Checks that all tools are installed; returns the bedplate built next to this program.
fn tools() -> Fallible<PathBuf> {
    for (tool, package, version) in [
        ("lspci", "pciutils", "--version"),
        ("setpci", "pciutils", "--version"),
        ("strace", "strace", "--version"),
        ("time", "time (GNU time)", "--version"),
    ] {
        let found =
            Command::new(tool).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.map_err(|error| format!("{tool} cannot be started ({error}): install {package}"))?;
    }
    let bedplate = std::env::current_exe()?.with_file_name("bedplate");
    if !bedplate.is_file() {
        return Err(
            format!("{} is not there: run cargo build --release", bedplate.display()).into()
        );
    }
    Ok(bedplate)
}
