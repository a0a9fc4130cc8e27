//! Waiting for a condition, with a limit. Tests do not sleep for a fixed time.

use std::time::{Duration, Instant};

/// Longer than anything in a test takes on a busy machine; nothing waits this long unless it is broken.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Waits for a condition in a test without a runtime, or of something that lasts for microseconds.
pub fn blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Waits for a condition.
#[cfg(feature = "processes")]
pub async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    until_within(LIMIT, what, holds).await;
}

/// Waits for a condition with a limit of its own.
#[cfg(feature = "processes")]
pub async fn until_within(limit: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let holding = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    end_within(limit, what, holding).await;
}

/// Waits for the end of a future and returns its output.
#[cfg(feature = "processes")]
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    end_within(LIMIT, what, future).await
}

#[cfg(feature = "processes")]
async fn end_within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(limit, future).await;
    ended.unwrap_or_else(|_| panic!("not within {limit:?}: {what}"))
}
