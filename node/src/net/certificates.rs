//! Certificates in PEM files that may be replaced while the node runs.
//!
//! Keeps the files' content and the configuration that was built from it. Invalid content is never used: the previous
//! configuration stays in use.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::sleep;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// How often the files are read again.
const READ_EVERY: Duration = Duration::from_secs(10);

/// An error in a certificate or key file, with the file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl TlsError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    pub(crate) fn of(path: &Path, error: &dyn fmt::Display) -> Self {
        Self(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

/// Files that belong together, and the configuration that is built from them.
pub(crate) trait PemFiles {
    type Built: fmt::Debug;

    fn paths(&self) -> Vec<&Path>;

    /// Builds the configuration from the contents of the paths, in their order.
    fn build(&self, contents: &[Vec<u8>]) -> Result<Self::Built, TlsError>;
}

/// The configuration in use. Clones share it.
#[derive(Debug)]
pub(crate) struct Kept<F: PemFiles> {
    files: Arc<F>,
    current: Arc<RwLock<Arc<Loaded<F::Built>>>>,
}

impl<F: PemFiles> Clone for Kept<F> {
    fn clone(&self) -> Self {
        Self { files: self.files.clone(), current: self.current.clone() }
    }
}

#[derive(Debug)]
struct Loaded<T> {
    contents: Contents,
    built: Arc<T>,
}

#[derive(PartialEq, Eq)]
struct Contents(Vec<Vec<u8>>);

/// A key must not end up in a log.
impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

impl<F: PemFiles> Kept<F> {
    pub(crate) fn new(files: F) -> Result<Self, TlsError> {
        let contents = Contents::read(&files)?;
        let built = Arc::new(files.build(&contents.0)?);
        let current = Arc::new(RwLock::new(Arc::new(Loaded { contents, built })));
        Ok(Self { files: Arc::new(files), current })
    }

    /// Reads the files again and returns whether they had changed.
    pub(crate) fn reload(&self) -> Result<bool, TlsError> {
        let contents = Contents::read(&*self.files)?;
        if contents == self.loaded().contents {
            return Ok(false);
        }
        let built = Arc::new(self.files.build(&contents.0)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Loaded { contents, built });
        Ok(true)
    }

    pub(crate) fn current(&self) -> Arc<F::Built> {
        self.loaded().built.clone()
    }

    fn loaded(&self) -> Arc<Loaded<F::Built>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Contents {
    fn read(files: &impl PemFiles) -> Result<Self, TlsError> {
        let read = |path: &Path| fs::read(path).map_err(|error| TlsError::of(path, &error));
        files.paths().into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

/// Parses the certificates of a PEM file; there must be at least one.
pub(crate) fn certificates(bytes: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    match CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>() {
        Ok(found) if found.is_empty() => Err(TlsError::of(path, &"contains no certificate")),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::of(path, &error)),
    }
}

pub(crate) fn private_key(bytes: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| TlsError::of(path, &error))
}

/// Reloads replaced files without a restart, until it is dropped.
pub(crate) async fn renew(of: &'static str, reload: impl Fn() -> Result<bool, TlsError>) {
    loop {
        sleep(READ_EVERY).await;
        match reload() {
            Ok(true) => tracing::info!(of, "new certificates are in use"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(of, %error, "the certificates cannot be loaded; the previous ones stay in use")
            }
        }
    }
}
