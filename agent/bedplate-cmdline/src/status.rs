//! Compares a line with the desired state, one result per profile entry.

use serde::Serialize;

use bedplate_base::Arch;

use super::defaults::KernelDefaults;
use super::edit::Edit;
use super::effective::{default_intel_iommu, default_passthrough};
use super::key::{Form, Key, Meaning, WantedArgument};
use super::lex::Token;
use super::line::CommandLine;
use super::list::list_positions;
use super::occurrences::{Occurrence, occurrences};
use super::shape::{PASSTHROUGH, Shape, shape_of};
use super::unwanted::first_unwanted;

/// State of one required or unwanted argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Status {
    /// On the line, as the profile spells it.
    Present,
    /// The line has the same effect in another spelling.
    Equivalent {
        /// The arguments with this effect.
        by: String,
    },
    /// Not on the line, but a build-time default has the same effect.
    KernelDefault {
        /// The build option.
        by: String,
    },
    /// The line has a different value.
    Other {
        /// The arguments with that value.
        found: String,
    },
    /// The line has the same arguments in another order, and the order matters.
    Reordered {
        /// The arguments, in line order.
        found: String,
        /// Effect of the order.
        rule: &'static str,
        /// Source of the rule.
        source: &'static str,
    },
    /// Not on the line.
    Missing,
    /// Unwanted, and absent.
    Gone,
    /// Unwanted, and present.
    Lingering {
        /// The argument.
        found: String,
    },
}

impl Status {
    /// Returns the arguments on the line that differ from the desired state.
    pub fn found(&self) -> Option<&str> {
        match self {
            Status::Other { found }
            | Status::Reordered { found, .. }
            | Status::Lingering { found } => Some(found),
            _ => None,
        }
    }

    /// Whether no change is needed.
    pub fn is_satisfied(&self) -> bool {
        matches!(
            self,
            Status::Present
                | Status::Equivalent { .. }
                | Status::KernelDefault { .. }
                | Status::Gone
        )
    }
}

/// State of one profile entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The owned key; `None` for an unwanted argument.
    pub key: Option<Key>,
    /// The profile's entries that it was parsed from.
    pub entries: Vec<Token>,
    /// Its status.
    #[serde(flatten)]
    pub status: Status,
}

impl Edit {
    /// Returns findings for a line that kernels with these build-time defaults may boot with. A default satisfies an
    /// argument only if all kernels have it; with an empty list, no default does.
    pub fn satisfied_for_all(
        &self,
        line: &CommandLine,
        defaults: &[KernelDefaults],
    ) -> Vec<Finding> {
        if defaults.is_empty() {
            return self.satisfied_by(line, &KernelDefaults::default());
        }
        worst(defaults.iter().map(|defaults| self.satisfied_by(line, defaults)))
    }

    /// Returns one finding per required argument, then per unwanted one, for a line passed to the kernel by its loader.
    /// A kernel default applies only if no argument overrides it. If the kernel may get one of several lines, each
    /// finding is the worst across all lines.
    pub fn satisfied_by(&self, line: &CommandLine, defaults: &KernelDefaults) -> Vec<Finding> {
        worst(line.possible_lines().map(|line| self.satisfied_by_one(line, defaults)))
    }

    fn satisfied_by_one(&self, line: &CommandLine, defaults: &KernelDefaults) -> Vec<Finding> {
        let wanted = self.set.iter().map(|wanted| Finding {
            key: Some(wanted.key.clone()),
            entries: wanted.tokens.clone(),
            status: wanted_status(wanted, line, defaults, self.arch),
        });
        let built_in = defaults.built_in.as_deref().map(CommandLine::parse).unwrap_or_default();
        let unwanted = self.absent.iter().map(|unwanted| {
            let on_line =
                || first_unwanted(line, unwanted, self.arch).filter(|_| !defaults.overrides);
            let found = on_line().or_else(|| first_unwanted(&built_in, unwanted, self.arch));
            let status = found.map_or(Status::Gone, |found| Status::Lingering { found });
            Finding { key: None, entries: vec![unwanted.token.clone()], status }
        });
        wanted.chain(unwanted).collect()
    }
}

/// Merges several lists of findings, taking the worst of each. Without lists the result is empty.
fn worst(mut all: impl Iterator<Item = Vec<Finding>>) -> Vec<Finding> {
    let mut worst = all.next().unwrap_or_default();
    for other in all {
        for (kept, new) in worst.iter_mut().zip(other) {
            if kept.status.is_satisfied() && !new.status.is_satisfied() {
                *kept = new;
            }
        }
    }
    worst
}

fn wanted_status(
    wanted: &WantedArgument,
    line: &CommandLine,
    defaults: &KernelDefaults,
    arch: Arch,
) -> Status {
    let built_in = defaults.built_in.as_deref().map(CommandLine::parse);
    if !defaults.overrides {
        let on_line = line_status(wanted, line, arch);
        if on_line != Status::Missing {
            return on_line;
        }
    }
    match built_in.map(|built_in| line_status(wanted, &built_in, arch)) {
        Some(status) if status.is_satisfied() => {
            Status::KernelDefault { by: "CONFIG_CMDLINE".to_owned() }
        }
        Some(other @ (Status::Other { .. } | Status::Reordered { .. })) => other,
        _ => default_status(wanted, line, defaults, arch),
    }
}

fn default_status(
    wanted: &WantedArgument,
    line: &CommandLine,
    defaults: &KernelDefaults,
    arch: Arch,
) -> Status {
    let built = |by: &str| Status::KernelDefault { by: by.to_owned() };
    match (&wanted.key, &wanted.meaning) {
        (Key::Param(name), Meaning::Bool(wanted)) if name == PASSTHROUGH => {
            match default_passthrough(line, defaults) {
                Some(true) if *wanted => built("CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y"),
                Some(false) if !*wanted => built("CONFIG_IOMMU_DEFAULT_PASSTHROUGH is not set"),
                _ => Status::Missing,
            }
        }
        (Key::Option { param, .. }, Meaning::Text(Some(option)))
            if param == "intel_iommu" && option == "on" =>
        {
            match default_intel_iommu(line, defaults, arch) {
                Some(true) if defaults.spares_integrated_graphics => {
                    built("CONFIG_INTEL_IOMMU_DEFAULT_ON_INTGPU_OFF=y")
                }
                Some(true) => built("CONFIG_INTEL_IOMMU_DEFAULT_ON=y"),
                _ => Status::Missing,
            }
        }
        _ => Status::Missing,
    }
}

/// Returns the state on the line, without kernel defaults.
fn line_status(wanted: &WantedArgument, line: &CommandLine, arch: Arch) -> Status {
    if let Form::Tokens(tokens) = &wanted.form {
        let own: Vec<_> = line.tokens().filter(|token| wanted.key.is_in_sequence(token)).collect();
        return match (own.is_empty(), wanted.key.is_met(line, tokens, arch)) {
            (_, true) => Status::Present,
            (true, _) => Status::Missing,
            // The unmanaged argument in the last place is part of the finding.
            _ if wanted.key.is_overtaken(line, arch) => {
                let of_param = |token: &&Token| {
                    wanted.key.is_in_sequence(token) || wanted.key.is_unowned(token)
                };
                sequence_difference(
                    &own,
                    &line.tokens().filter(of_param).collect::<Vec<_>>(),
                    tokens,
                    arch,
                )
            }
            _ => sequence_difference(&own, &own, tokens, arch),
        };
    }
    let all = occurrences(line, &wanted.key, arch);
    let audible: Vec<_> =
        all.iter().filter(|speaker| speaker.heard && speaker.meaning != Meaning::Nothing).collect();
    let arguments = || {
        let mut at: Vec<usize> = all.iter().map(|speaker| speaker.token).collect();
        at.dedup();
        join(at.iter().filter_map(|at| line.token(*at)).map(|token| token.as_str()))
    };
    match audible.last() {
        Some(last) if last.meaning == wanted.meaning => match all.as_slice() {
            [only] if as_spelled(wanted, line, only) => Status::Present,
            _ => Status::Equivalent { by: arguments() },
        },
        None if all.is_empty() => Status::Missing,
        _ => Status::Other { found: arguments() },
    }
}

/// Returns the state of a sequence that differs: by its arguments or only by their order. `found` is reported.
fn sequence_difference(own: &[&Token], found: &[&Token], wanted: &[Token], arch: Arch) -> Status {
    let found = join(found.iter().map(|token| token.as_str()));
    let sorted = |tokens: &mut dyn Iterator<Item = &Token>| {
        let mut all: Vec<_> = tokens
            .map(|token| (token.folded_name(), token.value().map(|value| value.into_owned())))
            .collect();
        all.sort();
        all
    };
    let shape = wanted.first().map(|token| shape_of(&token.folded_name(), arch));
    match shape {
        Some(Shape::Sequence(sequence))
            if sorted(&mut own.iter().copied()) == sorted(&mut wanted.iter()) =>
        {
            Status::Reordered { found, rule: sequence.rule, source: sequence.source }
        }
        _ => Status::Other { found },
    }
}

/// Whether an occurrence has the profile's own spelling: the same argument, or the same suboption in a single `pci=`.
fn as_spelled(wanted: &WantedArgument, line: &CommandLine, speaker: &Occurrence) -> bool {
    match &wanted.form {
        Form::Within { param, text } if param == "pci" => {
            *text == speaker.text && list_positions(line, param).len() == 1
        }
        _ => {
            let same =
                |token: &Token| wanted.rendered().iter().any(|own| own.same_for_kernel(token));
            line.token(speaker.token).is_some_and(same)
        }
    }
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(" ")
}
