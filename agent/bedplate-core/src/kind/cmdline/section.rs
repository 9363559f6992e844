//! `[cmdline]`: each entry must be one kernel argument, and the entries of one file must not contradict each other.

use std::collections::BTreeMap;
use std::slice;

use serde::{Deserialize, Serialize};

use crate::desired::{ArgSource, KernelArg};
use crate::section::{
    Checker, Entry, OrderedMap, Place, Printer, Reason, Spanned, key_of, section,
};
use bedplate_cmdline::{EditError, MAX_LINE_BYTES, Token};

mod argument;
pub mod iommu;

use argument::{BadArgument, OwnedOption, UnwantedEntry};

section! {
    /// `[cmdline]`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    "cmdline" Cmdline, CmdlineFile {}
    special read_params {
        /// Arguments that must be on the kernel command line. Entries are merged by parameter, or by option for `pci=` and
        /// other option lists: a later file's entry replaces an earlier one, also one of `absent`.
        #[schemars(
            extend("default" = [] as [&str; 0]),
            example = vec!["iommu.strict=0", "pci=realloc=off"],
            extend("x-source" = "Documentation/admin-guide/kernel-parameters.txt")
        )]
        args: Vec<ArgEntry>;

        /// Arguments that must be absent: `name` (with any value), `pci=option`, or `name=value` for only that value. A
        /// later file's entry replaces an earlier `args` entry for the same parameter.
        #[schemars(
            extend("default" = [] as [&str; 0]),
            example = vec!["pci=noats", "nomodeset"],
            extend("x-source" = "Documentation/admin-guide/kernel-parameters.txt")
        )]
        absent: Vec<ArgEntry>;
    }
    before {
        /// In order.
        args: Vec<KernelArg>;
        /// In order.
        absent: Vec<KernelArg>;
    }
    show show_params;
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
    /// Reason, shown in plans.
    #[cfg_attr(feature = "schemars", schemars(example = &"invalidate lazily: RDMA registrations are long-lived"))]
    pub why: Option<Spanned<String>>,
    /// Source of the fact: a kernel file, a vendor page.
    #[cfg_attr(feature = "schemars", schemars(example = &"drivers/iommu/Kconfig"))]
    pub source: Option<Spanned<String>>,
}

/// Entry of `cmdline.args` or `cmdline.absent`.
pub(crate) type ArgEntry = Spanned<Entry<ArgText, ArgTable>>;

/// Entries for one kernel parameter.
#[derive(Debug, Default)]
struct Parameter {
    /// Entries that remove the whole parameter with any value, by the name that they use (`hugepagesz`, `hugepages`).
    cleared: OrderedMap<Option<Listed>>,
    /// Arguments by the key that they own: the parameter itself, or one of its options. The last file with a key
    /// decides.
    arguments: OrderedMap<Argument>,
}

/// Tokens of one parameter or option.
#[derive(Debug, Default)]
struct Argument {
    /// Desired tokens, in order. Several if they only make sense together (`hugepagesz=`, `hugepages=`).
    set: Vec<Listed>,
    /// Unwanted tokens. Both lists can be filled, since the kernel uses every `console=` of a line.
    absent: Vec<Listed>,
}

/// A kernel argument, or one option of it, as listed in a file.
#[derive(Debug, Clone)]
struct Listed {
    token: Token,
    place: Place,
    reason: Reason,
}

impl Parameter {
    /// Returns the desired tokens, in order.
    fn set(&self) -> impl Iterator<Item = &Listed> {
        self.arguments.values().flat_map(|argument| &argument.set)
    }

    /// Returns the unwanted tokens, the cleared parameter first. A desired token of the parameter overrides an earlier
    /// entry that clears the whole parameter.
    fn absent(&self) -> impl Iterator<Item = &Listed> {
        let sets_something = self.set().next().is_some();
        let cleared = self.cleared.values().flatten().filter(move |_| !sets_something);
        cleared.chain(self.arguments.values().flat_map(|argument| &argument.absent))
    }

    /// Merges the entries of a later file over these.
    fn overlay(&mut self, later: Parameter) {
        // A file that removes the whole parameter decides on all its options.
        if !later.cleared.0.is_empty() {
            self.arguments = OrderedMap::default();
        }
        later.cleared.0.into_iter().for_each(|(name, arg)| *self.cleared.entry(&name) = arg);
        later.arguments.0.into_iter().for_each(|(key, all)| *self.arguments.entry(&key) = all);
    }
}

fn read_params(section: &mut Cmdline, files: Vec<CmdlineFile>, checker: &mut Checker<'_>) {
    let mut parameters: OrderedMap<Parameter> = OrderedMap::default();
    let errors = checker.errors();
    for file in files {
        for (name, parameter) in read_file(checker, file).0 {
            parameters.entry(&name).overlay(parameter);
        }
    }
    // Merging by key can leave contradictions: one file sets `iommu=pt`, another removes `iommu` with any value.
    let args: Vec<_> = parameters.values().flat_map(Parameter::set).collect();
    let absent: Vec<_> = parameters.values().flat_map(Parameter::absent).collect();
    if checker.errors() == errors {
        report_contradiction(checker, &args, &absent);
    }
    let mut note = |list: &str, listed: Vec<&Listed>| -> Vec<KernelArg> {
        let keys = keys(list, listed.iter().map(|listed| &listed.token));
        let noted = keys.into_iter().zip(listed).map(|(key, Listed { token, place, reason })| {
            let why = checker.note(&key, *place, reason.clone());
            KernelArg { token: token.clone(), why, from: ArgSource::Cmdline }
        });
        noted.collect()
    };
    section.args = note(ARGS, args);
    section.absent = note(ABSENT, absent);
}

/// Dotted key of the list of desired arguments.
pub(crate) const ARGS: &str = "cmdline.args";
/// Dotted key of the list of unwanted arguments.
const ABSENT: &str = "cmdline.absent";

/// Returns the dotted keys of the arguments of a list. A repeated argument has its number appended, as the second
/// `hugepages=8` of `hugepagesz=2M hugepages=8 hugepagesz=1G hugepages=8`.
pub(crate) fn keys<'a>(list: &str, tokens: impl Iterator<Item = &'a Token>) -> Vec<String> {
    let mut counts: BTreeMap<&Token, u32> = BTreeMap::new();
    let key = |token: &'a Token| {
        let count = counts.entry(token).or_default();
        *count += 1;
        match *count {
            1 => key_of(list, token.as_str()),
            count => key_of(list, &format!("{token} ({count})")),
        }
    };
    tokens.map(key).collect()
}

fn read_file(checker: &mut Checker<'_>, file: CmdlineFile) -> OrderedMap<Parameter> {
    let args = arguments(checker, file.args, argument::owned);
    let absent = arguments(checker, file.absent, argument::unwanted);
    let mut out = OrderedMap::default();
    for (arg, owned) in &args {
        owned.iter().for_each(|owned| argument_of(&mut out, owned).set.push(part(arg, owned)));
    }
    let (set, unset): (Vec<_>, Vec<_>) =
        (args.iter().map(|(arg, _)| arg).collect(), absent.iter().map(|(arg, _)| arg).collect());
    let contradicted = report_contradiction(checker, &set, &unset);
    for (arg, unwanted) in absent {
        match unwanted {
            UnwantedEntry::Whole(param) => {
                // Sequences: `hugepagesz=` in `args` and `hugepages` in `absent` clash only as whole parameters.
                let parameter: &mut Parameter = out.entry(&param);
                if let Some(wanted) = parameter.set().next().filter(|_| !contradicted) {
                    let message =
                        format!("`{}` is requested, `{}` must be absent", wanted.token, arg.token);
                    contradiction(checker, message, wanted.place, arg.place);
                }
                let name = bedplate_cmdline::fold_name(arg.token.as_str());
                *parameter.cleared.entry(&name) = Some(arg);
            }
            UnwantedEntry::Parts(parts) => parts
                .iter()
                .for_each(|owned| argument_of(&mut out, owned).absent.push(part(&arg, owned))),
        }
    }
    out
}

fn argument_of<'a>(out: &'a mut OrderedMap<Parameter>, owned: &OwnedOption) -> &'a mut Argument {
    out.entry(&owned.param).arguments.entry(&owned.key)
}

/// Returns the part of an argument that sets one option.
fn part(arg: &Listed, owned: &OwnedOption) -> Listed {
    Listed { token: owned.token.clone(), ..arg.clone() }
}

/// Returns the entries that are kernel arguments, with the result of `read`. Reports all others as errors.
fn arguments<T>(
    checker: &mut Checker<'_>,
    entries: Option<Vec<ArgEntry>>,
    read: fn(&Token) -> Result<T, BadArgument>,
) -> Vec<(Listed, T)> {
    let mut out = Vec::new();
    for Spanned { value: entry, place } in entries.into_iter().flatten() {
        let (text, place, reason) = match entry {
            Entry::Short(text) => (text.0, place, Reason::NONE),
            Entry::Long(table) => {
                let reason = Reason { why: table.why, source: table.source };
                (table.arg.value.0, table.arg.place, reason)
            }
        };
        let length = text.len();
        if length > MAX_LINE_BYTES {
            let message =
                format!("argument has {length} bytes; the kernel limit is {MAX_LINE_BYTES}");
            let help =
                "a whole kernel command line has at most 2047 bytes (arch/x86/include/asm/setup.h)";
            checker.error(place, "argument-too-long", message, "too long", Some(help));
            continue;
        }
        let read = |text| {
            let token = Token::new(text)?;
            read(&token).map(|meaning| (token, meaning))
        };
        match read(&text) {
            Ok((token, meaning)) => out.push((Listed { token, place, reason }, meaning)),
            Err(BadArgument { message, label, help }) => {
                checker.error(place, "bad-argument", message, label, help.as_deref());
            }
        }
    }
    out
}

/// Reports the first two arguments that contradict each other, since correcting them may resolve the rest. Returns
/// whether there are any.
fn report_contradiction(checker: &mut Checker<'_>, args: &[&Listed], absent: &[&Listed]) -> bool {
    let tokens =
        |list: &[&Listed]| -> Vec<Token> { list.iter().map(|arg| arg.token.clone()).collect() };
    let Err(error) = argument::check_consistency(tokens(args), tokens(absent)) else {
        return false;
    };
    let place = |list: &[&Listed], tokens: &[Token]| {
        list.iter().find(|arg| tokens.contains(&arg.token)).map(|arg| arg.place)
    };
    let (wanted, against) = match &error {
        EditError::Contradiction { first, second } => (place(args, first), place(args, second)),
        EditError::WantedAndAbsent { wanted, unwanted } => {
            (place(args, wanted), place(absent, slice::from_ref(unwanted)))
        }
        // The lists contain only entries that can be owned.
        EditError::NoOption { .. } | EditError::NoTruthValue { .. } => (None, None),
    };
    // Falls back to any known place, so that no contradiction goes unreported.
    let known =
        wanted.or(against).or_else(|| args.iter().chain(absent).map(|arg| arg.place).next());
    if let Some(known) = known {
        let (wanted, against) = (wanted.unwrap_or(known), against.unwrap_or(known));
        contradiction(checker, error.to_string(), wanted, against);
    }
    true
}

fn contradiction(checker: &mut Checker<'_>, message: String, wanted: Place, against: Place) {
    let (at, with) = ((against, "conflicting entry"), (wanted, "requested here"));
    checker.clash("contradiction", message, at, with, None);
}

fn show_params(section: &Cmdline, out: &mut Printer<'_>) {
    for (name, list, args) in [("args", ARGS, &section.args), ("absent", ABSENT, &section.absent)] {
        let entry = |(arg, key): (&KernelArg, String)| {
            (out.entry_text("arg", arg.token.as_str(), &key, None), key)
        };
        let keys = keys(list, args.iter().map(|arg| &arg.token));
        let entries: Vec<_> = args.iter().zip(keys).map(entry).collect();
        out.list(name, &entries);
    }
}
