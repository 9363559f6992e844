//! An unprivileged user cannot disturb the daemon by calling it, under the stock policy of the system bus.

use std::time::{Duration, Instant};

use bedplate_daemon::bus;
use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::{State, Status};
use serde_json::{Value, json};

use super::flooder::Flood;
use super::policy;
use super::rig::{Rig, difference, right, until, waiting};

/// Size and duration of the flood; BEDPLATE_FLOOD_SECONDS sets a longer one.
const CONNECTIONS: usize = 60;
const SECONDS: u64 = 10;
/// The test waits this long for an operator's cancel, which takes well under a second without a flood.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum growth of the daemon's memory in a flood.
const GROWTH_KIB: u64 = 48 * 1024;

fn seconds() -> Duration {
    let asked = std::env::var("BEDPLATE_FLOOD_SECONDS").ok();
    Duration::from_secs(asked.map_or(SECONDS, |text| text.parse().expect("a number of seconds")))
}

/// A plan as large as that of a host with eight GPUs.
fn large(mut seen: Value) -> Value {
    seen["plan_json"] =
        json!(format!("{{\"bedplate_plan\":1,\"x\":\"{}\"}}\n", "x".repeat(35_000)));
    seen
}

/// Makes the host drift. Returns the time until it is converged again.
fn heal(rig: &Rig) -> Duration {
    let healed = || rig.calls().iter().filter(|call| call.contains("--only")).count();
    let before = healed();
    // A different change each time: a repeated one would count as a conflict with another tool.
    let mut change = difference();
    change["key"] = json!(format!("{before:016x}"));
    change["id"] = json!(format!("acs/{before:04x}:00:00.0"));
    let (mut drifted, mut fixed) = (large(right(rig)), large(right(rig)));
    drifted["changes"] = json!([change]);
    fixed["done"] = json!([{ "change": change, "failure": null }]);
    rig.after(&fixed);
    rig.look(&drifted);
    let begun = Instant::now();
    rig.touch();
    until("the drift is healed", || healed() > before);
    let took = begun.elapsed();
    until("that is told", || rig.read("run/bedplate/status.json").contains("\"converged\""));
    took
}

/// Causes one drift after another for this time.
fn heal_for(rig: &Rig, time: Duration) -> Vec<Duration> {
    let begun = Instant::now();
    let mut heals = vec![heal(rig)];
    while begun.elapsed() < time {
        heals.push(heal(rig));
    }
    heals
}

/// Peak memory so far, in KiB.
fn peak(rig: &Rig) -> u64 {
    memory(rig, "VmHWM:")
}

/// Current memory, in KiB.
fn resident(rig: &Rig) -> u64 {
    memory(rig, "VmRSS:")
}

fn memory(rig: &Rig, what: &str) -> u64 {
    let pid = rig.daemon.as_ref().expect("it was started").id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
#[cfg_attr(not(all(has = "dbus-daemon", has = "root")), ignore = "needs dbus-daemon and root")]
fn a_flood_of_every_call_blocks_no_work() {
    let rig = policy::converged();
    let quiet = heal(&rig);
    rig.look(&large(waiting(&rig)));
    rig.touch();
    rig.until("scheduled", |status| matches!(status.reboot.state, RebootState::Scheduled { .. }));
    let before = peak(&rig);

    let flood = Flood::start(rig.path("bus"), CONNECTIONS);
    until("the flood is under way", || flood.calls() > 1000);
    let cancelled = Instant::now();
    let asked = async { bus::agent(&rig.logind).await?.cancel_reboot().await };
    let answer = rig.runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await });
    let cancel = cancelled.elapsed();
    assert!(
        matches!(&answer, Ok(Ok(said)) if said.contains("cancelled the reboot")),
        "an operator's cancel after {cancel:?}: {answer:?}"
    );
    let told = || serde_json::from_str::<Status>(&rig.read("run/bedplate/status.json"));
    until("what follows is decided", || {
        let status = told().expect("whole");
        status.work.is_none() && !matches!(status.reboot.state, RebootState::Scheduled { .. })
    });
    // Each waits for its end: a daemon that the flood stops fails here.
    let heals = heal_for(&rig, seconds());
    let after = peak(&rig);
    eprintln!(
        "cancel {cancel:?}, a drift without the flood {quiet:?}, in it {heals:?}, {} calls, {before} -> {after} KiB",
        flood.calls()
    );
    assert!(after - before <= GROWTH_KIB, "{before} KiB before, {after} KiB after");
    drop(flood);
    rig.until("it is still there", |status| status.state == State::Converged);
}

/// A request that was queued while the daemon was busy is dropped if its caller has disconnected.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn request_of_a_disconnected_caller_is_dropped() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    let looks = || rig.calls().len();
    let before = looks();
    rig.write("wait", "");
    rig.touch();
    until("a look is under way", || looks() > before);
    let caller = |member: &'static str| {
        rig.runtime.block_on(async {
            let connection = zbus::connection::Builder::address(rig.address().as_str());
            let connection = connection.build().await.expect("the bus is there");
            let call = zbus::Message::method_call(bus::PATH, member).destination(bus::NAME);
            let call = call.interface(bus::NAME).build(&()).expect("a message");
            connection.send(&call).await.expect("the bus takes it");
            connection
        })
    };
    let leaves = caller("Reload");
    let stays = caller("Reload");
    // Both calls are in the daemon's queue, and both callers were found to be authorized.
    rig.settle();
    drop(leaves);
    std::fs::remove_file(rig.path("wait")).expect("ours");
    // Answered in order: when this returns, the queue is empty.
    rig.runtime.block_on(async { rig.agent().await?.reload().await }).expect("root may");
    drop(stays);
    assert_eq!(
        looks() - before,
        3,
        "for the event, for who stays, and for this test: {:?}",
        rig.calls()
    );
}

/// Any number of requests for an observation get the result of a recent one.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn repeated_plan_requests_reuse_one_observation() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    let plan = || rig.runtime.block_on(async { rig.agent().await?.plan().await }).expect("a plan");
    let looks = || rig.calls().len();
    let before = looks();
    for _ in 0..50 {
        assert_eq!(plan(), "{\"bedplate_plan\":1}\n");
    }
    assert_eq!(looks(), before, "it was looked at when the daemon started");
}

/// Reads do not wake the loop, and the memory that they use is returned.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn memory_is_returned_after_a_burst_of_reads() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    std::thread::sleep(Duration::from_secs(5));
    let quiet = resident(&rig);
    for _ in 0..300 {
        assert!(rig.status().is_some());
    }
    let busy = resident(&rig);
    assert!(busy > quiet + 1024, "{quiet} KiB, and {busy} KiB after the reads");
    until("it goes back", || resident(&rig) < quiet + 1024);
}
