//! The signal that the server is stopping.

use tokio_util::sync::CancellationToken;

/// Signals that the server is stopping, in the extensions of every request. Streams and calls that wait must then end.
#[derive(Clone, Debug, Default)]
pub struct Stopping(CancellationToken);

impl Stopping {
    pub(crate) fn begin(&self) {
        self.0.cancel();
    }

    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.is_cancelled()
    }

    pub async fn begun(&self) {
        self.0.cancelled().await;
    }
}
