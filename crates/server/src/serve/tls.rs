//! TLS from a certificate and a key in files. Changed files are read again while the server runs; a pair that cannot be
//! used leaves the old one in place.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("can't read {path}: {error}")]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{path} has no certificate in PEM format")]
    NoCertificate { path: PathBuf },
    #[error("{path} has no private key in PEM format")]
    NoKey { path: PathBuf },
    #[error("{cert} and {key} can't be used: {error}")]
    Unusable { cert: PathBuf, key: PathBuf, error: rustls::Error },
}

/// Accepts TLS connections with the newest usable certificate.
#[derive(Clone)]
pub struct TlsPair {
    acceptor: TlsAcceptor,
    files: Arc<CertificateFiles>,
}

impl TlsPair {
    /// Reads the files, which have to be usable.
    pub fn from_files(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let stamps = Stamps::of(cert, key);
        let current = load(cert, key)?;
        let loaded = Mutex::new(Loaded { current, stamps });
        let files = Arc::new(CertificateFiles { cert: cert.into(), key: key.into(), loaded });
        let unusable = |error| TlsError::Unusable { cert: cert.into(), key: key.into(), error };
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(files.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), files })
    }

    /// Reads changed files again until the server stops.
    pub(super) async fn reload(self, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(RELOAD_EVERY) => {}
            }
            let files = self.files.clone();
            // Files may be on a slow disk; a reader that fails leaves the old certificate.
            match tokio::task::spawn_blocking(move || files.reload_once()).await {
                Ok(Some(Ok(()))) => tracing::info!(cert = %self.files.cert.display(), "TLS certificate reloaded"),
                Ok(Some(Err(error))) => {
                    tracing::error!(%error, "TLS certificate not reloaded; the old one stays in use");
                }
                Ok(None) | Err(_) => {}
            }
        }
    }
}

#[derive(Debug)]
struct CertificateFiles {
    cert: PathBuf,
    key: PathBuf,
    loaded: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    current: Arc<CertifiedKey>,
    /// Of the last files that were read, usable or not.
    stamps: Stamps,
}

/// What changes with a file: modification time in seconds and nanoseconds, size and inode. None for a missing file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamps([Option<(i64, i64, u64, u64)>; 2]);

impl Stamps {
    fn of(cert: &Path, key: &Path) -> Self {
        let stamp = |path: &Path| {
            let file = fs::metadata(path).ok()?;
            Some((file.mtime(), file.mtime_nsec(), file.size(), file.ino()))
        };
        Self([stamp(cert), stamp(key)])
    }
}

impl CertificateFiles {
    /// None: nothing changed. A pair that cannot be used is reported once, and read again when a file changes.
    fn reload_once(&self) -> Option<Result<(), TlsError>> {
        // Before the files are read: a change after this is seen by the next round.
        let stamps = Stamps::of(&self.cert, &self.key);
        if self.lock().stamps == stamps {
            return None;
        }
        let loaded = load(&self.cert, &self.key);
        let mut now = self.lock();
        now.stamps = stamps;
        Some(loaded.map(|pair| now.current = pair))
    }

    fn lock(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for CertificateFiles {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.lock().current.clone())
    }
}

fn load(cert: &Path, key: &Path) -> Result<Arc<CertifiedKey>, TlsError> {
    let read = |path: &Path| fs::read(path).map_err(|error| TlsError::Unreadable { path: path.into(), error });
    let no_certificate = || TlsError::NoCertificate { path: cert.into() };
    let chain = CertificateDer::pem_slice_iter(&read(cert)?).collect::<Result<Vec<_>, pem::Error>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(no_certificate)?;
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| TlsError::NoKey { path: key.into() })?;
    let pair = CertifiedKey::from_der(chain, private, &default_provider());
    pair.map(Arc::new).map_err(|error| TlsError::Unusable { cert: cert.into(), key: key.into(), error })
}

/// A connection in plain text or under TLS. The handshake happens while the head of the first request is read, so that it
/// has the same limits of number and time.
pub(super) enum ServerStream<S> {
    Plain(S),
    Handshake(Box<Accept<S>>),
    Encrypted(Box<TlsStream<S>>),
    /// The handshake failed.
    Closed,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ServerStream<S> {
    pub(super) fn new(stream: S, tls: Option<&TlsPair>) -> Self {
        match tls {
            Some(tls) => Self::Handshake(Box::new(tls.acceptor.accept(stream))),
            None => Self::Plain(stream),
        }
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self::Handshake(accept) = self else { return Poll::Ready(Ok(())) };
        let accepted = ready!(Pin::new(accept.as_mut()).poll(cx));
        let (next, result) = match accepted {
            Ok(stream) => (Self::Encrypted(Box::new(stream)), Ok(())),
            Err(error) => (Self::Closed, Err(error)),
        };
        *self = next;
        Poll::Ready(result)
    }
}

impl<S> fmt::Debug for ServerStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Handshake(_) => "Handshake",
            Self::Encrypted(_) => "Encrypted",
            Self::Closed => "Closed",
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for ServerStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_handshake(cx))?;
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Encrypted(stream) => Pin::new(stream.as_mut()).poll_read(cx, buffer),
            Self::Handshake(_) | Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ServerStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_handshake(cx))?;
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Encrypted(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
            Self::Handshake(_) | Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_handshake(cx))?;
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Self::Encrypted(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, pieces),
            Self::Handshake(_) | Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Handshake(_) | Self::Encrypted(_) | Self::Closed => true,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Encrypted(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
            // Nothing was written yet.
            Self::Handshake(_) | Self::Closed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Encrypted(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            // Dropping the stream closes it.
            Self::Handshake(_) | Self::Closed => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::duplex;
    use tokio_rustls::{TlsConnector, client};

    use super::*;

    const FIRST: &str = include_str!("../../tests/tls/first.crt");
    const SECOND: &str = include_str!("../../tests/tls/second.crt");

    fn data(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
    }

    pub(in crate::serve) fn tls() -> TlsPair {
        TlsPair::from_files(&data("first.crt"), &data("first.key")).unwrap()
    }

    /// A client that trusts both certificates.
    pub(in crate::serve) async fn connect<S>(stream: S) -> io::Result<client::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut roots = RootCertStore::empty();
        for pem in [FIRST, SECOND] {
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
    }

    /// The certificate that a new connection gets.
    async fn presented(tls: &TlsPair) -> String {
        let (client, server) = duplex(16 * 1024);
        let (connected, accepted) = tokio::join!(connect(client), tls.acceptor.accept(server));
        accepted.unwrap();
        let connected = connected.unwrap();
        let got = connected.get_ref().1.peer_certificates().unwrap()[0].clone();
        let is = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap() == got;
        if is(FIRST) {
            "first"
        } else if is(SECOND) {
            "second"
        } else {
            "unknown"
        }
        .into()
    }

    /// Replaces a file as certificate tools do: a new file is moved over the old one.
    fn replace(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
        let new = folder.join("new");
        fs::write(&new, content).unwrap();
        fs::rename(new, folder.join(name)).unwrap();
    }

    #[tokio::test]
    async fn a_new_pair_is_used_once_both_files_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, from: &str| replace(folder.path(), name, fs::read(data(from)).unwrap());
        put("tls.crt", "first.crt");
        put("tls.key", "first.key");
        let tls = TlsPair::from_files(&folder.path().join("tls.crt"), &folder.path().join("tls.key")).unwrap();
        assert_eq!((tls.files.reload_once().is_none(), presented(&tls).await), (true, "first".into()));

        put("tls.crt", "second.crt");
        assert!(matches!(tls.files.reload_once(), Some(Err(TlsError::Unusable { .. }))));
        assert!(tls.files.reload_once().is_none(), "reported once");
        assert_eq!(presented(&tls).await, "first");

        put("tls.key", "second.key");
        assert!(matches!(tls.files.reload_once(), Some(Ok(()))));
        assert_eq!(presented(&tls).await, "second");

        replace(folder.path(), "tls.crt", "not a certificate");
        assert!(matches!(tls.files.reload_once(), Some(Err(TlsError::NoCertificate { .. }))));
        fs::remove_file(folder.path().join("tls.key")).unwrap();
        assert!(matches!(tls.files.reload_once(), Some(Err(_))));
        assert_eq!(presented(&tls).await, "second");
    }

    #[test]
    fn a_pair_that_cannot_be_used_is_named() {
        let error = |cert: &str, key: &str| match TlsPair::from_files(&data(cert), &data(key)) {
            Ok(_) => String::new(),
            Err(error) => error.to_string().replace(env!("CARGO_MANIFEST_DIR"), ""),
        };
        assert!(error("none.crt", "first.key").starts_with("can't read /tests/tls/none.crt: "));
        assert_eq!(error("first.key", "first.key"), "/tests/tls/first.key has no certificate in PEM format");
        assert_eq!(error("first.crt", "first.crt"), "/tests/tls/first.crt has no private key in PEM format");
        let mixed = error("first.crt", "second.key");
        assert!(mixed.starts_with("/tests/tls/first.crt and /tests/tls/second.key can't be used: "), "{mixed}");
    }
}
