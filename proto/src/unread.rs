//! Messages that are received and not yet read: for whoever reads them better than the generated code.

use std::marker::PhantomData;

use bytes::{Buf as _, Bytes};
use prost::Message;
use tonic::codec::{Codec, DecodeBuf, Decoder, Streaming};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::{ProstCodec, ProstEncoder};

use crate::v1;

/// Opens a watch, as the generated client does.
///
/// # Errors
/// The cell cannot be reached, or refuses it.
pub async fn watch(
    channel: Channel,
    request: v1::WatchRequest,
    message_bytes_max: usize,
) -> Result<Response<Streaming<Bytes>>, Status> {
    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(message_bytes_max);
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::from_static("/rollcall.v1.Discovery/Watch");
    grpc.server_streaming(Request::new(request), path, Unread::default()).await
}

/// A codec whose requests are written as usual, and whose answers stay bytes.
struct Unread<Sent>(PhantomData<Sent>);

impl<Sent> Default for Unread<Sent> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Sent: Message + Default + 'static> Codec for Unread<Sent> {
    type Encode = Sent;
    type Decode = Bytes;
    type Encoder = ProstEncoder<Sent>;
    type Decoder = AsBytes;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<Sent, Sent>::default().encoder()
    }

    fn decoder(&mut self) -> AsBytes {
        AsBytes
    }
}

struct AsBytes;

impl Decoder for AsBytes {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}
