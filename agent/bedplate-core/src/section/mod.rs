//! How a section of the profile is declared. [`section!`] takes its keys, each with its meaning, type, rule and default in
//! one place, and makes of them what a file may hold (and so the JSON Schema and `profile explain`), how layers are merged,
//! the typed model, and the section's part of `profile show`. Nothing here knows a section.
//!
//! ```text
//! section! {
//!     /// `[agent]`.
//!     #[derive(Debug, Clone)]
//!     "agent" Agent, AgentFragment, AgentLayer {
//!         /// What the key means: schema, `explain` and the editor show this.
//!         #[schemars(example = &"10m")]                   (what else the schema says)
//!         interval_s ("interval"): u32 as Length<10, DAY> = 15 * 60;
//!     // field   key in the file   type  rule               default
//!     }
//! }
//! ```
//!
//! Without a key of its own a field is called as in the file; without a rule the value is taken as it stands; without a
//! default the model has an `Option`. A `reason` is the pair of keys `why` and `source`, which explain one of the others.
//!
//! What does not merge value by value is a `special`: its keys have a layer type of their own, which says how it merges, a
//! function that reads them, one for each field they come to in the model (`before` or `after` the fields of the other keys),
//! and one that shows them. `merged` names what checks the section once all files are merged, and `lints` its table of lints.

mod at;
mod check;
mod diagnostic;
mod entry;
mod finish;
mod layer;
mod lint;
mod print;
mod rule;
mod scalar;
mod source;

use std::any::{Any, TypeId};

use bedplate_base::value::PciId;

pub(crate) use at::Spanned;
pub(crate) use check::{Checker, Reason};
pub(crate) use diagnostic::ProfileErrors;
pub use diagnostic::{Diagnostic, Severity, render_all};
pub(crate) use entry::Entry;
pub(crate) use entry::OneOrMany;
pub(crate) use finish::Origin;
pub(crate) use finish::{Finisher, key_of, quoted};
pub(crate) use layer::overlay_fields;
pub(crate) use layer::{Leaf, OrderedMap, Overlay};
pub(crate) use lint::{Lint, LintMatch, Linter, SectionLint};
pub(crate) use print::{ListEntry, Printer, toml_text};
pub(crate) use rule::{DAY, InFile, Length, Pattern, Plain, Rule, read_key};
pub(crate) use scalar::{Scalar, ScalarEntry};
pub(crate) use source::{Place, SourceFile, Sources};

/// A merged profile, as kinds see it: its name, and any section by its type. Which sections there are is the profile's
/// business, which knows the kinds.
pub trait ProfileSections {
    /// The profile's name.
    fn name(&self) -> &str;
    /// The section of a type, if there is one.
    fn section(&self, of: TypeId) -> Option<&dyn Any>;
    /// Vendors of the PCI devices that the profile is for (its `match`): what an image of such a machine has to go by.
    fn vendors(&self) -> Vec<PciId>;
}

impl dyn ProfileSections + '_ {
    /// The section of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.section(TypeId::of::<T>())?.downcast_ref()
    }
}

/// A section, as its merged layer stands for it.
pub(crate) trait Section: Overlay + Default + 'static {
    /// One file's section as TOML has it.
    type File;
    /// The section in the merged profile.
    type Model: 'static;

    /// Checks what one file says.
    fn read(file: Self::File, checker: &mut Checker<'_>) -> Self;
    /// What was not said gets its default.
    fn finish(&self, finisher: &mut Finisher<'_>) -> Self::Model;
    /// Writes it as TOML.
    fn show(&self, model: &Self::Model, out: &mut Printer<'_>);

    /// What is wrong only once all files are merged.
    fn contradiction(&self, _: &Sources) -> Option<Diagnostic> {
        None
    }

    /// What is valid but seldom or never right, as far as this section alone tells.
    const LINTS: &'static [SectionLint<Self, Self::Model>] = &[];
}

/// Declares a section; see the head of this module.
macro_rules! section {
    (
        $(#[$of_model:meta])*
        $name:literal $model:ident, $fragment:ident, $layer:ident {
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
        $(special $special:ident: $special_layer:ty = $read:path {
            $(
                $(#[doc = $special_doc:tt])*
                $(#[schemars($($special_schema:tt)*)])?
                $special_key:ident: $special_type:ty;
            )*
        }
        $(before {
            $( $(#[$of_before:meta])* $before:ident: $before_type:ty = $finish_before:path; )*
        })?
        $(after {
            $( $(#[$of_after:meta])* $after:ident: $after_type:ty = $finish_after:path; )*
        })?
        show $show:path;)?
        $(merged $contradiction:path;)?
        $(lints $lints:path;)?
    ) => {
        #[doc = concat!("`[", $name, "]`.")]
        #[derive(Debug, Clone, Default, serde::Deserialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $fragment {
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

        #[doc = concat!("`[", $name, "]`, as merged so far.")]
        #[derive(Debug, Clone, Default, PartialEq)]
        pub(crate) struct $layer {
            $( pub(crate) $field: Option<$crate::section::Leaf<$type>>, )*
            $( pub(crate) $special: $special_layer, )?
        }
        $crate::section::overlay_fields!($layer { $($field,)* $($special,)? });

        $(#[$of_model])*
        // Some models are part of what other crates read, some are not.
        #[allow(unreachable_pub)]
        pub struct $model {
            $($($( $(#[$of_before])* pub $before: $before_type, )*)?)?
            $(
                $(#[doc = $doc])*
                pub $field: $crate::section::model_type!($type $(, $default)?),
            )*
            $($($( $(#[$of_after])* pub $after: $after_type, )*)?)?
            $(
                #[doc = concat!("Where and why the profile gives `", stringify!($reasoned), "`.")]
                pub why: Vec<$crate::plan::Rationale>,
            )?
        }

        impl $crate::section::Section for $layer {
            type File = $fragment;
            type Model = $model;

            fn read(file: $fragment, checker: &mut $crate::section::Checker<'_>) -> Self {
                $( let given = file.$reasoned.is_some(); )?
                $(
                    let $field =
                        $crate::section::read_key::<$crate::section::rule_of!($type $(, $rule)?)>(
                            checker, $crate::section::key!($name, $field $(, $key)?), file.$field,
                        );
                )*
                $(
                    let reason =
                        $crate::section::Reason { why: file.why, source: file.source };
                    let key = stringify!($reasoned);
                    let $reasoned = checker.explained($name, key, given, $reasoned, reason);
                )?
                $( let $special = $read(checker, $(file.$special_key),*); )?
                $layer { $($field,)* $($special,)? }
            }

            fn finish(&self, finisher: &mut $crate::section::Finisher<'_>) -> $model {
                $model {
                    $($($( $before: $finish_before(self, finisher), )*)?)?
                    $( $field: $crate::section::finish_key!(
                        finisher,
                        $crate::section::key!($name, $field $(, $key)?),
                        &self.$field
                        $(, $default)?
                    ), )*
                    $($($( $after: $finish_after(self, finisher), )*)?)?
                    $( why: finisher.reasons(&self.$reasoned), )?
                }
            }

            fn show(&self, model: &$model, out: &mut $crate::section::Printer<'_>) {
                out.section($name);
                $(
                    out.value::<$crate::section::rule_of!($type $(, $rule)?)>(
                        $crate::section::key!($name, $field $(, $key)?),
                        $crate::section::given!(&model.$field $(, $default)?),
                        &self.$field,
                    );
                )*
                $( $show(self, model, out); )?
            }

            $(
                fn contradiction(
                    &self,
                    sources: &$crate::section::Sources,
                ) -> Option<$crate::section::Diagnostic> {
                    $contradiction(self, sources)
                }
            )?

            $(
                const LINTS: &'static [$crate::section::SectionLint<Self, $model>] = $lints;
            )?
        }
    };
}
pub(crate) use section;

/// The rule of a key that names one, or the rule that takes values as they stand.
macro_rules! rule_of {
    ($type:ty, $rule:ty) => { $rule };
    ($type:ty) => { $crate::section::Plain<$type> };
}
pub(crate) use rule_of;

/// A key's default as the schema has it; null, which the schema drops, where there is none.
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

/// The type of a key in the model: with a default there is always a value.
macro_rules! model_type {
    ($type:ty, $default:expr) => { $type };
    ($type:ty) => { Option<$type> };
}
pub(crate) use model_type;

/// The dotted key of a field.
macro_rules! key {
    ($section:literal, $field:ident, $key:tt) => {
        concat!($section, ".", $key)
    };
    ($section:literal, $field:ident) => {
        concat!($section, ".", stringify!($field))
    };
}
pub(crate) use key;

/// A field of the model from its layer.
macro_rules! finish_key {
    ($finisher:ident, $key:expr, $leaf:expr, $default:expr) => {
        $finisher.or($key, $leaf, $default)
    };
    ($finisher:ident, $key:expr, $leaf:expr) => {
        $finisher.optional($key, $leaf)
    };
}
pub(crate) use finish_key;

/// A field of the model, where there is a value.
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
