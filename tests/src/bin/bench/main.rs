//! How long bedplate takes to read a machine, beside the programs people use for it now.
//!
//! Run it with
//!
//! ```text
//! cargo build --release && cargo run --release -p bedplate-tests --bin bench [-- --runs N]
//! ```
//!
//! It makes two machines out of the demo builder, an HGX node and one of more than 10,000 functions, as files in a
//! temporary directory (on tmpfs if /dev/shm is there), and lets `bedplate plan`, `bedplate inspect --json`,
//! `lspci -vvv` and a loop of `setpci` over all bridges read them. Whole processes are timed, one after the other in
//! rounds so that a slow moment of the machine hits all of them; the first round is not counted. System calls, processes
//! and config-space reads are counted by strace in runs of their own; peak memory is what GNU time says.
//!
//! What the numbers cannot say: files on tmpfs answer at once, registers do not. A config-space dword takes about
//! 1 µs on hardware and 10 or more in a virtual machine, so look at the dwords before the milliseconds.
//!
//! It prints numbers and ratios, no verdict. Needs lspci, setpci, strace, GNU time and a release build of bedplate.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program whose output is its purpose"
)]

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use bedplate::demo::{HostSpec, write_tree};

/// Bridges that the setpci loop reads on the huge machine: each setpci goes through the whole list of functions first.
const SAMPLE: usize = 20;
/// Functions of the huge machine.
const HUGE: usize = 10_000;
/// Rounds unless told otherwise.
const RUNS: usize = 11;

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Fallible<()> {
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
        let programs = programs(&bedplate, &machine);
        let rows = measure(&machine, &programs, runs, directory.path())?;
        print(&machine, &programs, &rows);
        tables.push((machine.functions, rows));
    }
    if let [(small, hgx), (large, huge)] = &tables[..] {
        linearity(*small, hgx, *large, huge);
    }
    Ok(())
}

/// `--runs N`.
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

/// Checks that everything needed is there; returns the bedplate that was built beside this program.
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

/// A made-up machine on disk.
struct Machine {
    name: &'static str,
    root: PathBuf,
    functions: usize,
    bridges: Vec<String>,
}

impl Machine {
    fn make(name: &'static str, spec: &HostSpec, directory: &Path) -> Fallible<Self> {
        let root = directory.join(name);
        fs::create_dir(&root)?;
        let host = spec.build();
        write_tree(&host, &root)?;
        // `topology` takes no root directory: its rows are of a recording, which it reads whole.
        fs::write(root.with_extension("bp"), host.to_text())?;
        let mut machine = Machine { name, root, functions: 0, bridges: Vec::new() };
        machine.functions = fs::read_dir(format!("{}/devices", machine.pci()))?.count();
        let bridges = Command::new("sh").args(["-c", &machine.list_bridges()]).output()?;
        machine.bridges = String::from_utf8(bridges.stdout)?.lines().map(str::to_owned).collect();
        if machine.functions == 0 || machine.bridges.is_empty() {
            return Err(format!("lspci finds no bridge on the made-up machine {name}").into());
        }
        Ok(machine)
    }

    /// Where pciutils shall look, without blanks or quotes: it is in a directory that we named.
    fn pci(&self) -> String {
        format!("{}/sys/bus/pci", self.root.display())
    }

    fn list_bridges(&self) -> String {
        format!("lspci -A linux-sysfs -O sysfs.path={} -D -n -d ::0604 | cut -d' ' -f1", self.pci())
    }
}

/// Something to measure.
struct Program {
    name: &'static str,
    argv: Vec<String>,
    /// Its work is this many times what was run (1 = all of it).
    scale: f64,
    note: String,
}

fn programs(bedplate: &Path, machine: &Machine) -> Vec<Program> {
    let root = machine.root.display().to_string();
    let bedplate = bedplate.display().to_string();
    let owned =
        |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let path = format!("sysfs.path={}", machine.pci());
    let whole = |name, argv| Program { name, argv, scale: 1.0, note: String::new() };
    let all = machine.bridges.len();
    let (list, scale, note) = if machine.functions < HUGE {
        (
            format!("$({})", machine.list_bridges()),
            1.0,
            format!("lists the bridges with lspci, reads all {all}"),
        )
    } else {
        let sample: Vec<&str> = machine.bridges.iter().take(SAMPLE).map(String::as_str).collect();
        let read = sample.len();
        let note =
            format!("reads {read} of {all} bridges, numbers scaled up; listing them is left out");
        (sample.join(" "), all as f64 / read as f64, note)
    };
    // A bridge without ACS makes setpci fail; such loops take no notice.
    let script = format!(
        "for bridge in {list}; do \
         setpci -A linux-sysfs -O {path} -s $bridge ECAP_ACS+6.w 2>/dev/null; done; true"
    );
    vec![
        whole("lspci -vvv", owned(&["lspci", "-A", "linux-sysfs", "-O", &path, "-vvv"])),
        whole(
            "bedplate plan",
            owned(&[&bedplate, "plan", "--root", &root, "--profile", "hgx-h100", "--cost"]),
        ),
        whole(
            "bedplate inspect --json",
            owned(&[&bedplate, "inspect", "--root", &root, "--json", "--cost"]),
        ),
        whole(
            "bedplate topology --json",
            owned(&[
                &bedplate,
                "topology",
                "--snapshot",
                &format!("{root}.bp"),
                "--json",
                "--cost",
            ]),
        ),
        Program { name: "setpci loop", argv: owned(&["sh", "-c", &script]), scale, note },
    ]
}

/// What was found out about one program.
struct Row {
    name: &'static str,
    /// Sorted.
    times: Vec<Duration>,
    median: Duration,
    scale: f64,
    rss_kib: u64,
    traced: Traced,
    /// What the program itself says it cost (`--cost`).
    own: Option<String>,
}

impl Row {
    /// Median for the whole work, in milliseconds.
    fn ms(&self) -> f64 {
        self.median.as_secs_f64() * 1e3 * self.scale
    }
}

/// What strace saw.
struct Traced {
    /// System calls.
    calls: u64,
    /// Bytes read from config files, in fours.
    config_dwords: u64,
    /// Programs started, the first included.
    processes: u64,
}

fn measure(
    machine: &Machine,
    programs: &[Program],
    runs: usize,
    scratch: &Path,
) -> Fallible<Vec<Row>> {
    let mut rows = Vec::new();
    for program in programs {
        eprintln!("{}: counting {}", machine.name, program.name);
        let traced = trace(program, scratch)?;
        let (rss_kib, own) = once(program, scratch)?;
        let (times, median) = (Vec::new(), Duration::ZERO);
        rows.push(Row {
            name: program.name,
            times,
            median,
            scale: program.scale,
            rss_kib,
            traced,
            own,
        });
    }
    for round in 0..=runs {
        eprintln!("{}: round {round} of {runs}", machine.name);
        for (program, row) in programs.iter().zip(&mut rows) {
            let took = time(program)?;
            if round > 0 {
                row.times.push(took);
            }
        }
    }
    for row in &mut rows {
        row.times.sort_unstable();
        row.median = row.times[row.times.len() / 2];
    }
    Ok(rows)
}

fn command(argv: &[String]) -> Command {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).stdin(Stdio::null());
    command
}

/// One timed run.
fn time(program: &Program) -> Fallible<Duration> {
    let start = Instant::now();
    let status = command(&program.argv).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let took = start.elapsed();
    if !status.success() {
        return Err(format!("{} failed: {status}", program.name).into());
    }
    Ok(took)
}

/// One run below GNU time: peak memory in KiB, and the last line of stderr if it is a bedplate's cost.
fn once(program: &Program, scratch: &Path) -> Fallible<(u64, Option<String>)> {
    let out = scratch.join("time");
    let output = Command::new("time")
        .args(["-f", "%M", "-o"])
        .arg(&out)
        .args(&program.argv)
        .stdout(Stdio::null())
        .stdin(Stdio::null())
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{} failed: {}\n{stderr}", program.name, output.status).into());
    }
    let own =
        stderr.lines().rev().find(|line| line.contains("config-space dwords")).map(str::to_owned);
    let text = fs::read_to_string(&out)?;
    let rss = text.trim().parse().map_err(|_| format!("GNU time said {text:?}, not a number"))?;
    Ok((rss, own))
}

/// Two runs below strace: one that counts calls, one that looks at reads of config files and at programs started.
fn trace(program: &Program, scratch: &Path) -> Fallible<Traced> {
    let out = scratch.join("strace");
    let strace = |options: &[&str]| -> Fallible<()> {
        let mut strace = Command::new("strace");
        strace.args(options).arg("-o").arg(&out).args(&program.argv);
        let status =
            strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("{} failed below strace: {status}", program.name).into()),
        }
    };
    strace(&["-f", "-c", "-U", "calls,name"])?;
    let summary = fs::read_to_string(&out)?;
    let calls = summary
        .lines()
        .find_map(|line| line.trim().strip_suffix("total")?.trim().parse().ok())
        .ok_or("strace -c gave no total")?;
    strace(&["-f", "-y", "-e", "trace=execve,read,pread64"])?;
    let (mut bytes, mut processes) = (0, 0);
    for line in BufReader::new(File::open(&out)?).lines() {
        let line = line?;
        let returned =
            line.rsplit_once(" = ").and_then(|(_, value)| value.trim().parse::<u64>().ok());
        match returned {
            Some(read) if line.contains("/config>") => bytes += read,
            Some(0) if line.contains("execve(") => processes += 1,
            _ => {}
        }
    }
    Ok(Traced { calls, config_dwords: bytes.div_ceil(4), processes })
}

/// Above the numbers of [`print()`].
const HEADINGS: &str = concat!(
    "                            median ms        min        max  x lspci  ",
    "  us/fn  calls/fn cfg dword  RSS MiB processes"
);

fn print(machine: &Machine, programs: &[Program], rows: &[Row]) {
    let (name, bridges) = (&machine.name, machine.bridges.len());
    println!("\n{name}: {} functions, {bridges} bridges\n{HEADINGS}", machine.functions);
    let lspci = rows.first().map_or(f64::NAN, Row::ms);
    let each = machine.functions.max(1) as f64;
    for row in rows {
        let ms = |time: Option<&Duration>| {
            time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3 * row.scale)
        };
        let scaled = |number: u64| number as f64 * row.scale;
        println!(
            "  {:<24} {:>10.2} {:>10.2} {:>10.2} {:>8.3} {:>8.2} {:>9.1} {:>9.0} {:>8.1} {:>9.0}",
            row.name,
            row.ms(),
            ms(row.times.first()),
            ms(row.times.last()),
            row.ms() / lspci,
            row.ms() * 1e3 / each,
            scaled(row.traced.calls) / each,
            scaled(row.traced.config_dwords),
            row.rss_kib as f64 / 1024.0,
            scaled(row.traced.processes),
        );
    }
    for (program, row) in programs.iter().zip(rows) {
        if let Some(own) = &row.own {
            println!("  {} says: {own}", program.name);
        }
        if !program.note.is_empty() {
            println!("  {}: {}", program.name, program.note);
        }
    }
}

/// Time per function on the huge machine against that on the small one: 1 = linear.
fn linearity(small: usize, hgx: &[Row], large: usize, huge: &[Row]) {
    println!("\ntime per function, huge / hgx (1 = linear)");
    for (hgx, huge) in hgx.iter().zip(huge) {
        let ratio = huge.ms() / large as f64 / (hgx.ms() / small as f64);
        println!("  {:<24} {ratio:>6.2}", hgx.name);
    }
}
