//! TLS to the server, and which certificates are trusted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The system's certificate authorities.
    System,
    /// The certificate authorities in this file.
    CaFile(PathBuf),
    /// Only the certificate in this file, for any host name. Used when the local server's state file names it.
    Pinned(PathBuf),
}

impl Trust {
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::new(self.config()?)).connect(name, stream).await
    }

    fn config(&self) -> io::Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let builder = match self {
            Self::System => builder.with_root_certificates(system_roots()),
            Self::CaFile(file) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(read_certificates(file)?);
                builder.with_root_certificates(roots)
            }
            Self::Pinned(file) => {
                let certificate = read_certificates(file)?.into_iter().next();
                let certificate = certificate
                    .ok_or_else(|| io::Error::other(format!("{} contains no certificate", file.display())))?;
                let verifier = PinnedCertVerifier { certificate, provider };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        Ok(builder.with_no_client_auth())
    }
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn read_certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))
}

/// Accepts one certificate, and checks that the server has its private key.
#[derive(Debug)]
struct PinnedCertVerifier {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertVerifier {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *presented == self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::UnknownIssuer.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
