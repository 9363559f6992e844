//! Number of ranks and hosts of a collective whose header is missing: from its columns, and from options.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::input::number;
use super::{Results, Run, Test};

/// Maximum number of ranks in an option or a header; the largest clusters have a tenth of that.
pub const MOST_RANKS: usize = 1 << 20;

/// Origin of the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Option.
    Option,
    /// Header of the file.
    File,
    /// Bus bandwidth by algorithm bandwidth.
    Columns,
}

/// Number of ranks and hosts of a run that does not name them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Layout {
    /// Number of ranks; absent: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
    /// Origin of the number of ranks; absent: unknown number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Number of ranks on each host, from an option; absent: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_host: Option<usize>,
}

impl Layout {
    /// Returns the layout of a header with a number of ranks.
    pub(super) fn of_header(ranks: usize) -> Self {
        Layout { ranks: Some(ranks), origin: Some(Origin::File), per_host: None }
    }

    /// Returns the number of ranks, and of those on each host, if both are known.
    pub(super) fn counts(&self) -> Option<(usize, usize)> {
        Some((self.ranks?, self.per_host.filter(|per_host| *per_host > 0)?))
    }
}

/// Bounds of bus bandwidth by algorithm bandwidth. Both are rounded to the printed digits. The quotient depends on the
/// collective and the number of ranks only (nccl-tests 2.17.6 doc/PERFORMANCE.md and src/*.cu, `GetBw`).
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    low: f64,
    high: f64,
    /// Whether the operation reduces, and if so, whether it has a root.
    pub(super) rooted: Option<bool>,
}

impl Default for Ratio {
    fn default() -> Self {
        Ratio { low: 0.0, high: f64::INFINITY, rooted: None }
    }
}

impl Ratio {
    /// Determines the bounds from the texts of both columns. Returns `None` if they are too small.
    pub(super) fn of(algorithm: &str, bus: &str) -> Option<Self> {
        let half = |text: &str| {
            let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            (!text.contains(['e', '-', '+']) && decimals <= 9)
                .then(|| 0.5 / 10_f64.powi(i32::try_from(decimals).unwrap_or(0)))
        };
        let ((a, da), (b, db)) =
            ((number(algorithm)?, half(algorithm)?), (number(bus)?, half(bus)?));
        (a > da && b > db).then(|| Ratio {
            low: (b - db) / (a + da),
            high: (b + db) / (a - da),
            rooted: None,
        })
    }

    /// Returns the bounds that satisfy both.
    pub(super) fn and(self, other: Self) -> Self {
        Ratio {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
            rooted: self.rooted.or(other.rooted),
        }
    }

    /// Returns the possible numbers of ranks.
    ///
    /// # Errors
    /// A sentence without a period if the columns do not limit it.
    fn ranks(&self, test: Test) -> Result<RangeInclusive<usize>, String> {
        let factor = match test {
            Test::AllReduce => 2.0,
            Test::AllGather
            | Test::ReduceScatter
            | Test::Alltoall
            | Test::Alltoallv
            | Test::Gather
            | Test::Scatter => 1.0,
            _ => {
                return Err(format!(
                    "the columns of {} do not depend on the number of ranks",
                    test.program()
                ));
            }
        };
        if !self.high.is_finite() {
            return Err("the bandwidths are too small to show the number of ranks".to_owned());
        }
        // The factor times (n−1)/n, solved for n; the margin is for floating point.
        let ranks = |ratio: f64| {
            if ratio < factor { factor / (factor - ratio) } else { f64::INFINITY }
        };
        let least = (ranks(self.low) - 1e-6).ceil().max(2.0);
        let most = (ranks(self.high) + 1e-6).floor();
        if least > most || least > MOST_RANKS as f64 {
            return Err(format!("the columns are not those of {}", test.program()));
        }
        Ok(least as usize..=most.min(MOST_RANKS as f64) as usize)
    }

    /// Returns the only possible number of ranks.
    fn only(&self, test: Test) -> Result<usize, String> {
        let range = self.ranks(test)?;
        match (*range.start(), *range.end()) {
            (least, most) if least == most => Ok(least),
            (least, MOST_RANKS) => Err(format!("the printed digits fit {least} or more ranks")),
            (least, most) => Err(format!("the printed digits fit {least} to {most} ranks")),
        }
    }

    /// Returns the collective that the columns show. Only a reducing operation shows it: bus bandwidth is at least
    /// algorithm bandwidth for all_reduce, and less for reduce_scatter.
    fn test(&self, ranks: Option<usize>) -> Option<Test> {
        match (self.rooted?, ranks) {
            (true, _) => Some(Test::Reduce),
            (false, Some(ranks)) => {
                let fits = |test: &Test| self.ranks(*test).is_ok_and(|fit| fit.contains(&ranks));
                let mut fitting = [Test::AllReduce, Test::ReduceScatter].into_iter().filter(fits);
                fitting.next().filter(|_| fitting.next().is_none())
            }
            (false, None) if !self.high.is_finite() || self.low > self.high => None,
            (false, None) if self.low >= 1.0 => Some(Test::AllReduce),
            (false, None) => (self.high < 1.0).then_some(Test::ReduceScatter),
        }
    }
}

/// Options about collectives.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Collective, if the file does not show it.
    pub test: Option<Test>,
    /// Number of ranks.
    pub ranks: Option<usize>,
    /// Number of ranks on each host.
    pub per_host: Option<usize>,
}

/// Completes runs whose header is missing.
///
/// # Errors
/// A sentence if the options contradict the file or each other.
pub fn complete(results: &mut Results, options: &Options) -> Result<(), String> {
    let mut runs: Vec<&mut Run> =
        results.runs.iter_mut().filter(|run| run.is_collective()).collect();
    if runs.is_empty() && (options.ranks.is_some() || options.per_host.is_some()) {
        return match results.runs.is_empty() {
            true => divides(options.ranks, options.per_host),
            false => Err("the file has no collective: omit --ranks and --per-host".to_owned()),
        };
    }
    for run in &mut runs {
        match run.ranks.len() {
            0 => unnamed(run, options)?,
            ranks => named(run, ranks, options)?,
        }
    }
    let is_other = |test: Test| runs.iter().all(|run| run.test.is_some_and(|own| own != test));
    match (options.test, runs.first()) {
        (Some(test), Some(run)) if is_other(test) => Err(format!(
            "--test names {}, but line {} starts a run of {}",
            test.program(),
            run.line,
            run.test.map_or("an unknown collective", Test::program)
        )),
        _ => Ok(()),
    }
}

/// Compares a run that names its ranks with the options.
fn named(run: &mut Run, ranks: usize, options: &Options) -> Result<(), String> {
    run.test = run.test.or(options.test);
    if let Some(given) = options.ranks.filter(|given| *given != ranks) {
        return Err(format!(
            "--ranks is {given}, but the run at line {} names {ranks} ranks",
            run.line
        ));
    }
    let hosts = run.hosts();
    let Some(given) = options.per_host else { return Ok(()) };
    match hosts.iter().find(|(_, own)| **own != given) {
        Some((host, own)) => Err(format!(
            "--per-host is {given}, but the run at line {} names {own} ranks on {host}",
            run.line
        )),
        None => Ok(()),
    }
}

fn unnamed(run: &mut Run, options: &Options) -> Result<(), String> {
    let stated = run.layout.as_ref().and_then(|layout| layout.ranks);
    if let (Some(stated), Some(given)) = (stated, options.ranks)
        && stated != given
    {
        return Err(format!(
            "--ranks is {given}, but the run at line {} has {stated} ranks",
            run.line
        ));
    }
    let known = options.ranks.or(stated);
    let shown_test = || run.ratio.test(known).or_else(|| run.ratio.test(None));
    run.test = run.test.or_else(shown_test).or(options.test);
    let (ranks, origin) = match (options.ranks, stated, run.test) {
        (Some(given), None, Some(test)) => {
            match run.ratio.ranks(test) {
                Ok(fit) if !fit.contains(&given) => {
                    return Err(format!(
                        "--ranks is {given}, but the columns from line {} fit {}",
                        run.line,
                        shown(&fit)
                    ));
                }
                _ => {}
            }
            (Some(given), Some(Origin::Option))
        }
        (Some(given), None, None) => (Some(given), Some(Origin::Option)),
        (_, Some(stated), _) => (Some(stated), Some(Origin::File)),
        (None, None, test) => {
            let found = test.and_then(|test| run.ratio.only(test).ok());
            (found, found.map(|_| Origin::Columns))
        }
    };
    divides(ranks, options.per_host)?;
    if ranks.is_some() || options.per_host.is_some() {
        run.layout = Some(Layout { ranks, origin, per_host: options.per_host });
    }
    Ok(())
}

fn shown(fit: &RangeInclusive<usize>) -> String {
    match (fit.start(), fit.end()) {
        (least, most) if least == most => format!("{least} ranks"),
        (least, &MOST_RANKS) => format!("{least} or more ranks"),
        (least, most) => format!("{least} to {most} ranks"),
    }
}

/// Checks that all hosts can have the same number of ranks.
fn divides(ranks: Option<usize>, per_host: Option<usize>) -> Result<(), String> {
    match (ranks, per_host) {
        (Some(ranks), Some(per_host)) if per_host == 0 || ranks % per_host != 0 => {
            Err(format!("{ranks} ranks cannot be spread over hosts by --per-host {per_host}"))
        }
        _ => Ok(()),
    }
}

impl Run {
    /// Returns the reason that the ranks by host are unknown, with the options that supply them.
    pub(super) fn unknown_hosts(&self) -> String {
        let header = "the file does not name the ranks and their hosts (\"# Using devices\")";
        let per_host = self.layout.as_ref().and_then(|layout| layout.per_host);
        let rest = if per_host.is_none() { " and --per-host" } else { "" };
        match (self.rank_count(), self.test) {
            (0, None) => format!("{header}: set --test, --ranks{rest}"),
            (0, Some(test)) => {
                let why = self.ratio.only(test).err().unwrap_or_default();
                format!("{header}, and {why}: set --ranks{rest}")
            }
            (ranks, _) => {
                format!("the file does not name the hosts of the {ranks} ranks: set --per-host")
            }
        }
    }
}
