//! Arguments that take one of a few words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A word, its line of help (empty: none), and the value that it stands for.
pub(crate) type Word<T> = (&'static str, &'static str, T);

/// Parses any of these words.
pub(crate) fn one_of<T>(words: &'static [Word<T>]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let shown = words.iter().map(|(word, help, _)| match *help {
        "" => PossibleValue::new(*word),
        help => PossibleValue::new(*word).help(help),
    });
    PossibleValuesParser::new(shown).try_map(|given| {
        let known = words.iter().find(|(word, ..)| *word == given);
        known.map(|(_, _, value)| *value).ok_or("no such word")
    })
}
