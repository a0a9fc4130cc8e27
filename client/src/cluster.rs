//! The cluster: its members, its leader, its backup. For admins, on any node.

use crate::call::Call;
use crate::path::Path;
use crate::retry::Opened;
use crate::{Client, Error};
use api::cluster::{
    Activated, ClusterStatus, Done, JoinSecret, NewJoinSecret, NewMember, RaiseRules, RulesRaised, Transfer,
};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::CONTENT_DISPOSITION;
use std::time::Duration;
use tokio::time::timeout;

/// A backup that sends nothing for this long has broken off.
const BACKUP_SILENCE: Duration = Duration::from_secs(60);

impl Client {
    pub fn cluster(&self) -> Call<ClusterStatus> {
        Call::get(self, Path::new("/v1/cluster"))
    }

    /// Adds a node as a learner.
    pub fn add_member(&self, member: &NewMember) -> Call<Done> {
        Call::post(self, Path::new("/v1/cluster/members"), member)
    }

    /// Creates a secret with which a node may join for a limited time.
    pub fn join_secret(&self, new: &NewJoinSecret) -> Call<JoinSecret> {
        Call::post(self, Path::new("/v1/cluster/join-secret"), new)
    }

    /// Makes a learner a voter.
    pub fn promote_member(&self, node: u64) -> Call<Done> {
        let path = Path::new("/v1/cluster/members").segment(&node.to_string()).verb("promote");
        Call::bare(self, Method::POST, path)
    }

    /// Removes a node. Its number can never be used again.
    pub fn remove_member(&self, node: u64) -> Call<Done> {
        Call::bare(self, Method::DELETE, Path::new("/v1/cluster/members").segment(&node.to_string()))
    }

    /// Transfers leadership to that node, by default to the most up-to-date voter.
    pub fn transfer_leader(&self, to: Option<u64>) -> Call<Done> {
        Call::post(self, Path::new("/v1/cluster/transfer"), &Transfer { to })
    }

    /// Lets a restored cluster grant again.
    pub fn activate(&self) -> Call<Activated> {
        Call::bare(self, Method::POST, Path::new("/v1/cluster/activate"))
    }

    pub fn raise_rules(&self, version: u32) -> Call<RulesRaised> {
        Call::post(self, Path::new("/v1/cluster/rules"), &RaiseRules { version })
    }

    /// Streams a backup of everything that was acknowledged before this call.
    ///
    /// # Errors
    /// If no node started a backup.
    pub async fn backup(&self) -> Result<Backup, Error> {
        let Opened { headers, body } = Call::<()>::get(self, Path::new("/v1/cluster/backup")).opened().await?;
        let name = headers.get(CONTENT_DISPOSITION).and_then(|header| header.to_str().ok());
        let name = name.and_then(|header| header.split('"').nth(1)).map(ToOwned::to_owned);
        Ok(Backup { name, body })
    }
}

/// A backup that is being received. If it is cut off, reading it returns an error and never an end.
#[derive(Debug)]
pub struct Backup {
    name: Option<String>,
    body: Incoming,
}

impl Backup {
    /// The file name that the node suggests.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// If the backup was cut off: what was received is useless.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let broken = |why: String| Error::Unavailable { why, retry_after_ms: None };
            let frame = timeout(BACKUP_SILENCE, self.body.frame()).await;
            match frame.map_err(|_| broken("the backup stopped".into()))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(broken(format!("the backup was cut off: {error}"))),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, Error>> + Send {
        stream::try_unfold(self, |mut backup| async move { Ok(backup.chunk().await?.map(|bytes| (bytes, backup))) })
    }
}
