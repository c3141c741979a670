//! TLS with a certificate that may be exchanged while we run.

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::settings;

pub(crate) struct Tls {
    files: settings::Tls,
    current: RwLock<Arc<rustls::ServerConfig>>,
}

impl Tls {
    pub(crate) fn load(files: settings::Tls) -> io::Result<Self> {
        let current = RwLock::new(read(&files)?);
        Ok(Self { files, current })
    }

    /// The files have changed. One that makes no sense changes nothing.
    pub(super) fn reload(&self) {
        match read(&self.files) {
            Ok(config) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
                tracing::info!("the TLS certificate was read again");
            }
            Err(error) => tracing::error!(%error, "the TLS certificate cannot be read again, the old one stays"),
        }
    }

    pub(super) async fn accept<T: AsyncRead + AsyncWrite + Unpin>(&self, stream: T) -> io::Result<TlsStream<T>> {
        let config = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        TlsAcceptor::from(config).accept(stream).await
    }
}

fn read(files: &settings::Tls) -> io::Result<Arc<rustls::ServerConfig>> {
    let in_file = |path: &Path, error: String| io::Error::other(format!("{}: {error}", path.display()));
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| in_file(&files.certificate, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| in_file(&files.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| in_file(&files.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
