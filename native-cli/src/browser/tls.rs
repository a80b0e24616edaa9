//! https with a certificate of our own making: nobody vouches for it, so whoever connects compares its fingerprint.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, version};
use tokio_rustls::server::TlsStream;

use super::BrowserError;

/// Who says nothing for so long while connecting has gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many connect at a time; others wait.
const MOST: usize = 64;

/// A key, a certificate, and what the certificate is known by.
pub struct Identity {
    config: Arc<ServerConfig>,
    /// SHA-256 of the certificate, as browsers show it.
    pub fingerprint: String,
}

impl Identity {
    /// A new one for these hosts, which ends with the program.
    pub fn of(hosts: &[String]) -> Result<Identity, BrowserError> {
        let failed = |e: &dyn std::fmt::Display| BrowserError::Serve(format!("no certificate could be made: {e}"));
        let names: Vec<String> = hosts.iter().map(|host| host.trim_matches(['[', ']']).to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(|e| failed(&e))?;
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "Parallax desk");
        params.distinguished_name = name;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Some phones refuse what is valid for years. Time zones and clocks differ by less than a day.
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
        let ymd = |date: jiff::civil::Date| date_time_ymd(date.year().into(), date.month() as u8, date.day() as u8);
        params.not_before = ymd(today.saturating_sub(jiff::Span::new().days(1)));
        params.not_after = ymd(today.saturating_add(jiff::Span::new().days(90)));
        let key = KeyPair::generate().map_err(|e| failed(&e))?;
        let certificate = params.self_signed(&key).map_err(|e| failed(&e))?;
        let digest = Sha256::digest(certificate.der());
        let fingerprint = digest.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":");
        // Every browser with WebGPU speaks the newest version.
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|e| failed(&e))?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .map_err(|e| failed(&e))?;
        Ok(Identity { config: Arc::new(config), fingerprint })
    }
}

/// Connections that have shaken hands.
pub struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
    /// Those that have not yet. Each is a task of its own, so that a slow one keeps nobody waiting.
    greeting: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl TlsListener {
    /// What connects here shakes hands as this identity.
    pub fn new(tcp: TcpListener, identity: &Identity) -> TlsListener {
        TlsListener { tcp, acceptor: identity.config.clone().into(), greeting: JoinSet::new() }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                (stream, from) = Listener::accept(&mut self.tcp), if self.greeting.len() < MOST => {
                    let shaking = tokio::time::timeout(PATIENCE, self.acceptor.accept(stream));
                    self.greeting.spawn(async move { Some((shaking.await.ok()?.ok()?, from)) });
                }
                Some(greeted) = self.greeting.join_next() => {
                    if let Ok(Some(connection)) = greeted {
                        return connection;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
