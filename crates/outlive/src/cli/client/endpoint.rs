//! Address of a server: `http[s]://host:port/base` or `unix:/path`, with an optional `#token=…`.

use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::tls::Trust;

const DEFAULT_PORT: u16 = 2468;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Data that stays unacknowledged by TCP for this long closes the connection.
const TCP_USER_TIMEOUT_MS: u32 = 30_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    address: Address,
    /// Value of the `host` header.
    pub(crate) authority: String,
    /// Prefix of every path; empty or `/something`.
    pub(crate) base: String,
    pub(crate) token: Option<String>,
    pub(crate) trust: Trust,
    /// The URL as given, without the token.
    pub(crate) display_url: String,
    /// The server is certainly on this machine, so file paths mean the same to both sides.
    pub(crate) is_local: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Tcp(String, u16),
    Tls(String, u16),
    Unix(PathBuf),
}

pub(crate) trait IoStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> IoStream for T {}

impl Endpoint {
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (display_url, fragment) = url.split_once('#').unwrap_or((url, ""));
        let token = fragment.split('&').find_map(|pair| pair.strip_prefix("token=")).map(str::to_owned);
        let token = token.filter(|token| !token.is_empty());
        let display_url = display_url.trim().to_owned();
        if let Some(path) = display_url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(format!("{url:?} has no path; give unix:/path/to/socket"));
            }
            let address = Address::Unix(path.into());
            let (authority, base, trust) = ("localhost".into(), String::new(), Trust::System);
            return Ok(Self { address, authority, base, token, trust, display_url, is_local: true });
        }
        let invalid = || format!("{display_url:?} is not a URL such as http://127.0.0.1:{DEFAULT_PORT} or unix:/path");
        let with_scheme =
            if display_url.contains("://") { display_url.clone() } else { format!("http://{display_url}") };
        let uri: http::Uri = with_scheme.parse().map_err(|_| invalid())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(invalid)?;
        let variant: fn(String, u16) -> Address = match uri.scheme_str() {
            Some("http") => Address::Tcp,
            Some("https") => Address::Tls,
            _ => return Err(invalid()),
        };
        let port = uri.port_u16().unwrap_or(DEFAULT_PORT);
        // Users copy the console's URL, which ends with /ui.
        let base = uri.path().trim_end_matches('/');
        let base = base.strip_suffix("/ui").unwrap_or(base).to_owned();
        let address = variant(host.trim_matches(['[', ']']).to_owned(), port);
        let (authority, trust) = (format!("{host}:{port}"), Trust::System);
        Ok(Self { address, authority, base, token, trust, display_url, is_local: false })
    }

    pub(crate) async fn connect(&self) -> io::Result<Box<dyn IoStream>> {
        let connect = async {
            match &self.address {
                Address::Tcp(host, port) => Ok(Box::new(connect_tcp(host, *port).await?) as Box<dyn IoStream>),
                Address::Tls(host, port) => {
                    let stream = connect_tcp(host, *port).await?;
                    Ok(Box::new(self.trust.connect(host, stream).await?) as Box<dyn IoStream>)
                }
                Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?) as Box<dyn IoStream>),
            }
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, connect).await {
            Ok(result) => result,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out")),
        }
    }
}

async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, TCP_USER_TIMEOUT_MS);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    let _ = rustix::net::sockopt::set_tcp_keepidle(&stream, Duration::from_secs(20));
    Ok(stream)
}

/// Percent-encodes one part of a path or query.
pub(crate) fn escape(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let parse = |url: &str| Endpoint::parse(url).unwrap();
        let simple = parse("http://127.0.0.1:99");
        assert_eq!((simple.address, simple.base.as_str()), (Address::Tcp("127.0.0.1".into(), 99), ""));
        let full = parse("http://box.example/base/ui/#token=se-cret");
        assert_eq!(full.address, Address::Tcp("box.example".into(), DEFAULT_PORT));
        assert_eq!((full.base.as_str(), full.token.as_deref()), ("/base", Some("se-cret")));
        assert!(!full.display_url.contains("se-cret"));
        assert_eq!(parse("localhost:80").address, Address::Tcp("localhost".into(), 80));
        assert_eq!(parse("http://[::1]:5/").address, Address::Tcp("::1".into(), 5));
        assert_eq!(parse("http://[::1]:5/").authority, "[::1]:5");
        assert_eq!(parse("https://box.example:8443").address, Address::Tls("box.example".into(), 8443));
        assert_eq!(parse("unix:/run/x.sock#token=t").address, Address::Unix("/run/x.sock".into()));
        for invalid in ["", "unix:", "ftp://x", "http://", "http://a b"] {
            assert!(Endpoint::parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn reserved_characters_are_percent_encoded() {
        assert_eq!(escape("tag:my web/ü"), "tag:my%20web%2F%C3%BC");
    }
}
