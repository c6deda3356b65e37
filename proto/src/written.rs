//! Messages that are written once and sent many times.
//!
//! On the wire they are what the generated code would send; here they are bytes that many streams share.

use std::marker::PhantomData;

use bytes::{BufMut as _, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder};

/// A message as it goes out.
#[must_use]
pub fn message(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// A codec whose requests are read as usual, and whose answers are written already.
#[derive(Clone, Copy, Debug)]
pub struct Written<Request>(PhantomData<Request>);

impl<Request> Default for Written<Request> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Request: Message + Default + Send + Sync + 'static> Codec for Written<Request> {
    type Encode = Bytes;
    type Decode = Request;
    type Encoder = Self;
    type Decoder = ProstDecoder<Request>;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<Request, Request>::default().decoder()
    }
}

impl<Request: Send + Sync + 'static> Encoder for Written<Request> {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}
