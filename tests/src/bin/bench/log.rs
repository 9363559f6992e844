//! Speed of reading an NCCL log, compared with `grep -c`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Fallible;

/// Size of the log in bytes.
const SIZE: u64 = 1 << 30;
/// Number of nodes, and of GPUs per node, in the log.
const NODES: u32 = 16;
const GPUS: u32 = 8;

/// Measures reading a log of one gigabyte, in rounds.
pub fn measure(bedplate: &Path, runs: usize, directory: &Path) -> Fallible<()> {
    let log = directory.join("job.log");
    write(&log)?;
    let weight = directory.join("time");
    let (mut greps, mut reads) = (Vec::new(), Vec::new());
    for round in 0..=runs {
        eprintln!("log: round {round} of {runs}");
        let grep = time(Command::new("grep").args(["-c", "NCCL"]).arg(&log))?;
        let read = time(
            Command::new("time")
                .args(["-f", "%M", "-o"])
                .arg(&weight)
                .arg(bedplate)
                .args(["nccl", "log"])
                .arg(&log),
        )?;
        if round > 0 {
            greps.push(grep);
            reads.push(read);
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64()
    };
    let (grep, read) = (median(&mut greps), median(&mut reads));
    let kib: u64 =
        fs::read_to_string(&weight)?.lines().last().unwrap_or_default().trim().parse()?;
    println!("\na log of NCCL's, {} MiB in lines of {} GPUs", SIZE >> 20, NODES * GPUS);
    println!("  grep -c NCCL        {:>7.0} ms", grep * 1e3);
    println!(
        "  bedplate nccl log   {:>7.0} ms, {:.2} of the speed of grep, {:.1} MiB",
        read * 1e3,
        grep / read,
        kib as f64 / 1024.0
    );
    fs::remove_file(log)?;
    Ok(())
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

/// Writes a log with interleaved ranks, as in a real job.
fn write(log: &Path) -> Fallible<()> {
    let mut block = Vec::new();
    for channel in 0..16 {
        for gpu in 0..GPUS {
            for node in 0..NODES {
                let rank = node * GPUS + gpu;
                let who = format!("node-{node:03}:{}:{} [{gpu}] NCCL INFO", 4000 + gpu, 4100 + gpu);
                let far = (rank + GPUS) % (NODES * GPUS);
                let near = node * GPUS + (gpu + 1) % GPUS;
                writeln!(
                    block,
                    "{who} Channel {channel:02}/0 : {rank}[{gpu}] -> {far}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA"
                )?;
                writeln!(
                    block,
                    "{who} Channel {channel:02}/0 : {rank}[{gpu}] -> {near}[{gpu}] via P2P/CUMEM"
                )?;
            }
        }
    }
    let mut out = BufWriter::new(File::create(log)?);
    for _ in 0..SIZE.div_ceil(block.len() as u64) {
        out.write_all(&block)?;
    }
    Ok(out.flush()?)
}
