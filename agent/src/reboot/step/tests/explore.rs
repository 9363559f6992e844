//! The pure machine, explored exhaustively: breadth-first over daemon, operator, logind, inhibitors, boot entry (by a package
//! manager, say), clock, other shutdowns and crashes between any two actions, to [`DEPTH`].

use std::collections::HashSet;

use super::world::{Hold, TICK, World};
use super::*;

/// A transition of a world.
type Transition = (&'static str, fn(&mut World, &Reboot));

fn daemon(world: &World) -> Vec<Transition> {
    match (&world.next, world.alive) {
        (Some(_), _) => vec![
            ("act", |world, _| world.act()),
            ("crash before", |world, _| world.crash()),
            ("crash after", |world, _| world.act_and_crash()),
        ],
        (None, true) => vec![
            ("look", |world, settings| world.look(settings, false)),
            ("look before the hold", |world, settings| world.look(settings, true)),
            ("request", |world, _| world.request(false)),
            ("request by force", |world, _| world.request(true)),
            ("cancel", |world, _| world.cancel()),
            ("stop", |world, _| world.crash()),
        ],
        (None, false) => vec![("start", |world, _| world.alive = true)],
    }
}

fn others(world: &World) -> Vec<Transition> {
    let mut can: Vec<Transition> = vec![
        ("inhibitor", |world, _| world.inhibited = !world.inhibited),
        ("entry", |world, _| world.sound = !world.sound),
        ("tick", |world, _| world.tick(TICK)),
        ("long after", |world, _| world.tick(20 * TICK)),
    ];
    can.push(match world.hold {
        Hold::None => ("hold written", |world, _| world.hold = Hold::Written),
        Hold::Written => ("hold returns", |world, _| {
            if world.settle() {
                world.hold = Hold::Confirmed;
            }
        }),
        Hold::Confirmed => ("release", |world, _| world.hold = Hold::None),
    });
    match &world.logind {
        Some(_) => can.push(("shutdown -c", |world, _| world.logind = None)),
        None => can.push(("another schedule", |world, _| {
            world.logind = Some(("poweroff".to_owned(), 4_000_000_000_000_000));
            world.fired = false;
        })),
    }
    can.push(("systemctl reboot", |world, _| world.shut_down()));
    can.push(("soft-reboot", |world, _| world.soft_reboot()));
    can
}

fn transitions(world: &World) -> Vec<Transition> {
    if world.down.is_some() {
        // The daemon may still look, or be in the middle of something.
        let mut can = daemon(world);
        can.push(("boot", |world, _| world.boots()));
        can.push(("abort", |world, _| world.abort()));
        return can;
    }
    let mut can = daemon(world);
    can.extend(others(world));
    can
}

/// From every state a daemon that is left alone brings the host to a state in which nothing is armed for a reboot that
/// does not come, and logind has no reboot that is forbidden.
fn recovers(world: &World, settings: &Reboot) {
    if world.down.is_some() {
        return;
    }
    let mut calm = world.clone();
    while calm.next.is_some() {
        calm.act();
    }
    calm.alive = true;
    for _ in 0..4 {
        calm.look(settings, false);
        while calm.next.is_some() {
            calm.act();
        }
        if calm.down.is_some() {
            return;
        }
    }
    let coming = calm.has_ours() || matches!(calm.record.phase, Phase::GoingDown { .. });
    assert!(!calm.armed || coming, "armed for nothing: {world:#?}\nin the end {calm:#?}");
    let early = calm.record.phase.arranged().is_some_and(|one| one.late(calm.now()) < 0);
    let forbidden = calm.hold != Hold::None || calm.inhibited || !(calm.sound || calm.forced);
    let scheduled = calm.has_ours() && early;
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

/// A quiet host, and one whose reboot is scheduled: the beginnings.
fn beginnings(settings: &Reboot) -> Vec<World> {
    let quiet = World::new();
    let mut scheduled = quiet.clone();
    scheduled.look(settings, false);
    while scheduled.next.is_some() {
        scheduled.act();
    }
    assert!(scheduled.has_ours(), "{scheduled:#?}");
    vec![quiet, scheduled]
}

/// Explores to `depth`; the number of states.
fn explore(settings: &Reboot, depth: usize) -> usize {
    let mut edge = beginnings(settings);
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

/// Transitions in a row, from either beginning, that are tried in all orders: 181,440 states in all. Each state is also left to a
/// daemon, which must recover. For each of the methods that differ: one that arms nothing, one that arms the machine, and one
/// that bedplate itself carries out.
const DEPTH: usize = 6;

#[test]
fn no_interleaving_reaches_a_forbidden_reboot() {
    for method in [RebootMethod::Ordinary, RebootMethod::Firmware, RebootMethod::Command] {
        let begun = std::time::Instant::now();
        let states = explore(&settings(method), DEPTH);
        eprintln!("{method}: {states} states to depth {DEPTH} in {:?}", begun.elapsed());
    }
}
