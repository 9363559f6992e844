//! Cost of reading a large host, counted by strace. An image root costs no more than the running machine, and nothing is
//! read twice. Times are left to the benchmark.

use std::path::Path;
use std::process::Command;

use bedplate_testhosts::{HostSpec, write_tree};
use bedplate_tests::{fixtures, program};

/// PCI functions of the fake host: enough to make the cost of a start negligible.
const FUNCTIONS: usize = 2_000;

/// System calls of a command on the host, counted by strace, and the number that it reports for its reader.
fn calls(root: &Path, command: &[&str]) -> (f64, f64) {
    let strace = fixtures::tool("strace");
    let log = root.join("strace");
    let output = Command::new(strace)
        // Debug builds alone check descriptors before closing them, and the allocator's calls have nothing to do with
        // reading.
        .args(["-f", "-c", "-U", "calls,name"])
        .args(["-e", "trace=!fcntl,brk,mmap,munmap,mremap,mprotect,madvise", "-o"])
        .arg(&log)
        .arg(program::path())
        .args(command)
        .args(["--cost", "--root"])
        .arg(root)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let summary = std::fs::read_to_string(log).unwrap();
    let total = summary.lines().find_map(|line| line.trim().strip_suffix("total"));
    let total: f64 = total.expect("a total").trim().parse().unwrap();
    let own = stderr.lines().find_map(|line| line.split(" functions, ").nth(1)?.split(' ').next());
    (total, own.expect("what it cost").parse().unwrap())
}

#[test]
#[cfg_attr(not(has = "strace"), ignore = "needs strace")]
fn image_root_costs_nine_calls_per_function() {
    let directory = tempfile::tempdir().unwrap();
    let spec = HostSpec { functions: FUNCTIONS, ..HostSpec::default() };
    write_tree(&spec.build(), directory.path()).unwrap();
    let devices = directory.path().join("sys/bus/pci/devices");
    let functions = std::fs::read_dir(devices).unwrap().count() as f64;
    assert!(functions >= FUNCTIONS as f64);
    for (command, most) in
        [(&["plan", "--profile", "hgx-h100"][..], 9.0), (&["inspect", "--json"], 23.0)]
    {
        let (all, own) = calls(directory.path(), command);
        assert!(all <= most * functions, "{command:?}: {all} calls for {functions} functions");
        // The reported number leaves out only the start of the program and its output.
        assert!(all >= own && all - own <= 1_500.0, "{command:?}: {all} calls, it says {own}");
    }
}
