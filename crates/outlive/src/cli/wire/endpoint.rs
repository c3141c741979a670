//! Where a server is and how to reach it: `http[s]://host:port/base`, `unix:/path`; a token may be in the fragment.

use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::tls::Trust;

const DEFAULT_PORT: u16 = 2468;
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// What we sent and nobody confirmed for this long was sent into a dead line.
const UNCONFIRMED_MS: u32 = 30_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    place: Place,
    /// For the `host` header.
    pub(crate) authority: String,
    /// Before every path; empty or `/something`.
    pub(crate) base: String,
    pub(crate) token: Option<String>,
    /// Whose certificates are believed.
    pub(crate) trust: Trust,
    /// As it was given, without the token.
    pub(crate) shown: String,
    /// On this machine for sure, so that a path means the same here and there.
    pub(crate) is_here: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Tcp(String, u16),
    Tls(String, u16),
    Unix(PathBuf),
}

pub(crate) trait Line: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Line for T {}

impl Endpoint {
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (shown, fragment) = url.split_once('#').unwrap_or((url, ""));
        let token = fragment.split('&').find_map(|pair| pair.strip_prefix("token=")).map(str::to_owned);
        let token = token.filter(|token| !token.is_empty());
        let shown = shown.trim().to_owned();
        if let Some(path) = shown.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(format!("{url:?} has no path; give unix:/path/to/socket"));
            }
            let place = Place::Unix(path.into());
            let (authority, base, trust) = ("localhost".into(), String::new(), Trust::System);
            return Ok(Self { place, authority, base, token, trust, shown, is_here: true });
        }
        let wrong = || format!("{shown:?} is not a URL such as http://127.0.0.1:{DEFAULT_PORT} or unix:/path");
        let with_scheme = if shown.contains("://") { shown.clone() } else { format!("http://{shown}") };
        let uri: http::Uri = with_scheme.parse().map_err(|_| wrong())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let at: fn(String, u16) -> Place = match uri.scheme_str() {
            Some("http") => Place::Tcp,
            Some("https") => Place::Tls,
            _ => return Err(wrong()),
        };
        let port = uri.port_u16().unwrap_or(DEFAULT_PORT);
        // The console's address is what gets copied.
        let base = uri.path().trim_end_matches('/');
        let base = base.strip_suffix("/ui").unwrap_or(base).to_owned();
        let place = at(host.trim_matches(['[', ']']).to_owned(), port);
        let (authority, trust) = (format!("{host}:{port}"), Trust::System);
        Ok(Self { place, authority, base, token, trust, shown, is_here: false })
    }

    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Line>> {
        let work = async {
            match &self.place {
                Place::Tcp(host, port) => Ok(Box::new(connect_tcp(host, *port).await?) as Box<dyn Line>),
                Place::Tls(host, port) => {
                    let stream = connect_tcp(host, *port).await?;
                    Ok(Box::new(self.trust.connect(host, stream).await?) as Box<dyn Line>)
                }
                Place::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?) as Box<dyn Line>),
            }
        };
        match tokio::time::timeout(CONNECT_WITHIN, work).await {
            Ok(result) => result,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "nothing answers there")),
        }
    }
}

async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNCONFIRMED_MS);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    let _ = rustix::net::sockopt::set_tcp_keepidle(&stream, Duration::from_secs(20));
    Ok(stream)
}

/// One part of a path or query, escaped.
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
    fn urls() {
        let parse = |url: &str| Endpoint::parse(url).unwrap();
        let simple = parse("http://127.0.0.1:99");
        assert_eq!((simple.place, simple.base.as_str()), (Place::Tcp("127.0.0.1".into(), 99), ""));
        let full = parse("http://box.example/base/ui/#token=se-cret");
        assert_eq!(full.place, Place::Tcp("box.example".into(), DEFAULT_PORT));
        assert_eq!((full.base.as_str(), full.token.as_deref()), ("/base", Some("se-cret")));
        assert!(!full.shown.contains("se-cret"));
        assert_eq!(parse("localhost:80").place, Place::Tcp("localhost".into(), 80));
        assert_eq!(parse("http://[::1]:5/").place, Place::Tcp("::1".into(), 5));
        assert_eq!(parse("http://[::1]:5/").authority, "[::1]:5");
        assert_eq!(parse("https://box.example:8443").place, Place::Tls("box.example".into(), 8443));
        assert_eq!(parse("unix:/run/x.sock#token=t").place, Place::Unix("/run/x.sock".into()));
        for wrong in ["", "unix:", "ftp://x", "http://", "http://a b"] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn escaping() {
        assert_eq!(escape("tag:my web/ü"), "tag:my%20web%2F%C3%BC");
    }
}
