//! The parsers of this dialect for `crate::fuzzing`.

use std::time::Duration;

use axum::body::Body;
use futures_util::FutureExt;

use super::connect::{Codec, Envelopes, append_message};
use super::message::{
    SelectRequest, SendInputRequest, SendSignalRequest, StartRequest, StreamInputRequest, UpdateRequest,
};
use super::{init, start, timestamp};

/// The same bytes as every message, in both languages; and as a stream of envelopes.
pub(crate) fn messages(data: &[u8]) {
    for codec in [Codec::Json, Codec::Proto] {
        let _ = codec.decode::<StartRequest>(data).map(|request| {
            let _ = start::spec(&request, None, &init::Defaults::default(), None).map(|spec| spec.check());
            // What was understood can be said, and is understood again.
            let mut said = Vec::new();
            codec.append(&request, &mut said);
            assert_eq!(codec.decode::<StartRequest>(&said).ok(), Some(request));
        });
        let _ = codec.decode::<UpdateRequest>(data).map(|request| start::size(request.pty.and_then(|pty| pty.size)));
        let _ = codec.decode::<SelectRequest>(data);
        let _ = codec.decode::<SendSignalRequest>(data);
        let _ = codec.decode::<SendInputRequest>(data);
        envelopes(codec, data);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = timestamp::parse(text);
    }
}

/// Whatever comes, it ends: with an end of the messages, or with a refusal.
fn envelopes(codec: Codec, data: &[u8]) {
    const LARGEST: usize = 1 << 20;
    let mut all = Envelopes::new(Body::from(data.to_vec()), codec, LARGEST, Duration::from_secs(1));
    let reading = async {
        let mut count = 0;
        while let Ok(Some(message)) = all.next::<StreamInputRequest>().await {
            count += 1;
            let mut again = Vec::new();
            append_message(codec, &message, &mut again);
            assert!(again.len() >= 5);
        }
        count
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime can be had");
    let _guard = runtime.enter();
    let count = reading.now_or_never().expect("a body that is there is read without waiting");
    assert!(count <= data.len() / 5);
}
