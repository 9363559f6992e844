//! Speed of reading an NCCL log, compared with `grep -c`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Fallible;

/// Size of the log of one job in bytes.
const SIZE: u64 = 1 << 30;
/// Number of nodes of the jobs, with the size of their log in bytes: a log of few nodes, and one of many.
const JOBS: [(u32, u64); 2] = [(16, SIZE), (8000, 0)];
/// Number of GPUs per node.
const GPUS: u32 = 8;

/// Measures reading logs of a job of few nodes and of many, in rounds.
pub fn measure(bedplate: &Path, runs: usize, directory: &Path) -> Fallible<()> {
    for (nodes, size) in JOBS {
        let log = directory.join("job.log");
        write(&log, nodes, size)?;
        let mib = fs::metadata(&log)?.len() >> 20;
        println!("\na log of NCCL's, {mib} MiB in lines of {nodes} nodes with {GPUS} GPUs each");
        let grep = measured(runs, Command::new("grep").args(["-c", "NCCL"]).arg(&log))?.0;
        println!("  grep -c NCCL        {:>7.0} ms", grep * 1e3);
        for view in ["log", "job"] {
            let mut command = Command::new(bedplate);
            let (read, kib) = measured(runs, command.args(["nccl", view]).arg(&log))?;
            println!(
                "  bedplate nccl {view}   {:>7.0} ms, {:.2} of the speed of grep, {:.1} MiB",
                read * 1e3,
                grep / read,
                kib as f64 / 1024.0
            );
        }
        fs::remove_file(log)?;
    }
    Ok(())
}

/// Runs a command in rounds. Returns the median time in seconds, and the peak of its memory in KiB.
fn measured(runs: usize, command: &mut Command) -> Fallible<(f64, u64)> {
    let weight = std::env::temp_dir().join(format!("bedplate-bench-{}", std::process::id()));
    let mut timed = Command::new("time");
    timed.args(["-f", "%M", "-o"]).arg(&weight);
    timed.arg(command.get_program()).args(command.get_args());
    let mut times = (0..=runs).map(|_| time(&mut timed)).collect::<Fallible<Vec<Duration>>>()?;
    // The first round fills the cache of files.
    times.remove(0);
    times.sort_unstable();
    let kib = fs::read_to_string(&weight)?.lines().last().unwrap_or_default().trim().parse()?;
    fs::remove_file(weight)?;
    Ok((times[times.len() / 2].as_secs_f64(), kib))
}

fn time(command: &mut Command) -> Fallible<Duration> {
    let start = Instant::now();
    // Do not write to /dev/null: grep then stops at the first match.
    let output = command.stderr(Stdio::null()).output()?;
    let took = start.elapsed();
    match output.status.success() {
        true => Ok(took),
        false => Err(format!("{command:?} failed: {}", output.status).into()),
    }
}

/// Writes the log of a job with interleaved ranks: setup, connections until `size`, end.
fn write(log: &Path, nodes: u32, size: u64) -> Fallible<()> {
    let ranks = nodes * GPUS;
    let who = |rank: u32| {
        let (node, gpu) = (rank / GPUS, rank % GPUS);
        format!("node-{node:04}:{}:{} [{gpu}] NCCL INFO", 4000 + gpu, 4100 + gpu)
    };
    let state = |out: &mut dyn Write, state: &str| -> Fallible<()> {
        for rank in 0..ranks {
            let gpu = rank % GPUS;
            let who = who(rank);
            writeln!(
                out,
                "{who} comm 0x55d0 rank {rank} nranks {ranks} cudaDev {gpu} busId {gpu}b000 commId 0xa1 - {state}"
            )?;
        }
        Ok(())
    };
    let mut block = Vec::new();
    for channel in 0..16 {
        for rank in 0..ranks {
            let (gpu, who) = (rank % GPUS, who(rank));
            let next = (rank + GPUS) % ranks;
            let before = (rank + ranks - GPUS) % ranks;
            let near = rank - gpu + (gpu + 1) % GPUS;
            let channel = format!("{who} Channel {channel:02}/0 :");
            let over = format!("via NET/IB/{gpu}/GDRDMA");
            writeln!(block, "{channel} {rank}[{gpu}] -> {next}[{gpu}] [send] {over}")?;
            writeln!(block, "{channel} {before}[{gpu}] -> {rank}[{gpu}] [receive] {over}")?;
            writeln!(block, "{channel} {rank}[{gpu}] -> {near}[{gpu}] via P2P/CUMEM")?;
        }
    }
    let mut out = BufWriter::new(File::create(log)?);
    state(&mut out, "Init START")?;
    for _ in 0..size.div_ceil(block.len() as u64).max(1) {
        out.write_all(&block)?;
    }
    state(&mut out, "Init COMPLETE")?;
    state(&mut out, "Destroy COMPLETE")?;
    Ok(out.flush()?)
}
