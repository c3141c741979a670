//! TLS, with a certificate that can be replaced while the server runs.

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
    files: settings::TlsFiles,
    current: RwLock<Arc<rustls::ServerConfig>>,
}

impl Tls {
    pub(crate) fn load(files: settings::TlsFiles) -> io::Result<Self> {
        let current = RwLock::new(load_config(&files)?);
        Ok(Self { files, current })
    }

    /// Loads changed files. Invalid files change nothing.
    pub(super) fn reload(&self) {
        match load_config(&self.files) {
            Ok(config) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
                tracing::info!("TLS certificate reloaded");
            }
            Err(error) => tracing::error!(%error, "cannot reload the TLS certificate, the previous one stays in use"),
        }
    }

    pub(super) async fn accept<T: AsyncRead + AsyncWrite + Unpin>(&self, stream: T) -> io::Result<TlsStream<T>> {
        let config = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        TlsAcceptor::from(config).accept(stream).await
    }
}

fn load_config(files: &settings::TlsFiles) -> io::Result<Arc<rustls::ServerConfig>> {
    let error_in = |path: &Path, error: String| io::Error::other(format!("{}: {error}", path.display()));
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error_in(&files.certificate, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| error_in(&files.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| error_in(&files.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
