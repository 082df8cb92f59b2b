//! The fields of a serialisable value in the order in which they are declared, each as text.
//!
//! Reports show every setting that a run has without knowing each by name, so a setting that is added appears in them
//! by itself.

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// Names, with blanks for underscores, and values as text. Fields that are null are left out, and so is everything
/// of a value that is no object.
pub(super) fn of(value: &impl Serialize) -> Vec<(String, String)> {
    let Ok(text) = serde_json::to_string(value) else { return Vec::new() };
    let Ok(Ordered(fields)) = serde_json::from_str(&text) else { return Vec::new() };
    let shown = |value: Value| match value {
        Value::String(text) => text,
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    };
    let present = fields.into_iter().filter(|(_, value)| !value.is_null());
    present.map(|(name, value)| (name.replace('_', " "), shown(value))).collect()
}

/// An object whose fields keep their order.
struct Ordered(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ordered, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Ordered;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Ordered, M::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Ordered(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_read_as_text() {
        #[derive(Serialize)]
        struct Sample {
            zone: &'static str,
            key_bytes: u32,
            absent: Option<u32>,
            own_core: bool,
            rate: f64,
            list: Vec<u32>,
        }
        let sample = Sample { zone: "a", key_bytes: 7, absent: None, own_core: false, rate: 1.5, list: vec![1, 2] };
        let expected = [("zone", "a"), ("key bytes", "7"), ("own core", "no"), ("rate", "1.5"), ("list", "[1,2]")];
        assert_eq!(of(&sample), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
        assert_eq!(of(&7), []);
    }
}
