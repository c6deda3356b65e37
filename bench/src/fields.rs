//! Protobuf messages read without being decoded: field after field, each as a number or as bytes.
//!
//! For readers who count what comes and want as little of it as they can: what is in a field is passed over at once.

use prost::encoding::{WireType, decode_key, decode_varint};

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// A number of any kind that is written as a varint.
    Number(u64),
    /// Text, bytes, or a message.
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    /// The fields of the message in this one; none of a number.
    pub fn fields(self) -> impl Iterator<Item = (u32, Field<'a>)> {
        fields(match self {
            Self::Number(_) => &[],
            Self::Bytes(bytes) => bytes,
        })
    }

    /// The number; 0 of bytes.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }
}

/// The fields of a message in order.
///
/// # Panics
/// When it is no message; fields of fixed width are none that is needed here, and taken as none.
pub fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u32, Field<'_>)> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (tag, wire) = decode_key(&mut rest).expect("a key");
        let value = decode_varint(&mut rest).expect("a number");
        Some((
            tag,
            match wire {
                WireType::Varint => Field::Number(value),
                WireType::LengthDelimited => {
                    let (bytes, after) = rest.split_at(usize::try_from(value).expect("a length"));
                    rest = after;
                    Field::Bytes(bytes)
                }
                other => panic!("a field of {other:?}"),
            },
        ))
    })
}
