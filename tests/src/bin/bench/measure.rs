//! Runs programs one after another: timed in rounds, counted by strace, with memory measured by GNU time.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::machine::Machine;
use crate::programs::Program;

/// Results of one program.
pub struct Row {
    pub name: &'static str,
    /// Sorted times.
    pub times: Vec<Duration>,
    pub median: Duration,
    pub scale: f64,
    pub rss_kib: u64,
    pub traced: Traced,
    /// Cost that the program itself reports (`--cost`).
    pub own: Option<String>,
}

impl Row {
    /// Median for the complete work, in milliseconds.
    pub fn ms(&self) -> f64 {
        self.median.as_secs_f64() * 1e3 * self.scale
    }
}

/// Counts by strace.
pub struct Traced {
    /// Number of system calls.
    pub calls: u64,
    /// Dwords read from config files. For image roots, whose files are read whole, the program's own count.
    pub config_dwords: u64,
    /// Number of programs started, including the first.
    pub processes: u64,
}

pub fn measure(
    machine: &Machine,
    programs: &[Program],
    runs: usize,
    scratch: &Path,
) -> Fallible<Vec<Row>> {
    let mut rows = Vec::new();
    for program in programs {
        eprintln!("{}: counting {}", machine.name, program.name);
        let mut traced = trace(program, scratch)?;
        let (rss_kib, own) = once(program, scratch)?;
        if let (true, Some(own)) = (program.whole_files, &own) {
            traced.config_dwords = dwords(own).ok_or(format!("no dwords in {own:?}"))?;
        }
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

/// Times one run.
fn time(program: &Program) -> Fallible<Duration> {
    let start = Instant::now();
    let status = command(&program.argv).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let took = start.elapsed();
    if !program.accepts(status) {
        return Err(format!("{} failed: {status}", program.name).into());
    }
    Ok(took)
}

/// Runs under GNU time: returns peak memory in KiB, and the cost line from bedplate's stderr.
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
    if !program.accepts(output.status) {
        return Err(format!("{} failed: {}\n{stderr}", program.name, output.status).into());
    }
    let own =
        stderr.lines().rev().find(|line| line.contains("config-space dwords")).map(str::to_owned);
    // For a status other than 0 the file has an extra line.
    let text = fs::read_to_string(&out)?;
    let last = text.lines().last().unwrap_or_default();
    let rss = last.trim().parse().map_err(|_| format!("GNU time said {text:?}, not a number"))?;
    Ok((rss, own))
}

/// Runs twice under strace: once to count calls, once to trace reads of config files and started programs.
fn trace(program: &Program, scratch: &Path) -> Fallible<Traced> {
    let out = scratch.join("strace");
    let strace = |options: &[&str]| -> Fallible<()> {
        let mut strace = Command::new("strace");
        strace.args(options).arg("-o").arg(&out).args(&program.argv);
        let status =
            strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        match program.accepts(status) {
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

/// Parses `275 functions, 2680 system calls, 502 config-space dwords`.
fn dwords(own: &str) -> Option<u64> {
    own.strip_suffix(" config-space dwords")?.rsplit(' ').next()?.parse().ok()
}
