//! Common rules of keys: reading a value from a file, and writing it.

use std::marker::PhantomData;
use std::str::FromStr;

use jiff::SignedDuration;
use serde::Serialize;

use bedplate_base::value::NotAValue;

use super::{Checker, Reason, Spanned};

/// Rule for reading and writing a key's value.
pub(crate) trait Rule {
    /// Type in TOML.
    type File;
    /// Type in the profile.
    type Value;

    /// Checks a value of a file. `key` is the dotted key. On failure, records a diagnostic and returns `None`.
    fn read(checker: &mut Checker<'_>, key: &str, at: Spanned<Self::File>) -> Option<Self::Value>;

    /// Returns the value as written by `profile show`.
    fn to_toml(value: &Self::Value) -> impl Serialize;

    /// Returns the value as an operator would write it in a file, for the schema's default.
    #[cfg(feature = "schemars")]
    fn in_file(value: &Self::Value) -> impl Serialize {
        Self::to_toml(value)
    }
}

/// A key's value in one file, if set.
pub(crate) type InFile<R> = Option<Spanned<<R as Rule>::File>>;

/// Returns the last value that a file sets for a key, read by its rule.
pub(crate) fn read_key<R: Rule>(
    checker: &mut Checker<'_>,
    key: &str,
    given: impl Iterator<Item = InFile<R>>,
) -> Option<R::Value> {
    let mut last = None;
    for at in given.flatten() {
        let place = at.place;
        if let Some(value) = R::read(checker, key, at) {
            checker.note(key, place, Reason::NONE);
            last = Some(value);
        }
    }
    last
}

/// A value that is used unchanged.
pub(crate) struct Plain<T>(PhantomData<T>);

impl<T: Serialize> Rule for Plain<T> {
    type File = T;
    type Value = T;

    fn read(_: &mut Checker<'_>, _: &str, at: Spanned<T>) -> Option<T> {
        Some(at.value)
    }

    fn to_toml(value: &T) -> impl Serialize {
        value
    }
}

/// Fault of a value: message, label, and help.
pub(crate) type Fault = (String, String, Option<String>);

/// Condition for using a value unchanged.
pub(crate) trait Check {
    /// Type of the value, in the file and in the profile.
    type Value: Serialize;

    /// Stable id of the error.
    const ID: &'static str;

    /// Returns the fault of a value, if any. `key` is the dotted key.
    fn fault(key: &str, value: &Self::Value) -> Option<Fault>;
}

/// A value without a fault according to a [`Check`].
pub(crate) struct Checked<C>(PhantomData<C>);

impl<C: Check> Rule for Checked<C> {
    type File = C::Value;
    type Value = C::Value;

    fn read(checker: &mut Checker<'_>, key: &str, at: Spanned<C::Value>) -> Option<C::Value> {
        let Some((message, label, help)) = C::fault(key, &at.value) else {
            return Some(at.value);
        };
        checker.error(at.place, C::ID, message, label, help.as_deref());
        None
    }

    fn to_toml(value: &C::Value) -> impl Serialize {
        value
    }
}

/// A value that is parsed from text.
pub(crate) struct Parsed<T>(PhantomData<T>);

impl<T: FromStr<Err = NotAValue> + Serialize> Rule for Parsed<T> {
    type File = String;
    type Value = T;

    fn read(checker: &mut Checker<'_>, _: &str, at: Spanned<String>) -> Option<T> {
        checker.parse(&at, "bad-value")
    }

    fn to_toml(value: &T) -> impl Serialize {
        value
    }
}

/// A list of checked values. A later file replaces the whole list.
pub(crate) struct Each<C>(PhantomData<C>);

impl<C: Check> Rule for Each<C> {
    type File = Vec<Spanned<C::Value>>;
    type Value = Vec<C::Value>;

    fn read(
        checker: &mut Checker<'_>,
        key: &str,
        list: Spanned<Self::File>,
    ) -> Option<Self::Value> {
        let values = list.value.into_iter();
        Some(values.filter_map(|value| Checked::<C>::read(checker, key, value)).collect())
    }

    fn to_toml(value: &Self::Value) -> impl Serialize {
        value
    }
}

/// A valid shell pattern.
pub(crate) struct Pattern;

impl Check for Pattern {
    type Value = String;
    const ID: &'static str = "bad-pattern";

    fn fault(_: &str, text: &String) -> Option<Fault> {
        let error = glob::Pattern::new(text).err()?;
        let help = "`[` opens a character set; write `[[]` for a literal bracket";
        Some((
            format!("`{text}` is not a shell pattern"),
            error.msg.to_owned(),
            Some(help.to_owned()),
        ))
    }
}

/// Seconds of a day.
pub(crate) const DAY: u32 = 24 * 60 * 60;

/// A length of time in seconds, from `LEAST` to `MOST`.
pub(crate) struct Length<const LEAST: u32, const MOST: u32>;

impl<const LEAST: u32, const MOST: u32> Rule for Length<LEAST, MOST> {
    type File = String;
    type Value = u32;

    fn read(checker: &mut Checker<'_>, key: &str, text: Spanned<String>) -> Option<u32> {
        let place = text.place;
        let Some(duration) = bedplate_base::duration::parse(&text.value) else {
            let message = format!("`{}` is not a duration", text.value);
            let label = "expected a duration such as `10m` or `1h 30m`";
            checker.error(place, "bad-interval", message, label, None);
            return None;
        };
        let of = |seconds: u32| SignedDuration::from_secs(seconds.into());
        if duration < of(LEAST) || duration > of(MOST) {
            let message = format!("`{}` is out of range for `{key}`", text.value);
            let label = format!("expected {} to {}", format_bound(LEAST), format_bound(MOST));
            checker.error(place, "bad-interval", message, label, None);
            return None;
        }
        u32::try_from(duration.as_secs()).ok()
    }

    fn to_toml(seconds: &u32) -> impl Serialize {
        format!("{seconds}s")
    }

    #[cfg(feature = "schemars")]
    fn in_file(seconds: &u32) -> impl Serialize {
        let (number, unit) =
            largest_unit(*seconds, &[(3600, "h"), (60, "m")]).unwrap_or((*seconds, "s"));
        format!("{number}{unit}")
    }
}

/// Formats a bound for a sentence.
fn format_bound(seconds: u32) -> String {
    let units = [(DAY, "day"), (3600, "hour"), (60, "minute"), (1, "second")];
    match largest_unit(seconds, &units) {
        None => "nothing".to_owned(),
        Some((1, unit)) => format!("one {unit}"),
        Some((7, "day")) => "seven days".to_owned(),
        Some((number, unit)) => format!("{number} {unit}s"),
    }
}

/// Returns the largest unit of which this is a whole number.
fn largest_unit<'u>(seconds: u32, units: &[(u32, &'u str)]) -> Option<(u32, &'u str)> {
    let whole = |(of, _): &&(u32, &str)| seconds > 0 && seconds.is_multiple_of(*of);
    units.iter().find(whole).map(|(of, unit)| (seconds / of, *unit))
}
