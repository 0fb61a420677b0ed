//! JSON whose tables name each field once. `serde_json` keeps the last of several and says nothing.

use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A document without repeated fields.
pub(super) struct Unique(pub(super) Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut table = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let Unique(value) = fields.next_value()?;
            if table.contains_key(&name) {
                return Err(A::Error::custom(format_args!("`{name}` stands twice in one table")));
            }
            table.insert(name, value);
        }
        Ok(Value::Object(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_or_the_repeated_name() {
        let same = r#"{"a": [1, -2, 0.5, 1e300, null, true, "é\n"], "b": {"a": {}}, "c": 18446744073709551615}"#;
        let Unique(value) = serde_json::from_str(same).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(same).unwrap());
        let error = serde_json::from_str::<Unique>(r#"{"a": {"b": 1, "b": 1}}"#).err().unwrap();
        assert_eq!(error.to_string(), "`b` stands twice in one table at line 1 column 22");
    }
}
