//! What nodes and processes are called: forty hexadecimal digits, as in Redis.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::fmt;
use std::str::FromStr;

/// Bytes of an id.
pub const ID_BYTES: usize = 20;

/// A text that is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id has {digits} hexadecimal digits in lower case", digits = 2 * ID_BYTES)]
pub struct NotAnId;

/// Makes a type that is twenty bytes and is shown as forty hexadecimal digits.
macro_rules! id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; ID_BYTES]);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<$name, NotAnId> {
                parse(text).map($name)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                // A text that is borrowed where it can be, and owned where it has escapes.
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }
    };
}

id! {
    /// A node: the same over restarts, as long as its directory is.
    NodeId
}

id! {
    /// One process of a node: another after each start.
    RunId
}

/// The node of this number, for those who number them.
impl From<u64> for NodeId {
    fn from(number: u64) -> NodeId {
        let mut id = NodeId::default();
        id.0.iter_mut().rev().zip(number.to_le_bytes()).for_each(|(place, byte)| *place = byte);
        id
    }
}

fn parse(text: &str) -> Result<[u8; ID_BYTES], NotAnId> {
    let mut bytes = [0; ID_BYTES];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != ID_BYTES || !rest.is_empty() {
        return Err(NotAnId);
    }
    for (place, [high, low]) in bytes.iter_mut().zip(pairs) {
        *place = digit(*high)? << 4 | digit(*low)?;
    }
    Ok(bytes)
}

fn digit(byte: u8) -> Result<u8, NotAnId> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(NotAnId),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_shown_and_nothing_else_is() {
        let id = NodeId(std::array::from_fn(|place| u8::try_from(place * 13).unwrap_or(0)));
        let text = id.to_string();
        assert_eq!(text.len(), 40);
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(serde_json::from_str::<NodeId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        for wrong in ["", "00", &text.to_uppercase(), &text[1..], &format!("{text}0"), &text.replace('0', "g")] {
            assert_eq!(wrong.parse::<NodeId>(), Err(NotAnId), "{wrong}");
        }
    }
}
