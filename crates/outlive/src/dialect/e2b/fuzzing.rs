//! Entry points of the fuzz targets for this dialect's parsers.

use std::time::Duration;

use axum::body::Body;
use futures_util::FutureExt;

use super::connect_rpc::{Codec, Envelopes, append_message};
use super::message::{
    SelectRequest, SendInputRequest, SendSignalRequest, StartRequest, StreamInputRequest, UpdateRequest,
};
use super::start;
use crate::rfc3339;

/// Decodes the same bytes as every message in both encodings, and as a stream of envelopes.
pub(crate) fn messages(data: &[u8]) {
    for codec in [Codec::Json, Codec::Proto] {
        let _ = codec.decode::<StartRequest>(data).map(|request| {
            let _ = start::build_spec(&request, None, &start::Defaults::default(), None).map(|spec| spec.check());
            let mut encoded = Vec::new();
            codec.append(&request, &mut encoded);
            assert_eq!(codec.decode::<StartRequest>(&encoded).ok(), Some(request));
        });
        let _ =
            codec.decode::<UpdateRequest>(data).map(|request| start::parse_size(request.pty.and_then(|pty| pty.size)));
        let _ = codec.decode::<SelectRequest>(data);
        let _ = codec.decode::<SendSignalRequest>(data);
        let _ = codec.decode::<SendInputRequest>(data);
        envelopes(codec, data);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = rfc3339::parse(text);
    }
}

/// Reading always ends, with the last message or with an error.
fn envelopes(codec: Codec, data: &[u8]) {
    const MAX_MESSAGE_BYTES: usize = 1 << 20;
    let mut envelopes = Envelopes::new(Body::from(data.to_vec()), codec, MAX_MESSAGE_BYTES, Duration::from_secs(1));
    let reading = async {
        let mut count = 0;
        while let Ok(Some(message)) = envelopes.next::<StreamInputRequest>().await {
            count += 1;
            let mut encoded = Vec::new();
            append_message(codec, &message, &mut encoded);
            assert!(encoded.len() >= 5);
        }
        count
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("cannot build a runtime");
    let _guard = runtime.enter();
    let count = reading.now_or_never().expect("reading a complete body does not wait");
    assert!(count <= data.len() / 5);
}
