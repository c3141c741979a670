//! The HTTP side of a port wait: requests a path and reports the status of the response.

use std::ops::RangeInclusive;

use axum::body::Bytes;
use http::header::{CONNECTION, HOST};
use http::uri::PathAndQuery;
use http::{Request, Uri};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use outlive_core::{PortProbe, ProbeFuture};
use tokio::net::TcpStream;

/// Limit on the head of a response; the body is never read.
const MAX_HEAD_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct HttpProbe {
    authority: String,
    path: PathAndQuery,
    accepted: RangeInclusive<u16>,
}

impl HttpProbe {
    /// `None` if `path` is not an absolute path that can be requested.
    pub(crate) fn new(host: &str, port: u16, path: &str, accepted: RangeInclusive<u16>) -> Option<Self> {
        let is_absolute = path.starts_with('/') && !path.contains(|c: char| c.is_control() || c == ' ');
        let path = path.parse().ok().filter(|_| is_absolute)?;
        Some(Self { authority: format!("{host}:{port}"), path, accepted })
    }

    async fn request_status(&self, stream: TcpStream) -> Option<u16> {
        let mut client = hyper::client::conn::http1::Builder::new();
        client.max_buf_size(MAX_HEAD_BYTES);
        let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.ok()?;
        let request = Request::get(Uri::from(self.path.clone()))
            .header(HOST, &self.authority)
            .header(CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .ok()?;
        // The connection may end as soon as the response has arrived, so its end decides nothing here: without a
        // response `send_request` fails.
        let drive = async {
            let _ = connection.await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            response = sender.send_request(request) => Some(response.ok()?.status().as_u16()),
            () = drive => None,
        }
    }
}

impl PortProbe for HttpProbe {
    fn probe(&self, stream: TcpStream) -> ProbeFuture<'_> {
        Box::pin(async move { self.request_status(stream).await.filter(|status| self.accepted.contains(status)) })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn probe(path: &str, accepted: RangeInclusive<u16>, response: Vec<u8>) -> (Option<u16>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 512];
            let length = stream.read(&mut request).await.unwrap_or(0);
            let _ = stream.write_all(&response).await;
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let probe = HttpProbe::new("localhost", address.port(), path, accepted).unwrap();
        let status = probe.probe(TcpStream::connect(address).await.unwrap()).await;
        (status, server.await.unwrap().replace(&address.port().to_string(), "PORT"))
    }

    #[tokio::test]
    async fn only_accepted_statuses_are_ready() {
        let not_found = b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec();
        let (status, request) = probe("/health?deep", 400..=499, not_found.clone()).await;
        assert_eq!(status, Some(404));
        assert_eq!(request, "GET /health?deep HTTP/1.1\r\nhost: localhost:PORT\r\nconnection: close\r\n\r\n");
        assert_eq!(probe("/", 200..=399, not_found).await.0, None);
        assert_eq!(probe("/", 0..=999, b"HTTP/1.0 200 OK\r\n\r\n".to_vec()).await.0, Some(200));
    }

    #[tokio::test]
    async fn other_protocols_and_endless_heads_are_not_ready() {
        assert_eq!(probe("/", 0..=999, b"nonsense".to_vec()).await.0, None);
        assert_eq!(probe("/", 0..=999, Vec::new()).await.0, None);
        let endless = [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'x'; 2 * MAX_HEAD_BYTES]].concat();
        assert_eq!(probe("/", 0..=999, endless).await.0, None);
    }

    #[test]
    fn paths_that_cannot_be_requested_are_rejected() {
        for path in ["", "health", "/a b", "/a\r\nhost: x", "http://other/", "/<"] {
            assert!(HttpProbe::new("localhost", 80, path, 200..=399).is_none(), "{path}");
        }
    }
}
