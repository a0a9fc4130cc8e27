//! The largest encoded size of the answer to a command. A node closes a batch of commands for the leader before their
//! answers could exceed one frame.

use crate::bounds::{
    ACTOR_ID_BYTES, DEPENDENCIES, ITEM_ID_BYTES, LABEL_BYTES, LABELS, NEXT_COUNT, NOTE_BYTES, PHASE_BYTES,
    QUEUE_NAME_BYTES, SESSION_ID_BYTES, TITLE_BYTES,
};
use crate::command::{Command, RenewAll};
use crate::item::Part;

/// A marker byte and eight bytes.
const NUMBER: usize = 9;
/// A flag, the name of a variant, or whether a value is there.
const TAG: usize = 1;
const ITEM_ID: usize = text(ITEM_ID_BYTES);

const LINKS: usize = 2 * (TAG + ITEM_ID) + list(DEPENDENCIES, ITEM_ID) + TAG + NUMBER;
const CONTENT: usize = text(TITLE_BYTES)
    + TAG
    + 2 * list(LABELS, text(LABEL_BYTES))
    + TAG
    + text(ACTOR_ID_BYTES)
    + TAG
    + text(PHASE_BYTES)
    + TAG
    + LINKS
    + list(Part::ALL.len(), TAG + NUMBER)
    + text(ACTOR_ID_BYTES)
    + 3 * NUMBER;
const SNAPSHOT: usize = text(QUEUE_NAME_BYTES) + TAG + 4 * NUMBER + CONTENT;
const GRANT: usize = ITEM_ID + 7 * NUMBER + 3 * TAG + TAG + ITEM_ID + TAG + SNAPSHOT;
const HOLDER: usize = text(ACTOR_ID_BYTES) + TAG + text(SESSION_ID_BYTES);
/// A refusal that names the holder. No other answer without a grant or a list is longer.
const REFUSAL: usize = TAG + NUMBER + 3 * TAG + HOLDER + NUMBER + 2 * (TAG + text(NOTE_BYTES));
const PLAIN: usize = TAG + REFUSAL;

/// The number of cancelled leases assumed in the answer to a heartbeat. An answer may name all ten thousand leases of a
/// session, but with that assumption fewer than a dozen heartbeats would fit into a batch, and nearly all name none.
const CANCELLED: usize = 64;

const fn text(max: usize) -> usize {
    list(max, 1)
}

/// A list, whose length is a number below 65,536.
const fn list(max: usize, each: usize) -> usize {
    assert!(max < 1 << 16, "its length takes more bytes");
    3 + max * each
}

/// A command with one grant in its answer.
pub const GRANT_BYTES_MAX: usize = 3 * TAG + ITEM_ID + 2 * NUMBER + GRANT;

impl Command {
    /// The largest encoded size of the command's outcome. Only the outcome of `renew_all` may be larger, if a cancel is
    /// requested for more than 64 leases of the session.
    #[must_use]
    pub fn answer_bytes_max(&self) -> usize {
        match self {
            Self::Claim(_) => GRANT_BYTES_MAX,
            Self::Update(update) if update.start => GRANT_BYTES_MAX,
            Self::Next(next) => PLAIN + NUMBER + next.count.min(NEXT_COUNT) as usize * GRANT,
            Self::ClaimMany(many) => {
                PLAIN + 2 * NUMBER + many.claims.len() * GRANT_BYTES_MAX + many.releases.len() * PLAIN
            }
            Self::CreateMany(items) => PLAIN + NUMBER + items.len() * PLAIN,
            Self::RenewAll(RenewAll { expected, .. }) => {
                let lost: usize = expected.iter().map(|(item, _)| text(item.as_str().len())).sum();
                PLAIN + 8 * NUMBER + lost + CANCELLED * ITEM_ID
            }
            _ => PLAIN,
        }
    }
}
