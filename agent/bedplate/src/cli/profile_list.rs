//! `bedplate profile list`: lists the shipped profiles, and why each fits this host or not.

use std::fmt::Write as _;

use clap::Args;

use super::{CliError, Exit, HostArgs, host, output};
use crate::report::style::{FAINT, GOOD, HEAD, paint};
use bedplate_core::engine::profile_source::{self, ListedProfile};
use bedplate_facts::Depth;

/// `profile list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One profile in JSON.
#[derive(serde::Serialize)]
struct Row<'a> {
    name: &'a str,
    description: &'a str,
    /// Whether every condition of its `[match]` holds on this host.
    fits: bool,
    /// Whether it is the best match.
    best: bool,
    /// Conditions that hold if it fits, otherwise those that fail.
    why: &'a [String],
}

impl<'a> Row<'a> {
    fn new(listed: &'a ListedProfile) -> Self {
        let ListedProfile { name, description, judged, best } = listed;
        let fits = judged.fails.is_empty();
        let why = if fits { &judged.holds } else { &judged.fails };
        Row { name, description, fits, best: *best, why }
    }
}

/// Prints the list.
pub(crate) fn run(args: &ListArgs) -> Result<Exit, CliError> {
    let facts = host::open_one(&args.host)?.facts(Depth::Plan);
    let listed = profile_source::listed(&facts);
    let mut rows: Vec<Row> = listed.iter().map(Row::new).collect();
    // Profiles that fit this host come first.
    rows.sort_by_key(|row| (!row.best, !row.fits));
    output::either(args.json, &rows, || text(&facts.label(), &rows))?;
    Ok(Exit::Done)
}

fn text(host: &str, rows: &[Row]) -> String {
    let mut out = format!("shipped profiles and how they match this host: {host}\n\n");
    for Row { name, description, fits, best, why } in rows {
        let why = why.join("; ");
        let verdict = match (fits, best) {
            (true, true) => paint(GOOD, &format!("✓ best match: {why}")),
            (true, false) => format!("· also fits: {why}"),
            (false, _) => paint(FAINT, &format!("· does not fit: {why}")),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}: {description}\n  {verdict}", paint(HEAD, name));
    }
    out
}
