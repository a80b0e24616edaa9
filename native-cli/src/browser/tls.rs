//! HTTPS with a self-signed certificate. No authority signs it, so users compare its fingerprint.

use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, version};

use super::BrowserError;

/// Key, certificate and fingerprint.
pub struct Identity {
    config: Arc<ServerConfig>,
    /// SHA-256 of the certificate, as browsers show it.
    pub fingerprint: String,
}

impl Identity {
    /// Creates an identity for these hosts. It ends with the program.
    pub fn of(hosts: &[String]) -> Result<Identity, BrowserError> {
        let failed = |e: &dyn std::fmt::Display| BrowserError::Serve(format!("cannot generate a certificate: {e}"));
        let names: Vec<String> = hosts.iter().map(|host| host.trim_matches(['[', ']']).to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(|e| failed(&e))?;
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "Parallax collector");
        params.distinguished_name = name;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Some phones refuse certificates that are valid for years. Time zones and clocks differ by less than a day.
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
        let ymd = |date: jiff::civil::Date| date_time_ymd(date.year().into(), date.month() as u8, date.day() as u8);
        params.not_before = ymd(today.saturating_sub(jiff::Span::new().days(1)));
        params.not_after = ymd(today.saturating_add(jiff::Span::new().days(90)));
        let key = KeyPair::generate().map_err(|e| failed(&e))?;
        let certificate = params.self_signed(&key).map_err(|e| failed(&e))?;
        let fingerprint = fingerprint(certificate.der());
        // Every browser with WebGPU supports TLS 1.3.
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|e| failed(&e))?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .map_err(|e| failed(&e))?;
        Ok(Identity { config: Arc::new(config), fingerprint })
    }

    /// Returns the acceptor of TLS handshakes with this identity.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.config.clone().into()
    }
}

fn fingerprint(certificate: &[u8]) -> String {
    Sha256::digest(certificate).iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
pub(crate) mod testing {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::time::Duration;

    use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use tokio_rustls::rustls::{
        ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    };

    use super::*;

    /// Accepts the certificate with this fingerprint, as a user after a comparison.
    #[derive(Debug)]
    struct Known(String);

    impl ServerCertVerifier for Known {
        fn verify_server_cert(
            &self,
            certificate: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            match fingerprint(certificate) == self.0 {
                true => Ok(ServerCertVerified::assertion()),
                false => Err(Error::General("another certificate".to_owned())),
            }
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("only TLS 1.3 is spoken".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let known = ring::default_provider().signature_verification_algorithms;
            tokio_rustls::rustls::crypto::verify_tls13_signature(message, certificate, signed, &known)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }

    /// Returns the whole response to an HTTPS request, from a server with this certificate fingerprint.
    pub fn talk(to: SocketAddr, fingerprint: &str, request: &str) -> String {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .expect("a version")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Known(fingerprint.to_owned())))
            .with_no_client_auth();
        let client = ClientConnection::new(Arc::new(config), to.ip().into()).expect("a client");
        let stream = TcpStream::connect(to).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        let mut stream = StreamOwned::new(client, stream);
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }
}
