//! `[cmdline]`: each entry must be one kernel argument, and the entries of one file must not contradict each other.

use super::{Checker, Reason};
use crate::cmdline::{EditError, MAX_LINE_BYTES, TokenError};
use crate::profile::argument::{self, Owned, Unwanted};
use crate::profile::diagnostic::Diagnostic;
use crate::profile::fragment::{ArgEntry, CmdlineFragment, Entry};
use crate::profile::layer::{Argument, Keyed, Leaf, ParamLayer};
use crate::profile::source::Place;

impl Checker<'_> {
    pub(super) fn cmdline(&mut self, section: CmdlineFragment) -> Keyed<ParamLayer> {
        let args = self.arguments(section.args, argument::owned);
        let absent = self.arguments(section.absent, argument::unwanted);
        let mut out = Keyed::default();
        for (arg, owned) in &args {
            owned.iter().for_each(|owned| set(&mut out, arg, owned));
        }
        let contradicted = self.contradictions(&args, &absent);
        for (arg, unwanted) in absent {
            match unwanted {
                Unwanted::Whole(param) => {
                    // Sequences: `hugepagesz=` wanted and `hugepages` unwanted clash only as a whole.
                    if let Some(wanted) = out.entry(&param).set().next().filter(|_| !contradicted) {
                        let message = format!(
                            "`{}` is wanted and `{}` is to be absent",
                            wanted.value, arg.value
                        );
                        self.contradiction(message, wanted.place, arg.place);
                    }
                    out.entry(&param).cleared = Some(arg);
                }
                Unwanted::Parts(parts) => {
                    parts.iter().for_each(|owned| set_absent(&mut out, &arg, owned))
                }
            }
        }
        out
    }

    /// The entries that are kernel arguments, with what `read` takes them for.
    fn arguments<T>(
        &mut self,
        entries: Option<Vec<ArgEntry>>,
        read: fn(&str) -> Result<T, EditError>,
    ) -> Vec<(Leaf<String>, T)> {
        let mut out = Vec::new();
        for entry in entries.into_iter().flatten() {
            let (text, span, reason) = match entry.value {
                Entry::Short(text) => (text.0, entry.span, Reason { why: None, source: None }),
                Entry::Long(table) => (
                    table.arg.value.0,
                    table.arg.span,
                    Reason { why: table.why, source: table.source },
                ),
            };
            let place = self.place(span);
            if text.len() > MAX_LINE_BYTES {
                let message = format!(
                    "this argument has {} bytes; the kernel takes {MAX_LINE_BYTES}",
                    text.len()
                );
                let help =
                    "a kernel command line holds 2047 bytes in all (arch/x86/include/asm/setup.h)";
                self.error(place, "argument-too-long", message, "too long", Some(help.to_owned()));
                continue;
            }
            match read(&text) {
                Ok(meaning) => out.push((self.reasoned(text, place, reason), meaning)),
                Err(error) => self.bad_argument(&text, place, &error),
            }
        }
        out
    }

    fn bad_argument(&mut self, text: &str, place: Place, error: &EditError) {
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
        self.error(place, "bad-argument", reason, label, help);
    }

    /// What stands against what within this file. Only the first pair is reported: mending it may mend the rest.
    /// Says whether there is one.
    fn contradictions<A, B>(
        &mut self,
        args: &[(Leaf<String>, A)],
        absent: &[(Leaf<String>, B)],
    ) -> bool {
        let set: Vec<&str> = args.iter().map(|(arg, _)| arg.value.as_str()).collect();
        let unset: Vec<&str> = absent.iter().map(|(arg, _)| arg.value.as_str()).collect();
        let Err(error) = argument::together(&set, &unset) else { return false };
        let (first, second) = match &error {
            EditError::Contradiction { first, second } => {
                (find(args, first, 0), find(args, second, 1))
            }
            EditError::WantedAndAbsent { wanted, unwanted } => {
                (find(args, wanted, 0), find(absent, unwanted, 0))
            }
            _ => (None, None),
        };
        if let (Some(first), Some(second)) = (first, second) {
            self.contradiction(error.to_string(), first.place, second.place);
        }
        true
    }

    fn contradiction(&mut self, message: String, wanted: Place, against: Place) {
        let finding = Diagnostic::error(self.sources, against, "contradiction", message)
            .label("against this")
            .also(self.sources, wanted, "wanted here");
        self.out.push(finding);
    }
}

/// The `nth` entry with this text; the first when there are not so many.
fn find<'a, T>(list: &'a [(Leaf<String>, T)], text: &str, nth: usize) -> Option<&'a Leaf<String>> {
    let is_meant =
        |arg: &&Leaf<String>| arg.value == text || text.split(' ').any(|token| token == arg.value);
    let mut same = list.iter().map(|(arg, _)| arg).filter(is_meant);
    let first = same.next();
    if nth == 0 { first } else { same.next().or(first) }
}

fn set(out: &mut Keyed<ParamLayer>, arg: &Leaf<String>, owned: &Owned) {
    let slot = out.entry(&owned.param).arguments.entry(&owned.key);
    let token = Leaf { value: owned.token.clone(), ..arg.clone() };
    let place = token.place;
    match slot {
        Some(Leaf { value: Argument::Set(tokens), .. }) => tokens.push(token),
        _ => *slot = Some(Leaf::bare(Argument::Set(vec![token]), place)),
    }
}

fn set_absent(out: &mut Keyed<ParamLayer>, arg: &Leaf<String>, owned: &Owned) {
    let slot = out.entry(&owned.param).arguments.entry(&owned.key);
    let token = Leaf { value: owned.token.clone(), ..arg.clone() };
    let place = token.place;
    match slot {
        Some(Leaf { value: Argument::Absent(tokens), .. }) => tokens.push(token),
        // `foo=1` wanted and `foo=2` unwanted say the same thing twice: what is wanted is enough.
        Some(Leaf { value: Argument::Set(_), .. }) => {}
        None => *slot = Some(Leaf::bare(Argument::Absent(vec![token]), place)),
    }
}
