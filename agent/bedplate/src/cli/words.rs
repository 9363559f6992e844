//! Arguments with a fixed set of words.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use bedplate_core::verify::Stage;

/// Word, help line (may be empty), and value.
pub(crate) type Word<T> = (&'static str, &'static str, T);

/// Words of `--stage`.
pub(crate) const STAGES: [Word<Stage>; 2] = [
    ("host", "firmware, boot entry, IOMMU, ACS, VFs: needs no GPU driver", Stage::Host),
    ("gpudirect", "everything: also drivers, peer memory and ports", Stage::Gpudirect),
];

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
