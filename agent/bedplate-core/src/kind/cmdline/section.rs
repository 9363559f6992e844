//! `[cmdline]`: each entry must be one kernel argument, and the entries of one file must not contradict each other.

use serde::{Deserialize, Serialize};

use crate::plan::Rationale;
use crate::section::{
    Checker, Diagnostic, Entry, Finisher, Leaf, ListEntry, OrderedMap, Overlay, Place, Printer,
    Reason, Sources, Spanned, key_of, section,
};
use bedplate_cmdline::{EditError, MAX_LINE_BYTES, TokenError};

mod argument;
pub mod iommu;

use argument::{OwnedOption, UnwantedEntry};

section! {
    /// `[cmdline]`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    "cmdline" Cmdline, CmdlineFragment, CmdlineLayer {}
    special params: OrderedMap<ParamLayer> = read_params {
        /// Arguments that must be on the kernel command line. Entries are merged by parameter, those of `pci=` and other
        /// option lists by option: a later file's entry takes the place of an earlier one, and of an `absent` one.
        #[schemars(
            extend("default" = [] as [&str; 0]),
            example = vec!["iommu.strict=0", "pci=realloc=off"],
            extend("x-source" = "Documentation/admin-guide/kernel-parameters.txt")
        )]
        args: Vec<ArgEntry>;

        /// Arguments that must not be there: `name` (with any value), `pci=option`, or `name=value` for just that value. A
        /// later file's entry takes the place of an earlier `args` entry for the same parameter.
        #[schemars(
            extend("default" = [] as [&str; 0]),
            example = vec!["pci=noats", "nomodeset"],
            extend("x-source" = "Documentation/admin-guide/kernel-parameters.txt")
        )]
        absent: Vec<ArgEntry>;
    }
    before {
        /// In order.
        args: Vec<CmdlineArg> = finish_args;
        /// In order.
        absent: Vec<CmdlineArg> = finish_absent;
    }
    show show_params;
    merged merged_contradiction;
}

/// One argument of `[cmdline]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CmdlineArg {
    /// The token as the kernel is to see it; for `absent` a key or a whole token.
    pub arg: String,
    /// Where and why.
    pub why: Vec<Rationale>,
}

/// A kernel argument.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ArgText(
    /// One kernel argument, `name` or `name=value`, without boot loader quoting.
    #[cfg_attr(
        feature = "schemars",
        schemars(length(min = 1, max = 2047), regex(pattern = r#"^([^\s"]|"[^"]*")+$"#))
    )]
    pub String,
);

/// A kernel argument with its reason.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ArgTable {
    /// One kernel argument, `name` or `name=value`, without boot loader quoting.
    pub arg: Spanned<ArgText>,
    /// Why it is wanted; shown in plans.
    #[cfg_attr(feature = "schemars", schemars(example = &"invalidate lazily: RDMA registrations are long-lived"))]
    pub why: Option<Spanned<String>>,
    /// Where the fact stands: a kernel file, a vendor page.
    #[cfg_attr(feature = "schemars", schemars(example = &"drivers/iommu/Kconfig"))]
    pub source: Option<Spanned<String>>,
}

/// An entry of `cmdline.args` and `cmdline.absent`.
pub(crate) type ArgEntry = Spanned<Entry<ArgText, ArgTable>>;

/// What is said of one kernel parameter.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ParamLayer {
    /// The whole parameter is to be absent, whatever its value: by the names that say so (`hugepagesz`, `hugepages`).
    pub cleared: OrderedMap<Option<Leaf<String>>>,
    /// By what the argument owns: the parameter itself, or one of its options.
    pub arguments: OrderedMap<Option<Leaf<Argument>>>,
}

/// The tokens of one parameter or option: the last layer that speaks of it decides.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Argument {
    /// Those wanted, in order: several when they only make sense together (`hugepagesz=`, `hugepages=`).
    pub set: Vec<Leaf<String>>,
    /// Those unwanted; also beside wanted ones, as the kernel takes every `console=` of a line.
    pub absent: Vec<Leaf<String>>,
}

impl ParamLayer {
    /// Whether any token of the parameter is wanted. Then an earlier wish to clear the whole parameter is over.
    pub(crate) fn sets_something(&self) -> bool {
        self.set().next().is_some()
    }

    /// The tokens wanted, in order.
    pub(crate) fn set(&self) -> impl Iterator<Item = &Leaf<String>> {
        self.arguments.values().flatten().flat_map(|argument| &argument.value.set)
    }

    /// The tokens unwanted, the cleared parameter first.
    pub(crate) fn absent(&self) -> impl Iterator<Item = &Leaf<String>> {
        let cleared = self.cleared.values().flatten().filter(|_| !self.sets_something());
        let parts = self.arguments.values().flatten().flat_map(|argument| &argument.value.absent);
        cleared.chain(parts)
    }
}

impl Overlay for ParamLayer {
    fn overlay(self, later: Self) -> Self {
        // A layer that wants the parameter gone has spoken of all its options.
        let arguments = match later.cleared.0.is_empty() {
            true => self.arguments.overlay(later.arguments),
            false => later.arguments,
        };
        ParamLayer { cleared: self.cleared.overlay(later.cleared), arguments }
    }
}

fn read_params(
    checker: &mut Checker<'_>,
    args: Option<Vec<ArgEntry>>,
    absent: Option<Vec<ArgEntry>>,
) -> OrderedMap<ParamLayer> {
    let args = arguments(checker, args, argument::owned);
    let absent = arguments(checker, absent, argument::unwanted);
    let mut out = OrderedMap::default();
    for (arg, owned) in &args {
        owned.iter().for_each(|owned| set(&mut out, arg, owned));
    }
    let contradicted = contradictions(checker, &args, &absent);
    for (arg, unwanted) in absent {
        match unwanted {
            UnwantedEntry::Whole(param) => {
                // Sequences: `hugepagesz=` wanted and `hugepages` unwanted clash only as a whole.
                if let Some(wanted) = out.entry(&param).set().next().filter(|_| !contradicted) {
                    let message =
                        format!("`{}` is wanted and `{}` is to be absent", wanted.value, arg.value);
                    contradiction(checker, message, wanted.place, arg.place);
                }
                let name = bedplate_cmdline::fold_name(&arg.value);
                *out.entry(&param).cleared.entry(&name) = Some(arg);
            }
            UnwantedEntry::Parts(parts) => {
                parts.iter().for_each(|owned| set_absent(&mut out, &arg, owned))
            }
        }
    }
    out
}

/// The entries that are kernel arguments, with what `read` takes them for.
fn arguments<T>(
    checker: &mut Checker<'_>,
    entries: Option<Vec<ArgEntry>>,
    read: fn(&str) -> Result<T, EditError>,
) -> Vec<(Leaf<String>, T)> {
    let mut out = Vec::new();
    for entry in entries.into_iter().flatten() {
        let (text, span, reason) = match entry.value {
            Entry::Short(text) => (text.0, entry.span, Reason::NONE),
            Entry::Long(table) => {
                (table.arg.value.0, table.arg.span, Reason { why: table.why, source: table.source })
            }
        };
        let place = checker.place(span);
        if text.len() > MAX_LINE_BYTES {
            let message = format!(
                "this argument has {} bytes; the kernel takes {MAX_LINE_BYTES}",
                text.len()
            );
            let help =
                "a kernel command line holds 2047 bytes in all (arch/x86/include/asm/setup.h)";
            checker.error(place, "argument-too-long", message, "too long", Some(help.to_owned()));
            continue;
        }
        match read(&text) {
            Ok(meaning) => out.push((checker.reasoned(text, place, reason), meaning)),
            Err(error) => bad_argument(checker, &text, place, &error),
        }
    }
    out
}

fn bad_argument(checker: &mut Checker<'_>, text: &str, place: Place, error: &EditError) {
    let reason =
        std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let (label, help) = match error {
        EditError::NotAnArgument { source: TokenError::SeveralArguments(_), .. } => {
            let each: Vec<String> =
                text.split_whitespace().map(|word| format!("\"{word}\"")).collect();
            ("more than one", Some(format!("write them one by one: {}", each.join(", "))))
        }
        EditError::NotAnArgument { .. } => ("not a kernel argument", None),
        _ => ("nothing to own", None),
    };
    checker.error(place, "bad-argument", reason, label, help);
}

/// What stands against what within this file. Only the first pair is reported: correcting it may resolve the rest.
/// Says whether there is one.
fn contradictions<A, B>(
    checker: &mut Checker<'_>,
    args: &[(Leaf<String>, A)],
    absent: &[(Leaf<String>, B)],
) -> bool {
    let set: Vec<&str> = args.iter().map(|(arg, _)| arg.value.as_str()).collect();
    let unset: Vec<&str> = absent.iter().map(|(arg, _)| arg.value.as_str()).collect();
    let Err(error) = argument::check_consistency(&set, &unset) else { return false };
    let (first, second) = match &error {
        EditError::Contradiction { first, second } => (find(args, first, 0), find(args, second, 1)),
        EditError::WantedAndAbsent { wanted, unwanted } => {
            (find(args, wanted, 0), find(absent, unwanted, 0))
        }
        _ => (None, None),
    };
    if let (Some(first), Some(second)) = (first, second) {
        contradiction(checker, error.to_string(), first.place, second.place);
    }
    true
}

fn contradiction(checker: &mut Checker<'_>, message: String, wanted: Place, against: Place) {
    let (at, with) = ((against, "against this"), (wanted, "wanted here"));
    checker.clash("contradiction", message, at, with, None);
}

/// The `nth` entry with this text; the first when there are not so many.
fn find<'a, T>(list: &'a [(Leaf<String>, T)], text: &str, nth: usize) -> Option<&'a Leaf<String>> {
    let is_meant =
        |arg: &&Leaf<String>| arg.value == text || text.split(' ').any(|token| token == arg.value);
    let mut same = list.iter().map(|(arg, _)| arg).filter(is_meant);
    let first = same.next();
    if nth == 0 { first } else { same.next().or(first) }
}

fn set(out: &mut OrderedMap<ParamLayer>, arg: &Leaf<String>, owned: &OwnedOption) {
    argument_of(out, arg, owned).set.push(Leaf { value: owned.token.clone(), ..arg.clone() });
}

fn set_absent(out: &mut OrderedMap<ParamLayer>, arg: &Leaf<String>, owned: &OwnedOption) {
    argument_of(out, arg, owned).absent.push(Leaf { value: owned.token.clone(), ..arg.clone() });
}

fn argument_of<'a>(
    out: &'a mut OrderedMap<ParamLayer>,
    arg: &Leaf<String>,
    owned: &OwnedOption,
) -> &'a mut Argument {
    let slot = out.entry(&owned.param).arguments.entry(&owned.key);
    &mut slot.get_or_insert_with(|| Leaf::bare(Argument::default(), arg.place)).value
}

fn finish_args(section: &CmdlineLayer, finisher: &mut Finisher<'_>) -> Vec<CmdlineArg> {
    let wanted = section.params.values().flat_map(ParamLayer::set);
    wanted.map(|leaf| finish_arg("cmdline.args", leaf, finisher)).collect()
}

fn finish_absent(section: &CmdlineLayer, finisher: &mut Finisher<'_>) -> Vec<CmdlineArg> {
    let unwanted = section.params.values().flat_map(ParamLayer::absent);
    unwanted.map(|leaf| finish_arg("cmdline.absent", leaf, finisher)).collect()
}

fn finish_arg(list: &str, leaf: &Leaf<String>, finisher: &mut Finisher<'_>) -> CmdlineArg {
    finisher.note(key_of(list, &leaf.value), leaf);
    CmdlineArg { arg: leaf.value.clone(), why: finisher.reasons_of_leaf(leaf) }
}

fn show_params(section: &CmdlineLayer, _: &Cmdline, out: &mut Printer<'_>) {
    let entry = |list: &str, leaf: &Leaf<String>| {
        ListEntry::new("arg", &leaf.value, key_of(list, &leaf.value), leaf)
    };
    let params = || section.params.values();
    let args: Vec<ListEntry> =
        params().flat_map(ParamLayer::set).map(|leaf| entry("cmdline.args", leaf)).collect();
    let absent: Vec<ListEntry> =
        params().flat_map(ParamLayer::absent).map(|leaf| entry("cmdline.absent", leaf)).collect();
    out.list("args", &args);
    out.list("absent", &absent);
}

/// Arguments of different files that merging by key leaves standing against each other (`iommu=pt` wanted in one,
/// `iommu` with any value unwanted in another).
fn merged_contradiction(section: &CmdlineLayer, sources: &Sources) -> Option<Diagnostic> {
    let params = || section.params.values();
    let set: Vec<&Leaf<String>> = params().flat_map(ParamLayer::set).collect();
    let absent: Vec<&Leaf<String>> = params().flat_map(ParamLayer::absent).collect();
    let texts = |list: &[&Leaf<String>]| -> Vec<String> {
        list.iter().map(|leaf| leaf.value.clone()).collect()
    };
    let error = argument::check_consistency(&texts(&set), &texts(&absent)).err()?;
    let text = error.to_string();
    let place = |list: &[&Leaf<String>]| {
        list.iter().find(|leaf| text.contains(&format!("`{}`", leaf.value))).map(|leaf| leaf.place)
    };
    let (first, second) = (place(&set), place(&absent));
    let at = second.or(first)?;
    let mut finding =
        Diagnostic::error(sources, at, "contradiction", text.clone()).label("against this");
    if let Some(other) = first.filter(|first| *first != at) {
        finding = finding.also(sources, other, "wanted here");
    }
    Some(finding)
}
