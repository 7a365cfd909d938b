//! Encrypted connections, by rustls. What is verified is what libpq verifies for the same word.

use crate::failure::Failure;
use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream as Encrypted};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// The protocol inside, for servers that ask.
const PROTOCOL: &[u8] = b"postgresql";

/// What a server must prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verify {
    /// Nothing: nobody who only listens can read along.
    Nothing,
    /// That an authority has signed its certificate.
    Authority,
    /// And that the certificate has its name.
    AuthorityAndName,
}

/// Whose signatures count.
#[derive(Debug)]
pub(super) enum Roots {
    /// Authorities that the system trusts.
    System,
    /// Certificates of a file in PEM.
    File(PathBuf),
}

/// Makes connections encrypted.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    pub(super) fn new(verify: Verify, roots: &Roots) -> Result<Self, Failure> {
        let failed = |error: Error| Failure::Usage(format!("TLS: {error}"));
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier {
            authority: match verify {
                Verify::Nothing => None,
                _ => Some(authorities(roots, &provider)?),
            },
            checks_name: verify == Verify::AuthorityAndName,
            provider: Arc::clone(&provider),
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self {
            config: Arc::new(config),
        })
    }
}

fn authorities(roots: &Roots, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Failure> {
    let (found, place) = match roots {
        Roots::System => (rustls_native_certs::load_native_certs(), "the system".to_owned()),
        Roots::File(path) => (
            rustls_native_certs::load_certs_from_paths(Some(path), None),
            path.display().to_string(),
        ),
    };
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let why = found
            .errors
            .first()
            .map(|error| format!(": {error}"))
            .unwrap_or_default();
        return Err(Failure::Usage(format!(
            "{place} has no certificate of an authority{why}; sslrootcert=FILE names one"
        )));
    }
    let built = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
    built.map_err(|error| Failure::Usage(format!("{place}: {error}")))
}

#[derive(Debug)]
struct Verifier {
    authority: Option<Arc<WebPkiServerVerifier>>,
    checks_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else {
            return Ok(ServerCertVerified::assertion());
        };
        match authority.verify_server_cert(end, between, name, ocsp, now) {
            // The name is looked at last.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        end: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, end, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        end: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, end, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Encrypts one connection.
pub(super) struct Encrypting {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type TlsConnect = Encrypting;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Encrypting, InvalidDnsNameError> {
        // The library asks for sockets of the system, too, which have no name, and does not encrypt
        // them.
        let domain = if domain.is_empty() { "localhost" } else { domain };
        Ok(Encrypting {
            connector: TlsConnector::from(Arc::clone(&self.config)),
            name: ServerName::try_from(domain.to_owned())?,
        })
    }
}

impl<S> TlsConnect<S> for Encrypting
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connecting = self.connector.connect(self.name, stream);
        Box::pin(async { Ok(EncryptedStream(connecting.await?)) })
    }
}

/// A connection that is encrypted.
pub(super) struct EncryptedStream<S>(TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Encrypted for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
