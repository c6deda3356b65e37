//! Plain renewals on a session: read where they lie, their answers written straight away.
//!
//! Nearly all that comes on a session is renewals that say nothing but an id and an epoch, and nearly all of them are
//! renewed. The generated code would make a text of its own of each id, and another one for the answer. On the wire
//! there is no difference. Promises: whatever is not exactly such a message, or may be none, is read by the generated
//! code, and so means what it always meant.

use std::str::from_utf8;

use bytes::{Buf as _, BufMut, Bytes};
use prost::Message;
use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};
use rollcall_model::limits;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder};

use crate::v1::renew_response::Renewed;
use crate::v1::{SessionRequest, SessionResponse};

/// Field 1, a number: `call` of a session's messages.
const CALL: u8 = 1 << 3;
/// Field 3, a message: `renew` of a session's messages.
const RENEW: u8 = 3 << 3 | 2;
/// Field 1 with its length: `items`, `results`, and the `id` of each.
const FIRST: u8 = 1 << 3 | 2;
/// Field 2, a number: an item's `epoch`.
const EPOCH: u8 = 2 << 3;
/// Field 2, a message: a result's `renewed`.
const RENEWED: u8 = 2 << 3 | 2;

/// What came on a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Renewals that say nothing beside.
    Renewals(Renewals),
    /// Anything else.
    Other(Box<SessionRequest>),
}

/// What goes out on a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To renewals, written already.
    Renewed {
        /// The caller's number.
        call: u64,
        /// One for each.
        results: Results,
    },
    /// A message.
    Message(Box<SessionResponse>),
}

impl Answer {
    fn write(self, out: &mut impl BufMut) -> Result<(), Status> {
        match self {
            Self::Renewed { call, results } => {
                if call != 0 {
                    out.put_u8(CALL);
                    encode_varint(call, out);
                }
                out.put_u8(RENEW);
                encode_varint(results.0.len() as u64, out);
                out.put_slice(&results.0);
                Ok(())
            }
            Self::Message(message) => {
                message.encode(out).map_err(|error| Status::internal(error.to_string()))
            }
        }
    }
}

/// A message of plain renewals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewals {
    /// The caller's number.
    call: u64,
    /// The whole message.
    message: Bytes,
    /// Where in it the items begin.
    begin: usize,
    count: usize,
}

impl Renewals {
    /// Takes a message if it is one of plain renewals: a thousand at most, each with an id and an epoch.
    #[must_use]
    pub fn read(message: &Bytes) -> Option<Self> {
        let mut rest = message.as_ref();
        let call = number(&mut rest, CALL).unwrap_or_default();
        let items = piece(&mut rest, RENEW)?;
        if !rest.is_empty() {
            return None;
        }
        let begin = message.len() - items.len();
        let (mut rest, mut count) = (items, 0);
        while !rest.is_empty() {
            item(&mut rest)?;
            count += 1;
        }
        let message = message.clone();
        (count <= limits::RENEWALS_MAX).then_some(Self { call, message, begin, count })
    }

    /// The caller's number.
    #[must_use]
    pub const fn call(&self) -> u64 {
        self.call
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Each id and epoch, as they were said: neither is checked.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let mut rest = self.message.get(self.begin..).unwrap_or_default();
        std::iter::from_fn(move || item(&mut rest))
    }

    /// The same message as the generated code reads it.
    ///
    /// # Errors
    /// Never, unless this module takes for such a message what is none.
    pub fn message(&self) -> Result<SessionRequest, Status> {
        SessionRequest::decode(self.message.clone()).map_err(|error| Status::internal(error.to_string()))
    }
}

/// A field that is a number, if it stands next.
fn number(rest: &mut &[u8], key: u8) -> Option<u64> {
    let mut ahead = rest.strip_prefix(&[key])?;
    let number = decode_varint(&mut ahead).ok()?;
    *rest = ahead;
    Some(number)
}

/// The bytes of a field that has a length, if it stands next.
fn piece<'a>(rest: &mut &'a [u8], key: u8) -> Option<&'a [u8]> {
    let mut ahead = rest.strip_prefix(&[key])?;
    let length = usize::try_from(decode_varint(&mut ahead).ok()?).ok()?;
    let (piece, after) = ahead.split_at_checked(length)?;
    *rest = after;
    Some(piece)
}

fn item<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, u64)> {
    let mut inside = piece(rest, FIRST)?;
    let id = from_utf8(piece(&mut inside, FIRST)?).ok()?;
    let epoch = number(&mut inside, EPOCH)?;
    inside.is_empty().then_some((id, epoch))
}

/// The results of renewals, as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results(Vec<u8>);

impl Results {
    /// None yet, with space for the answer to all of them.
    #[must_use]
    pub fn to(renewals: &Renewals) -> Self {
        // An answer to each repeats the id and has at most 33 bytes around it, where the epoch and its key were.
        Self(Vec::with_capacity(renewals.message.len() + 33 * renewals.count))
    }

    /// Adds one that was renewed.
    pub fn renewed(&mut self, id: &str, renewed: &Renewed) {
        let out = &mut self.0;
        let inner = renewed.encoded_len();
        let length = with_length(id.len()) + with_length(inner);
        out.put_u8(FIRST);
        encode_varint(length as u64, out);
        out.put_u8(FIRST);
        encode_varint(id.len() as u64, out);
        out.put_slice(id.as_bytes());
        out.put_u8(RENEWED);
        encode_varint(inner as u64, out);
        // There is always room in a vector.
        let _ = renewed.encode(out);
    }
}

/// A field's key of one byte, its length and so many bytes.
fn with_length(bytes: usize) -> usize {
    1 + encoded_len_varint(bytes as u64) + bytes
}

/// The codec of a session, at its answering end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words;

/// Reads what comes.
#[derive(Debug)]
pub struct Reader(ProstDecoder<SessionRequest>);

impl Codec for Words {
    type Encode = Answer;
    type Decode = Asked;
    type Encoder = Self;
    type Decoder = Reader;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Reader {
        Reader(ProstCodec::<SessionRequest, SessionRequest>::default().decoder())
    }
}

impl Encoder for Words {
    type Item = Answer;
    type Error = Status;

    fn encode(&mut self, answer: Answer, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.write(buffer)
    }
}
impl Decoder for Reader {
    type Item = Asked;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Asked>, Status> {
        // Anything else is left to the generated code, which says what is wrong with it.
        if is_renewal(buffer.chunk(), buffer.remaining()) {
            let message = buffer.copy_to_bytes(buffer.remaining());
            if let Some(renewals) = Renewals::read(&message) {
                return Ok(Some(Asked::Renewals(renewals)));
            }
            let message =
                SessionRequest::decode(message).map_err(|error| Status::internal(error.to_string()));
            return message.map(|message| Some(Asked::Other(Box::new(message))));
        }
        Ok(self.0.decode(buffer)?.map(|message| Asked::Other(Box::new(message))))
    }
}

/// Whether a message is worth a look: it lies in one piece and begins as renewals do.
fn is_renewal(chunk: &[u8], whole: usize) -> bool {
    let mut rest = chunk;
    let _ = number(&mut rest, CALL);
    chunk.len() >= whole && rest.first() == Some(&RENEW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::renew_request::Item;
    use crate::v1::renew_response::Result as Outcome;
    use crate::v1::renew_response::result::Outcome as Said;
    use crate::v1::session_request::Request;
    use crate::v1::session_response::Response;
    use crate::v1::{DeregisterRequest, Lifecycle, Load, RenewRequest, RenewResponse};

    fn item(id: &str, epoch: u64) -> Item {
        Item { id: id.into(), epoch, ..Item::default() }
    }

    fn asked(call: u64, items: Vec<Item>) -> SessionRequest {
        SessionRequest { call, request: Some(Request::Renew(RenewRequest { items })) }
    }

    fn read(message: &SessionRequest) -> Option<Renewals> {
        Renewals::read(&message.encode_to_vec().into())
    }

    #[test]
    fn plain_renewals_are_read_as_the_generated_code_reads_them() {
        let long = "l".repeat(200);
        for (call, items) in [
            (0, Vec::new()),
            (0, vec![item("a/b/c", 1)]),
            (u64::MAX, vec![item("a/b/c", u64::MAX), item(&long, 1 << 52), item("ö", 300)]),
            (7, (0..1_000).map(|n| item(&format!("a/b/{n}"), n + 1)).collect()),
        ] {
            let message = asked(call, items.clone());
            let renewals = read(&message).expect("they are plain");
            assert_eq!((renewals.call(), renewals.len()), (call, items.len()));
            assert!(renewals.iter().eq(items.iter().map(|item| (item.id.as_str(), item.epoch))));
            assert_eq!(renewals.message().unwrap(), message);
        }
    }

    #[test]
    fn whatever_says_more_or_something_else_is_left_to_the_generated_code() {
        let plain = || item("a/b/c", 1);
        for more in [
            Item { load: Some(Load::default()), ..plain() },
            Item { lifecycle: Lifecycle::Draining.into(), ..plain() },
            Item { holder: Some("h".into()), ..plain() },
            item("", 1),
            item("a/b/c", 0),
        ] {
            assert_eq!(read(&asked(1, vec![plain(), more.clone(), plain()])), None, "{more:?}");
        }
        assert_eq!(read(&asked(1, vec![plain(); 1_001])), None, "too many");
        let other = Some(Request::Deregister(DeregisterRequest::default()));
        assert_eq!(read(&SessionRequest { call: 1, request: other }), None);
        assert_eq!(read(&SessionRequest::default()), None);
        // Torn anywhere, or with anything behind it, it is no such message.
        let whole = asked(9, vec![plain(), plain()]).encode_to_vec();
        for end in 0..whole.len() {
            assert_eq!(Renewals::read(&Bytes::copy_from_slice(&whole[..end])), None, "{end}");
        }
        assert_eq!(Renewals::read(&[whole.clone(), vec![0x20, 1]].concat().into()), None);
        // Not UTF-8.
        let broken: Vec<u8> = whole.iter().map(|byte| if *byte == b'b' { 0xff } else { *byte }).collect();
        assert_eq!(Renewals::read(&broken.into()), None);
    }

    #[test]
    fn answers_are_written_as_the_generated_code_writes_them() {
        let renewed = |n: u32| Renewed {
            lease_seconds: n,
            heartbeat_seconds: f64::from(n) / 3.0,
            lease_expires_at_ms: i64::from(n) * 1_000_000_007,
            superseded: n % 2 == 1,
        };
        for (call, count) in [(0, 0), (0, 1), (300, 20), (u64::MAX, 1_000)] {
            let items = (0..count).map(|n| item(&"i".repeat(n as usize % 128 + 1), 5)).collect();
            let renewals = read(&asked(call, items)).unwrap();
            let mut results = Results::to(&renewals);
            let mut same = Vec::new();
            for (n, (id, _)) in renewals.iter().enumerate() {
                let renewed = renewed(u32::try_from(n).unwrap());
                results.renewed(id, &renewed);
                same.push(Outcome { id: id.into(), outcome: Some(Said::Renewed(renewed)) });
            }
            let same = Some(Response::Renew(RenewResponse { results: same }));
            let same = SessionResponse { call, response: same };
            assert_eq!(
                written(Answer::Renewed { call, results }),
                written(Answer::Message(Box::new(same.clone())))
            );
            assert_eq!(written(Answer::Message(Box::new(same.clone()))), same.encode_to_vec());
        }
    }

    /// The bytes of an answer, without the frame around them.
    fn written(answer: Answer) -> Vec<u8> {
        let mut out = Vec::new();
        answer.write(&mut out).unwrap();
        out
    }
}
