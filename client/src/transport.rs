//! One request to one node, and its result. HTTP/1 only, so that a broken connection affects no other call.

use crate::Error;
use crate::endpoint::Endpoint;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::fmt;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Time limit for connecting; after it, the node is skipped.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Shorter than the time for which nodes and proxies keep an idle connection open.
const IDLE: Duration = Duration::from_secs(20);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The request was not sent, so it certainly had no effect.
    NotSent(String),
    /// The request was sent, at least in part.
    Lost(String),
}

/// A streamed request body, which can be sent only once.
pub(crate) type Upload = UnsyncBoxBody<Bytes, io::Error>;

#[derive(Clone, Debug)]
pub(crate) struct Transport {
    pool: Pool<Dialer, Either<Full<Bytes>, Upload>>,
}

impl Transport {
    pub(crate) fn new(endpoints: &[Endpoint], extra_ca: Option<&Path>) -> Result<Self, Error> {
        let tls = match endpoints.iter().any(Endpoint::is_tls) {
            true => Some(tls(extra_ca)?),
            false => None,
        };
        Ok(Self::dialing(Arc::new(move |endpoint| Box::pin(dial(endpoint, tls.clone())))))
    }

    pub(crate) fn dialing(dial: Dial) -> Self {
        let mut pool = Pool::builder(TokioExecutor::new());
        pool.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        Self { pool: pool.build(Dialer(dial)) }
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, NoAnswer> {
        self.request(request.map(Either::Left)).await
    }

    pub(crate) async fn upload(&self, request: Request<Upload>) -> Result<Response<Incoming>, NoAnswer> {
        self.request(request.map(Either::Right)).await
    }

    async fn request(&self, request: Request<Either<Full<Bytes>, Upload>>) -> Result<Response<Incoming>, NoAnswer> {
        self.pool.request(request).await.map_err(|error| {
            let why = chain(&error);
            if error.is_connect() { NoAnswer::NotSent(why) } else { NoAnswer::Lost(why) }
        })
    }
}

/// An error with all its sources: the outermost alone says little.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

fn tls(extra_ca: Option<&Path>) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = extra_ca {
        let invalid = |why: String| Error::Invalid(format!("{}: {why}", path.display()));
        let found = CertificateDer::pem_file_iter(path).map_err(|error| invalid(error.to_string()))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
            roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
        }
    }
    if roots.is_empty() {
        return Err(Error::Invalid("https endpoint, but no trusted CA certificate found; pass --ca".into()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Invalid(error.to_string()))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn dial(endpoint: Endpoint, tls: Option<TlsConnector>) -> io::Result<Link> {
    let connecting = async {
        let stream = TcpStream::connect((endpoint.host(), endpoint.port())).await?;
        stream.set_nodelay(true)?;
        if !endpoint.is_tls() {
            return Ok(Link::new(stream));
        }
        let tls = tls.ok_or_else(|| io::Error::other("this client is configured without TLS"))?;
        let name = ServerName::try_from(endpoint.host().to_owned()).map_err(io::Error::other)?;
        Ok(Link::new(tls.connect(name, stream).await?))
    };
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT_WITHIN:?}"));
    timeout(CONNECT_WITHIN, connecting).await.map_err(|_| late())?
}

type Dialing = Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>;
pub(crate) type Dial = Arc<dyn Fn(Endpoint) -> Dialing + Send + Sync>;

/// Makes connections for the pool.
#[derive(Clone)]
struct Dialer(Dial);

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

impl tower_service::Service<Uri> for Dialer {
    type Response = TokioIo<Link>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Link>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialing = Endpoint::of(&uri).map(|endpoint| (self.0)(endpoint));
        Box::pin(async move {
            let dialing = dialing.ok_or_else(|| io::Error::other("the request has no address"))?;
            dialing.await.map(TokioIo::new)
        })
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection, with or without TLS.
pub(crate) struct Link(Box<dyn Io>);

impl Link {
    pub(crate) fn new(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Box::new(io))
    }
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Link {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
