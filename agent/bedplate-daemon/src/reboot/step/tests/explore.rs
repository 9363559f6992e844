//! Exhaustive exploration of the pure state machine: breadth-first to [`DEPTH`] over daemon, concurrent commands,
//! logind, inhibitors, boot entry (changed by a package manager, for example), clock, other shutdowns, and crashes
//! between any two actions.

use std::collections::HashSet;

use super::world::{Hold, TICK, World};
use super::*;

/// A transition of a world.
type Transition = (&'static str, fn(&mut World, &Reboot));

fn daemon(world: &World) -> Vec<Transition> {
    if world.is_locked_by_command() {
        return Vec::new();
    }
    match (world.is_acting(), world.alive) {
        (true, _) => vec![
            ("act", |world, _| world.act()),
            ("crash before", |world, _| world.crash()),
            ("crash after", |world, _| world.act_and_crash()),
        ],
        (false, true) => vec![
            ("look", |world, settings| world.observe(settings, false)),
            ("look before the hold", |world, settings| world.observe(settings, true)),
            ("request", |world, _| world.request(false)),
            ("request by force", |world, _| world.request(true)),
            ("cancel", |world, _| world.cancel()),
            ("stop", |world, _| world.crash()),
        ],
        (false, false) => vec![("start", |world, _| world.alive = true)],
    }
}

/// Concurrent commands. Each first reads logind, then decides.
fn commands(world: &World) -> Vec<Transition> {
    if world.command.is_some() {
        return vec![("command decides", |world, _| world.command_steps())];
    }
    if world.is_locked_by_daemon() {
        return Vec::new();
    }
    let mut can: Vec<Transition> = Vec::new();
    // A daemon that arms a method is on the bus, and cancels by itself.
    if !matches!(world.record.phase, Phase::Arming { .. }) {
        can.push(("cancel reads logind", |world, _| world.command_sees(true)));
    }
    if world.hold == Hold::Written {
        can.push(("hold reads logind", |world, _| world.command_sees(false)));
    }
    can
}

fn others(world: &World) -> Vec<Transition> {
    let mut can: Vec<Transition> = vec![
        ("inhibitor", |world, _| world.inhibited = !world.inhibited),
        ("entry", |world, _| world.sound = !world.sound),
        ("tick", |world, _| world.tick(TICK)),
        ("long after", |world, _| world.tick(20 * TICK)),
    ];
    match world.hold {
        Hold::None => can.push(("hold written", |world, _| world.hold = Hold::Written)),
        Hold::Written => {}
        Hold::Confirmed => can.push(("release", |world, _| world.hold = Hold::None)),
    }
    can.push(match &world.logind {
        Some(_) => ("shutdown -c", |world, _| world.set_logind(None, false)),
        None => ("another schedule", |world, _| {
            let theirs = ("poweroff".to_owned(), 4_000_000_000_000_000);
            world.set_logind(Some(theirs), false);
        }),
    });
    can.push(("systemctl reboot", |world, _| world.shut_down()));
    can.push(("soft-reboot", |world, _| world.soft_reboot()));
    can
}

fn transitions(world: &World) -> Vec<Transition> {
    if world.down.is_some() {
        // The daemon may still observe, or be between two actions.
        let mut can = daemon(world);
        can.extend(commands(world));
        can.push(("boot", |world, _| world.boots()));
        can.push(("abort", |world, _| world.abort()));
        return can;
    }
    let mut can = daemon(world);
    can.extend(commands(world));
    can.extend(others(world));
    can
}

/// Checks that from every state an undisturbed daemon reaches a state in which no method is armed for a reboot that does not
/// happen, and logind has no forbidden reboot.
fn recovers(world: &World, settings: &Reboot) {
    if world.down.is_some() {
        return;
    }
    let mut calm = world.clone();
    calm.command_steps();
    calm.act_to_the_end();
    calm.alive = true;
    for _ in 0..4 {
        calm.observe(settings, false);
        calm.act_to_the_end();
        if calm.down.is_some() {
            return;
        }
    }
    let coming = calm.has_ours() || matches!(calm.record.phase, Phase::GoingDown { .. });
    assert!(!calm.armed || coming, "armed for nothing: {world:#?}\nin the end {calm:#?}");
    let now = bedplate_core::reboot_record::phase::usec(calm.now());
    let early = calm.logind.as_ref().is_some_and(|(_, at)| *at > now);
    let forbidden = calm.hold != Hold::None || calm.inhibited || !(calm.sound || calm.forced);
    let scheduled = calm.by_us && early;
    assert!(!(forbidden && scheduled), "forbidden: {world:#?}\nin the end {calm:#?}");
    let open = matches!(
        calm.record.phase,
        Phase::Arming { .. }
            | Phase::Scheduling { .. }
            | Phase::Cancelling { .. }
            | Phase::Disarming { .. }
    );
    assert!(!open, "left open: {world:#?}\nin the end {calm:#?}");
}

/// Start states: an idle host, one whose daemon is about to call logind, and one with a scheduled reboot.
fn beginnings(settings: &Reboot, locks: bool) -> Vec<World> {
    let quiet = World::new(locks);
    let mut asking = quiet.clone();
    asking.observe(settings, false);
    while !matches!(asking.next, Some(Effect::Schedule { .. })) {
        asking.act();
    }
    let mut scheduled = asking.clone();
    scheduled.act_to_the_end();
    assert!(scheduled.has_ours(), "{scheduled:#?}");
    vec![quiet, asking, scheduled]
}

/// Explores to `depth` and returns the number of states. `locks`: commands read logind under the record's lock.
fn explore(settings: &Reboot, depth: usize, locks: bool) -> usize {
    let mut edge = beginnings(settings, locks);
    let mut known: HashSet<u64> = edge.iter().map(World::key).collect();
    for _ in 0..depth {
        let mut next = Vec::new();
        for world in &edge {
            for (name, transition) in transitions(world) {
                let mut after = world.clone();
                after.trail.push(name);
                transition(&mut after, settings);
                if known.insert(after.key()) {
                    recovers(&after, settings);
                    next.push(after);
                }
            }
        }
        edge = next;
    }
    known.len()
}

/// Number of consecutive transitions from each start state, tried in all orders: 349,243 states in all. From each state an
/// undisturbed daemon must recover.
const DEPTH: usize = 6;

/// Explores a host with this method, with commands that read logind under the record's lock.
fn explore_all(method: RebootMethod) {
    let begun = std::time::Instant::now();
    let states = explore(&settings(method), DEPTH, true);
    eprintln!("{method}: {states} states to depth {DEPTH} in {:?}", begun.elapsed());
}

#[test]
fn no_interleaving_reaches_a_forbidden_ordinary_reboot() {
    explore_all(RebootMethod::Ordinary);
}

/// A method that arms the machine.
#[test]
fn no_interleaving_reaches_a_forbidden_firmware_reboot() {
    explore_all(RebootMethod::Firmware);
}

/// A method that bedplate itself performs.
#[test]
fn no_interleaving_reaches_a_forbidden_command() {
    explore_all(RebootMethod::Command);
}

/// Data that a command reads without the lock is stale when it decides: the exploration finds the forbidden reboot.
#[test]
#[should_panic(expected = "forbidden")]
fn reading_logind_without_the_lock_is_found() {
    explore(&settings(RebootMethod::Ordinary), DEPTH, false);
}
