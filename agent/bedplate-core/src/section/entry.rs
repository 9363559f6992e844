//! Values that are either a plain word, or a table or list with more information.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A plain value, or a table or list with more information.
#[derive(Debug, Clone)]
pub(crate) enum Entry<S, T> {
    /// Plain value.
    Short(S),
    /// Table or list.
    Long(T),
}

impl<'de, S: Deserialize<'de>, T: Deserialize<'de>> Deserialize<'de> for Entry<S, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor(PhantomData))
    }
}

/// Written by hand, because serde's untagged enums lose the places of values.
struct EntryVisitor<S, T>(PhantomData<(S, T)>);

impl<'de, S: Deserialize<'de>, T: Deserialize<'de>> Visitor<'de> for EntryVisitor<S, T> {
    type Value = Entry<S, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value, a table or a list")
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

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        T::deserialize(SeqAccessDeserializer::new(seq)).map(Entry::Long)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Entry::Long)
    }
}

#[cfg(feature = "schemars")]
impl<S: schemars::JsonSchema, T: schemars::JsonSchema> schemars::JsonSchema for Entry<S, T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{}Or{}", S::schema_name(), T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let (short, long) = (generator.subschema_for::<S>(), generator.subschema_for::<T>());
        schemars::json_schema!({ "anyOf": [short, long] })
    }
}
