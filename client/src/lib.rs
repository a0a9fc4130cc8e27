//! The client of Tenure: every call of a node, and leases that renew themselves.
//!
//! Any node serves any call. A call that a node did not accept is sent to the next node. A call without an answer is
//! repeated with the same id, so that it has one effect. A refusal is returned at once. An [`Error`] tells a call that
//! certainly had no effect from one that may have had one.
//!
//! A worker of a queue:
//!
//! ```no_run
//! use client::names::QueueName;
//! use client::{CallerIdentity, Client, Config, Worker};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let identity = CallerIdentity::ApiKey(std::env::var("TENURE_API_KEY")?);
//!     let client = Client::new(Config::new(["http://node-1:7400", "http://node-2:7400"], identity))?;
//!     let worker = Worker::new(&client, &QueueName::new("thumbnails")?).concurrency(4);
//!     worker
//!         .run(|job| async move {
//!             let item = job.snapshot().await?;
//!             println!("{} with token {}", item.content.title, job.token());
//!             Ok(None)
//!         })
//!         .await?;
//!     Ok(())
//! }
//! ```
//!
//! One item, held during the work on it:
//!
//! ```no_run
//! # async fn rotate(_: client::Token) {}
//! # async fn hold(client: client::Client) -> Result<(), client::Error> {
//! let disk = client::names::ItemId::new("disk-42").expect("a name");
//! let lease = client.claim(&disk).action("rotating").claim().await?;
//! let lost = lease.cancelled();
//! tokio::select! {
//!     () = rotate(lease.token()) => { lease.release().await?; }
//!     () = lost.cancelled() => eprintln!("stopped: {}", lease.why_lost().await),
//! }
//! # Ok(())
//! # }
//! ```

mod call;
mod claim_request;
mod claims;
mod client;
mod clock;
mod cluster;
mod config;
mod endpoint;
mod error;
mod events;
mod fence;
mod items;
mod lease;
mod leases;
mod node;
mod path;
mod queues;
mod request;
mod retry;
mod spaces;
mod transport;
mod watch;
mod worker;
mod workers;
mod writes;

#[cfg(test)]
mod fake;

pub use ::lease::names;
pub use ::lease::numbers::Token;
pub use api;
pub use api::limits::POLL_MAX;
pub use api::query::{
    Consistency, EventsQuery, IfClaimed, ItemsQuery, PageQuery, PeekQuery, RestoreQuery, StreamQuery,
};
pub use call::{Age, Call, Reply};
pub use claim_request::{ClaimProgress, ClaimRequest, PendingClaim};
pub use client::Client;
pub use clock::{Clock, Moment};
pub use cluster::Backup;
pub use config::{CallerIdentity, Config, Session};
pub use endpoint::Endpoint;
pub use error::Error;
pub use fence::{FenceGuard, Fenced};
pub use lease::{Lease, Lost};
pub use node::{Health, Node};
pub use watch::{Ended, Watch};
pub use worker::{Job, JobFailure, Stopped, Worker};
