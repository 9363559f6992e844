//! Declaration of a profile section. [`section!`] takes its keys, each with its meaning, type, rule, and default in one
//! place. It generates the form in files (and so the JSON Schema and `profile explain`), the merge of files into the
//! typed section, and the section's part of `profile show`. Nothing here depends on a particular section.
//!
//! ```text
//! section! {
//!     /// `[agent]`.
//!     #[derive(Debug, Clone)]
//!     "agent" Agent, AgentFile {
//!         /// What the key means: schema, `explain` and the editor show this.
//!         #[schemars(example = &"10m")]                   (what else the schema says)
//!         interval_s ("interval"): u32 as Length<10, DAY> = 15 * 60;
//!     // field   key in the file   type  rule               default
//!     }
//! }
//! ```
//!
//! Without a key of its own a field has the same name as in the file. Without a rule the value is used unchanged;
//! without a default the section has an `Option`. A `reason` is the pair of keys `why` and `source`, which explain
//! another key.
//!
//! If several files set a key, the last one takes effect. A `special` merges differently: it has keys, a function that
//! reads their values from all files, and one that shows the result. Its fields are `before` or `after` those of the
//! other keys.

mod at;
mod check;
mod diagnostic;
mod entry;
mod ordered_map;
mod print;
mod rule;
mod scalar;
mod source;

pub(crate) use at::Spanned;
pub(crate) use check::{Checker, Origin, Reason};
pub(crate) use diagnostic::ProfileErrors;
pub use diagnostic::{Diagnostic, Severity, render_all};
pub(crate) use entry::Entry;
pub(crate) use ordered_map::OrderedMap;
pub(crate) use print::{Printer, key_of, quoted, toml_text};
pub(crate) use rule::{
    Check, Checked, DAY, Each, Fault, InFile, Length, Parsed, Pattern, Plain, Rule, read_key,
};
pub(crate) use scalar::{Scalar, ScalarEntry};
pub(crate) use source::{Place, SourceFile, Sources};

/// A section of the merged profile.
pub(crate) trait Section: Sized {
    /// One file's section as TOML.
    type File;

    /// Checks and merges the files' sections, in their order. Keys without a value get their defaults.
    fn read(files: Vec<Self::File>, checker: &mut Checker<'_>) -> Self;

    /// Writes the section as TOML.
    fn show(&self, out: &mut Printer<'_>);
}

/// Declares a section; see the module documentation.
macro_rules! section {
    (
        $(#[$of_section:meta])*
        $name:literal $section:ident, $file:ident {
            $(
                $(#[doc = $doc:tt])*
                $(#[schemars($($schema:tt)*)])?
                $field:ident $(($key:tt))?: $type:ty $(as $rule:ty)? $(= $default:expr)?;
            )*
        }
        $(reason of $reasoned:ident {
            $(#[doc = $why_doc:tt])*
            $(#[schemars($($why_schema:tt)*)])?
            why;
            $(#[doc = $source_doc:tt])*
            $(#[schemars($($source_schema:tt)*)])?
            source;
        })?
        $(special $read:path {
            $(
                $(#[doc = $special_doc:tt])*
                $(#[schemars($($special_schema:tt)*)])?
                $special_key:ident: $special_type:ty;
            )*
        }
        $(before { $( $(#[$of_before:meta])* $before:ident: $before_type:ty; )* })?
        $(after { $( $(#[$of_after:meta])* $after:ident: $after_type:ty; )* })?
        show $show:path;)?
    ) => {
        #[doc = concat!("`[", $name, "]`.")]
        #[derive(Debug, Clone, Default, serde::Deserialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $file {
            $(
                $(#[doc = $doc])*
                $(#[cfg_attr(feature = "schemars", schemars($($schema)*))])?
                $(#[serde(rename = $key)])?
                #[cfg_attr(
                    feature = "schemars",
                    schemars(extend("default" = $crate::section::default_in_file!(
                        ($type $(, $rule)?) $($default)?
                    )))
                )]
                pub $field: $crate::section::InFile<
                    $crate::section::rule_of!($type $(, $rule)?)
                >,
            )*
            $(
                $(#[doc = $why_doc])*
                $(#[cfg_attr(feature = "schemars", schemars($($why_schema)*))])?
                pub why: Option<$crate::section::Spanned<String>>,
                $(#[doc = $source_doc])*
                $(#[cfg_attr(feature = "schemars", schemars($($source_schema)*))])?
                pub source: Option<$crate::section::Spanned<String>>,
            )?
            $($(
                $(#[doc = $special_doc])*
                $(#[cfg_attr(feature = "schemars", schemars($($special_schema)*))])?
                pub $special_key: Option<$special_type>,
            )*)?
        }

        $(#[$of_section])*
        // Some sections are read by other crates, some are not.
        #[allow(unreachable_pub)]
        pub struct $section {
            $($($( $(#[$of_before])* pub $before: $before_type, )*)?)?
            $(
                $(#[doc = $doc])*
                pub $field: $crate::section::type_of!($type $(, $default)?),
            )*
            $($($( $(#[$of_after])* pub $after: $after_type, )*)?)?
            $(
                #[doc = concat!("Place and reason, in the profile, of `", stringify!($reasoned), "`.")]
                pub why: Vec<$crate::plan::Rationale>,
            )?
        }

        impl $crate::section::Section for $section {
            type File = $file;

            #[allow(unused_mut)]
            fn read(mut files: Vec<$file>, checker: &mut $crate::section::Checker<'_>) -> Self {
                $( let reasoned = files.iter_mut().map(|file| {
                    let reason =
                        $crate::section::Reason { why: file.why.take(), source: file.source.take() };
                    (file.$reasoned.as_ref().map(|at| at.place), reason)
                }).collect(); )?
                let mut section = $section {
                    $($($( $before: Default::default(), )*)?)?
                    $( $field: $crate::section::or_default!(
                        $crate::section::read_key::<$crate::section::rule_of!($type $(, $rule)?)>(
                            checker,
                            $crate::section::key!($name, $field $(, $key)?),
                            files.iter_mut().map(|file| file.$field.take()),
                        )
                        $(, $default)?
                    ), )*
                    $($($( $after: Default::default(), )*)?)?
                    $( why: checker.explained($name, stringify!($reasoned), reasoned), )?
                };
                $( $read(&mut section, files, checker); )?
                section
            }

            fn show(&self, out: &mut $crate::section::Printer<'_>) {
                out.section($name);
                $(
                    out.value::<$crate::section::rule_of!($type $(, $rule)?)>(
                        $crate::section::key!($name, $field $(, $key)?),
                        $crate::section::given!(&self.$field $(, $default)?),
                    );
                )*
                $( $show(self, out); )?
            }
        }
    };
}
pub(crate) use section;

/// Returns the rule of a key; without one, the rule that uses values unchanged.
macro_rules! rule_of {
    ($type:ty, $rule:ty) => { $rule };
    ($type:ty) => { $crate::section::Plain<$type> };
}
pub(crate) use rule_of;

/// Returns a key's default for the schema; without one, null, which the schema drops.
#[cfg(feature = "schemars")]
macro_rules! default_in_file {
    (($type:ty $(, $rule:ty)?) $default:expr) => {
        <$crate::section::rule_of!($type $(, $rule)?)
            as $crate::section::Rule>::in_file(&$default)
    };
    (($type:ty $(, $rule:ty)?)) => { serde_json::Value::Null };
}
#[cfg(feature = "schemars")]
pub(crate) use default_in_file;

/// Returns the type of a key's field; an `Option` without a default.
macro_rules! type_of {
    ($type:ty, $default:expr) => { $type };
    ($type:ty) => { Option<$type> };
}
pub(crate) use type_of;

/// Returns the dotted key of a field.
macro_rules! key {
    ($section:literal, $field:ident, $key:tt) => {
        concat!($section, ".", $key)
    };
    ($section:literal, $field:ident) => {
        concat!($section, ".", stringify!($field))
    };
}
pub(crate) use key;

/// Returns a key's value, or its default.
macro_rules! or_default {
    ($value:expr, $default:expr) => {
        $value.unwrap_or($default)
    };
    ($value:expr) => {
        $value
    };
}
pub(crate) use or_default;

/// Returns a reference to a field's value, if any.
macro_rules! given {
    ($field:expr, $default:expr) => {
        Some($field)
    };
    ($field:expr) => {
        $field.as_ref()
    };
}
pub(crate) use given;

#[cfg(test)]
mod tests;
