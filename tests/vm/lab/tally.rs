//! Cost of a scenario: seconds, boots, and starts that failed because of QEMU itself. `tests/run` prints a table of it.

use std::fs::File;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Variable with the path of the file to which each scenario appends a line: name, seconds, boots and restarts,
/// separated by tabs.
const FILE: &str = "BEDPLATE_VM_TALLY";

// One scenario runs at a time, so the counts of a process belong to it.
static BOOTS: AtomicU32 = AtomicU32::new(0);
static RESTARTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Counts a boot.
pub(super) fn boot() {
    BOOTS.fetch_add(1, Ordering::Relaxed);
}

/// Counts a restart that the tested code did not cause.
pub(super) fn restart(why: &str) {
    boot();
    if let Ok(mut restarts) = RESTARTS.lock() {
        restarts.push(why.to_owned());
    }
}

/// Tally of one scenario.
pub(super) struct Tally {
    name: &'static str,
    began: Instant,
}

impl Tally {
    /// Starts at zero.
    pub(super) fn new(name: &'static str) -> Self {
        BOOTS.store(0, Ordering::Relaxed);
        if let Ok(mut restarts) = RESTARTS.lock() {
            restarts.clear();
        }
        Self { name, began: Instant::now() }
    }

    /// Reports the tally on stderr and in the file.
    pub(super) fn end(&self) {
        let boots = BOOTS.load(Ordering::Relaxed);
        let restarts = RESTARTS.lock().map(|restarts| restarts.join(", ")).unwrap_or_default();
        let seconds = self.began.elapsed().as_secs_f32();
        eprintln!("{seconds:7.1} s  {}: boots: {boots}", self.name);
        // A failed write must not fail the scenario.
        if let Some(path) = std::env::var_os(FILE)
            && let Ok(mut file) = File::options().create(true).append(true).open(path)
        {
            let _ = writeln!(file, "{}\t{seconds:.1}\t{boots}\t{restarts}", self.name);
        }
    }
}
