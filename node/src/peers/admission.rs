//! Which nodes may join the cluster: nodes that an operator named, and nodes with a join secret.
//!
//! A certificate of the authority is not enough: the authority may sign others, too. Without TLS between the nodes they
//! cannot be told apart, and any process that reaches the port may join. Decision 0023.

use crate::peers::shown::Shown;
use crate::peers::wire::JoinRequest;
use lease::numbers::Wall;
use raft_store::codec::records::IdentityRecord;
use raft_store::types::{Membership, NodeId};
use ring::hmac::{HMAC_SHA256, Key, sign, verify};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Every join secret begins with this, so that a leaked one can be recognized.
const PREFIX: &str = "tenure_join_";
/// The expiry time and the node id.
const CLAIM_BYTES: usize = 16;
const MAC_BYTES: usize = 32;
/// Any node.
const ANY: NodeId = 0;

pub const SECRET_FOR: Duration = Duration::from_secs(60 * 60);
/// Secrets that live longer would be forgotten in files.
pub const SECRET_FOR_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Nodes that this node's configuration admits, each with its peer address.
pub type AdmittedNodes = BTreeMap<NodeId, String>;

/// A secret with which the given node, or any node, may join until then. Every node of the cluster can make and check
/// one: nothing is stored.
#[must_use]
pub fn join_secret(cluster: &IdentityRecord, node: Option<NodeId>, until: Wall) -> String {
    let mut claim = [0; CLAIM_BYTES];
    claim[..8].copy_from_slice(&until.0.to_be_bytes());
    claim[8..].copy_from_slice(&node.unwrap_or(ANY).to_be_bytes());
    let mac = sign(&key(cluster), &claim);
    claim.iter().chain(mac.as_ref()).fold(PREFIX.to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a node may join with this secret now.
///
/// # Errors
/// Why not.
pub fn check_secret(cluster: &IdentityRecord, secret: &str, node: NodeId, now: Wall) -> Result<(), &'static str> {
    let bytes =
        secret.trim().strip_prefix(PREFIX).and_then(bytes_of).filter(|bytes| bytes.len() == CLAIM_BYTES + MAC_BYTES);
    let bytes = bytes.ok_or("its join secret is cut off or mistyped")?;
    let (claim, mac) = bytes.split_at(CLAIM_BYTES);
    verify(&key(cluster), claim, mac).map_err(|_| "its join secret is not one of this cluster")?;
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    let (until, named) = (number(&claim[..8]), number(&claim[8..]));
    if now.0 >= until {
        return Err("its join secret has expired");
    }
    if named != ANY && named != node {
        return Err("its join secret is for another node");
    }
    Ok(())
}

/// Derived from the cluster's salt, which only its nodes and backups hold.
fn key(cluster: &IdentityRecord) -> Key {
    let [first, second] = cluster.salt.0;
    let salt: Vec<u8> = [first.to_be_bytes(), second.to_be_bytes()].concat();
    let label = [b"tenure join secret 1 ".as_slice(), &cluster.cluster.to_be_bytes()].concat();
    Key::new(HMAC_SHA256, sign(&Key::new(HMAC_SHA256, &salt), &label).as_ref())
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|digit| digit.to_digit(16).and_then(|digit| digit.try_into().ok())).collect();
    digits
        .filter(|digits| digits.len().is_multiple_of(2))
        .map(|digits| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Whether a node may join, or change its address. The leader decides this.
///
/// # Errors
/// Why not, and what an operator can do about it. The message names only the node that asks.
pub(crate) fn check(
    cluster: &IdentityRecord,
    members: &Membership,
    asked: &JoinRequest,
    now: Wall,
) -> Result<(), String> {
    let shown = Shown::from_blob(asked.certificate.as_ref());
    let (node, address) = (asked.node, &asked.member.peer_address);
    if shown == Shown::Nothing {
        return Ok(());
    }
    if !shown.is_for(address) {
        return Err(format!(
            "the certificate of node {node} is not for the host of its --peer-address {address}: give it one for that host"
        ));
    }
    // An operator added it, or its certificate fits a known member; its directory is checked next.
    let is_known = members.get_node(&node).is_some_and(|known| shown.is_for(&known.peer_address));
    if is_known || asked.is_admitted {
        return Ok(());
    }
    let why = match &asked.secret {
        None => "no operator admitted it, and it has no join secret",
        Some(secret) => match check_secret(cluster, secret, node, now) {
            Ok(()) => return Ok(()),
            Err(why) => why,
        },
    };
    Err(format!(
        "node {node} at {address} may not join: {why}. Add it with `tenure cluster add --node {node} --peer-address {address}`, or \
         give it --join-secret-file with what `tenure cluster join-secret` prints, or start the nodes of the cluster with \
         --admit {node}={address}"
    ))
}

/// Whether this node's configuration admits the node.
pub(crate) fn is_admitted(admitted: &AdmittedNodes, asked: &JoinRequest) -> bool {
    admitted.get(&asked.node) == Some(&asked.member.peer_address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::Salt;

    const NOW: Wall = Wall(1_800_000_000_000);

    fn cluster() -> IdentityRecord {
        IdentityRecord { cluster: 0xC1, salt: Salt([1, 2]), node: 1, instance: 3 }
    }

    #[test]
    fn a_secret_is_valid_in_its_cluster_for_its_node_until_it_expires() {
        let any = join_secret(&cluster(), None, Wall(NOW.0 + 1));
        assert_eq!(check_secret(&cluster(), &any, 7, NOW), Ok(()));
        assert_eq!(check_secret(&cluster(), &format!("{any}\n"), 7, NOW), Ok(()), "with the line end of a file");
        assert_eq!(check_secret(&cluster(), &any, 7, Wall(NOW.0 + 1)), Err("its join secret has expired"));
        let seventh = join_secret(&cluster(), Some(7), Wall(NOW.0 + 1));
        assert_eq!(check_secret(&cluster(), &seventh, 7, NOW), Ok(()));
        assert_eq!(check_secret(&cluster(), &seventh, 8, NOW), Err("its join secret is for another node"));
        for other in [IdentityRecord { cluster: 0xC2, ..cluster() }, IdentityRecord { salt: Salt([1, 3]), ..cluster() }]
        {
            assert_eq!(check_secret(&other, &any, 7, NOW), Err("its join secret is not one of this cluster"));
        }
    }

    #[test]
    fn no_part_of_a_secret_can_be_changed() {
        let secret = join_secret(&cluster(), Some(7), Wall(NOW.0 + 1));
        for at in PREFIX.len()..secret.len() {
            let mut changed = secret.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(check_secret(&cluster(), &changed, 7, NOW).is_err(), "{changed}");
        }
        for wrong in [
            "",
            "tenure_join_",
            &secret[..secret.len() - 1],
            &secret[..secret.len() - 2],
            "tenure_join_é",
            &secret[1..],
        ] {
            assert_eq!(
                check_secret(&cluster(), wrong, 7, NOW),
                Err("its join secret is cut off or mistyped"),
                "{wrong}"
            );
        }
    }
}
