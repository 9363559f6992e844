//! Header of the picture (the host, and the number of abnormal links) and its legend (the lines and colors that occur).

use std::collections::BTreeSet;

use super::super::{TopologyView, labels as letters};
use super::boxes::MARGIN;
use super::labels::class;
use super::marks::{Redirect, State};
use super::scene::{Anchor, CHAR, Group, Scene, cut, width};
use super::tally::Tally;
use bedplate_base::terminal::one_line;

/// Minimum width of a picture, for the legend.
pub(super) const LEAST: i32 = 640;
/// Height of a line of the legend.
const LINE: i32 = 20;
/// Width of a sample line, including the blank after it.
const SAMPLE: i32 = 64;

/// Adds header and legend.
pub(super) fn add(shown: &TopologyView, tally: &Tally, scene: &mut Scene) {
    let room = usize::try_from((scene.width - 2 * MARGIN) / CHAR).unwrap_or(0);
    let host = one_line(&shown.facts.label());
    let mut group = Group::new(Vec::new());
    // Characters of the title are larger.
    group.text((MARGIN, MARGIN + 16), Anchor::Start, "title", cut(&host, room * 3 / 4));
    let (words, is_bad) = summary(tally);
    let look = if is_bad { "bad" } else { "faint" };
    group.text((MARGIN, MARGIN + 36), Anchor::Start, look, cut(&words, room));
    scene.title = format!("PCIe topology of {host}");
    scene.groups.push(group);
    below(tally, scene);
}

/// Summarizes the links: `16 links are redirected by ACS; 1 link is degraded`.
fn summary(tally: &Tally) -> (String, bool) {
    let states = |wanted| tally.states.iter().filter(|state| **state == wanted).count();
    let redirects =
        |wanted: fn(&Redirect) -> bool| tally.redirects.iter().filter(|one| wanted(one)).count();
    let redirected = redirects(|one| matches!(one, Redirect::On(_)));
    let counts = [
        (states(State::Degraded), "degraded"),
        (redirected, "redirected by ACS"),
        (redirects(|one| matches!(one, Redirect::ForGuests(_))), "redirected for VMs"),
        (states(State::Idle), "slower at a GPU that may be idle"),
        (states(State::Unknown), "unreadable"),
        (redirects(|one| matches!(one, Redirect::Unknown)), "below a port with unknown ACS"),
    ];
    let is_bad = counts[0].0 + counts[1].0 > 0;
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| match count {
        1 => format!("1 link {what}"),
        _ => format!("{count} links {what}"),
    });
    let mut parts: Vec<String> = counts.collect();
    if parts.is_empty() {
        parts.push("no link is degraded or redirected by ACS".to_owned());
    }
    if tally.left_out > 0 {
        parts.push(format!("{} devices are not drawn", tally.left_out));
    }
    (parts.join("; "), is_bad)
}

/// Draws a sign on a link that ACS redirects.
pub(super) fn pill(group: &mut Group, redirect: Redirect, (x, y): (i32, i32)) {
    let (text, look) = match redirect {
        Redirect::On(bits) => (bits.to_string(), "redirected"),
        Redirect::ForGuests(bits) => (bits.to_string(), "guests"),
        Redirect::Unknown => ("ACS ?".to_owned(), "guests"),
    };
    let wide = width(&text) + 8;
    group.rect((x - wide / 2, y - 7, wide, 14), format!("pill {look}"));
    group.text((x, y + 4), Anchor::Middle, format!("small {look}"), text);
}

/// Entry of the legend: a sample and its meaning.
type Entry = (Sample, String);

enum Sample {
    Line(String),
    Degraded,
    Pill(Redirect),
}

fn entries(tally: &Tally) -> Vec<Entry> {
    let distances: BTreeSet<_> = tally.distances.iter().copied().collect();
    let mut entries: Vec<Entry> = distances
        .iter()
        .zip(letters::legend(distances.iter().copied()))
        .map(|(distance, words)| (Sample::Line(format!("wire {}", class(*distance))), words))
        .collect();
    let states: BTreeSet<State> = tally.states.iter().copied().collect();
    let words = [
        (State::Degraded, "degraded: slower or narrower than both ends support"),
        (State::Idle, "slower than both ends support, as for idle GPUs"),
        (State::Unknown, "speed or width could not be read"),
    ];
    for (state, words) in words.into_iter().filter(|(state, _)| states.contains(state)) {
        let sample = match state {
            State::Degraded => Sample::Degraded,
            State::Idle => Sample::Line("wire idle".to_owned()),
            _ => Sample::Line("wire unread".to_owned()),
        };
        entries.push((sample, words.to_owned()));
    }
    let mut seen = [false; 3];
    for redirect in &tally.redirects {
        let (at, words) = match redirect {
            Redirect::On(_) => {
                (0, "ACS of the port redirects peer-to-peer traffic to the root complex")
            }
            Redirect::ForGuests(_) => (1, "the same, required for a VM below"),
            Redirect::Unknown => (2, "ACS of the port could not be read"),
        };
        if !std::mem::replace(&mut seen[at], true) {
            entries.push((Sample::Pill(*redirect), words.to_owned()));
        }
    }
    entries
}

fn below(tally: &Tally, scene: &mut Scene) {
    let mut group = Group::new(Vec::new());
    let entries = entries(tally);
    let widest = entries.iter().map(|(_, words)| width(words)).max().unwrap_or(0);
    let column = SAMPLE + widest + 2 * CHAR;
    let columns = ((scene.width - 2 * MARGIN) / column).max(1);
    let mut y = scene.height + LINE / 2;
    for (nth, (sample, words)) in (0..).zip(entries) {
        let x = MARGIN + nth % columns * column;
        if nth > 0 && nth % columns == 0 {
            y += LINE;
        }
        draw(&mut group, sample, (x, y));
        group.text((x + SAMPLE, y + 4), Anchor::Start, "", words);
    }
    let mut notes = vec!["Line color shows the nearest traffic on the link."];
    if tally.pairs {
        notes.push("Lines at the right of the devices connect each GPU with its recommended NIC.");
    }
    for note in notes {
        y += LINE;
        group.text((MARGIN, y + 4), Anchor::Start, "faint", note);
    }
    scene.height = y + LINE;
    scene.groups.push(group);
}

fn draw(group: &mut Group, sample: Sample, (x, y): (i32, i32)) {
    let line = [(x, y), (x + SAMPLE - 10, y)];
    match sample {
        Sample::Line(look) => group.line(&line, look),
        Sample::Degraded => {
            group.line(&line, "halo");
            group.line(&line, "wire degraded");
        }
        Sample::Pill(redirect) => pill(group, redirect, (x + (SAMPLE - 10) / 2, y)),
    }
}
