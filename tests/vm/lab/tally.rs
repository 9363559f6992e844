//! What a scenario cost: seconds, boots, and starts that QEMU itself brought to nothing. `tests/run` makes a table of it.

use std::fs::File;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Names the file that each scenario adds its line to: name, seconds, boots and restarts, between tabs.
const FILE: &str = "BEDPLATE_VM_TALLY";

// One scenario at a time: what a process counts belongs to the scenario that runs.
static BOOTS: AtomicU32 = AtomicU32::new(0);
static RESTARTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A node boots.
pub(super) fn boot() {
    BOOTS.fetch_add(1, Ordering::Relaxed);
}

/// A node had to be started once more, for no fault of what is tested.
pub(super) fn restart(why: &str) {
    boot();
    if let Ok(mut restarts) = RESTARTS.lock() {
        restarts.push(why.to_owned());
    }
}

/// One scenario's account.
pub(super) struct Tally {
    name: &'static str,
    began: Instant,
}

impl Tally {
    /// Begins at nothing.
    pub(super) fn new(name: &'static str) -> Self {
        BOOTS.store(0, Ordering::Relaxed);
        if let Ok(mut restarts) = RESTARTS.lock() {
            restarts.clear();
        }
        Self { name, began: Instant::now() }
    }

    /// Says what it came to, on stderr and in the file.
    pub(super) fn end(&self) {
        let boots = BOOTS.load(Ordering::Relaxed);
        let restarts = RESTARTS.lock().map(|restarts| restarts.join(", ")).unwrap_or_default();
        let seconds = self.began.elapsed().as_secs_f32();
        eprintln!("{seconds:7.1} s  {}: boots: {boots}", self.name);
        // A figure that cannot be written must not fail the scenario.
        if let Some(path) = std::env::var_os(FILE)
            && let Ok(mut file) = File::options().create(true).append(true).open(path)
        {
            let _ = writeln!(file, "{}\t{seconds:.1}\t{boots}\t{restarts}", self.name);
        }
    }
}
