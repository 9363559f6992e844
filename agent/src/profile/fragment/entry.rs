//! List entries that are either a plain word or a table with the reason beside it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::at::At;
use crate::profile::model::ModuleLoad;

/// A plain value, or a table that says more.
#[derive(Debug, Clone)]
pub(in crate::profile) enum Entry<S, T> {
    /// Just the value.
    Short(S),
    /// With its reason.
    Long(T),
}

impl<'de, S: Deserialize<'de>, T: Deserialize<'de>> Deserialize<'de> for Entry<S, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor(PhantomData))
    }
}

/// By hand, because serde's untagged enums forget where values stand.
struct EntryVisitor<S, T>(PhantomData<(S, T)>);

impl<'de, S: Deserialize<'de>, T: Deserialize<'de>> Visitor<'de> for EntryVisitor<S, T> {
    type Value = Entry<S, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value or a table")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        S::deserialize(text.into_deserializer()).map(Entry::Short)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Self::Value, E> {
        S::deserialize(number.into_deserializer()).map(Entry::Short)
    }

    fn visit_bool<E: serde::de::Error>(self, truth: bool) -> Result<Self::Value, E> {
        S::deserialize(truth.into_deserializer()).map(Entry::Short)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Entry::Long)
    }
}

impl<S: JsonSchema, T: JsonSchema> JsonSchema for Entry<S, T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}Or{}", S::schema_name(), T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (short, long) = (generator.subschema_for::<S>(), generator.subschema_for::<T>());
        json_schema!({ "anyOf": [short, long] })
    }
}

/// One string or several.
#[derive(Debug, Clone)]
pub(in crate::profile) struct OneOrMany<T>(pub Vec<At<T>>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = toml::Spanned::<OneOrManyValue<T>>::deserialize(deserializer)?;
        let span = whole.span();
        Ok(match whole.into_inner() {
            OneOrManyValue::One(value) => OneOrMany(vec![At { value, span }]),
            OneOrManyValue::Many(values) => OneOrMany(values),
        })
    }
}

enum OneOrManyValue<T> {
    One(T),
    Many(Vec<At<T>>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrManyValue<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

struct OneOrManyVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrManyVisitor<T> {
    type Value = OneOrManyValue<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an array of strings")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(OneOrManyValue::One)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(OneOrManyValue::Many)
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// A kernel argument.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(in crate::profile) struct ArgText(
    /// One kernel argument, `name` or `name=value`, without boot loader quoting.
    #[schemars(length(min = 1, max = 2047), regex(pattern = r#"^([^\s"]|"[^"]*")+$"#))]
    pub String,
);

/// A kernel argument with its reason.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct ArgTable {
    /// One kernel argument, `name` or `name=value`, without boot loader quoting.
    pub arg: At<ArgText>,
    /// Why it is wanted; shown in plans.
    #[schemars(example = &"invalidate lazily: RDMA registrations are long-lived")]
    pub why: Option<At<String>>,
    /// Where the fact stands: a kernel file, a vendor page.
    #[schemars(example = &"drivers/iommu/Kconfig")]
    pub source: Option<At<String>>,
}

/// An entry of `cmdline.args` and `cmdline.absent`.
pub(in crate::profile) type ArgEntry = At<Entry<ArgText, ArgTable>>;

/// A module name.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(in crate::profile) struct ModuleText(
    /// A kernel module's name; `-` and `_` are the same.
    // 55 = MODULE_NAME_LEN on 64-bit kernels less the NUL (include/linux/moduleparam.h).
    #[schemars(regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,54}$"))]
    pub String,
);

/// A module with its reason.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct ModuleTable {
    /// The module's name; `-` and `_` are the same.
    pub name: At<ModuleText>,
    /// When it is loaded. Default: `modules.load_default`. Only for `modules.load`.
    pub load: Option<At<ModuleLoad>>,
    /// Why; shown in plans.
    #[schemars(example = &"user-space verbs need /dev/infiniband/uverbsN")]
    pub why: Option<At<String>>,
    /// Where the fact stands.
    #[schemars(example = &"rdma-core kernel-boot/modules/rdma.conf")]
    pub source: Option<At<String>>,
}

/// An entry of the module lists.
pub(in crate::profile) type ModuleEntry = At<Entry<ModuleText, ModuleTable>>;

/// A value of a module parameter.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::profile) enum Scalar {
    /// Text, as modprobe.d takes it.
    Text(String),
    /// A number.
    Number(i64),
    /// Written as 1 or 0.
    Truth(bool),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Text(text) => f.write_str(text),
            Scalar::Number(number) => write!(f, "{number}"),
            Scalar::Truth(truth) => write!(f, "{}", u8::from(*truth)),
        }
    }
}

/// A module parameter's value with its reason.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct OptionTable {
    /// The value; `true` and `false` are written as 1 and 0.
    pub value: Scalar,
    /// Why; shown in plans.
    pub why: Option<At<String>>,
    /// Where the fact stands.
    pub source: Option<At<String>>,
}

/// A value in `modules.options.MODULE`.
pub(in crate::profile) type OptionEntry = At<Entry<Scalar, OptionTable>>;
