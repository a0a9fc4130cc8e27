//! Certain waits in a line: a claim that got a place and kept polling under the same request id, each time soon enough
//! that the place cannot have ended.

use super::facts::{Facts, HolderNo, ItemNo, OpNo};
use crate::history::{Asked, Micros, Outcome};
use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub holder: HolderNo,
    pub request: Option<usize>,
    /// It was in line by then.
    pub joined: Micros,
    /// It was in line at least until then, when its last poll with a place as the answer began.
    pub until: Micros,
    pub first: OpNo,
    pub last: OpNo,
    /// The grant that it got at the end.
    pub granted: Option<u64>,
}

/// The certain waits for one item.
#[must_use]
pub fn waits(facts: &Facts<'_>, item: ItemNo) -> Vec<Wait> {
    let mut open: HashMap<HolderNo, Wait> = HashMap::new();
    let mut all = Vec::new();
    for no in facts.of_item[item].iter().copied() {
        let op = facts.op(no);
        let holder = facts.holder_of[no];
        let completed = op.completed.unwrap_or(Micros::MAX);
        match (&op.asked, &op.outcome) {
            (Asked::Claim { .. }, Outcome::Ok(answered)) => {
                let granted = answered.grants.iter().find(|granted| !granted.renewed).map(|granted| granted.token);
                let goes_on = |wait: &&mut Wait| {
                    wait.request.is_some()
                        && wait.request == facts.request_of[no]
                        && completed <= facts.promises.place_lives_until(wait.until)
                };
                if let Some(wait) = open.get_mut(&holder).filter(goes_on) {
                    (wait.until, wait.last, wait.granted) = (op.invoked, no, granted);
                } else {
                    all.extend(open.remove(&holder));
                    if granted.is_none() && answered.place.is_some() {
                        let request = facts.request_of[no];
                        let wait = Wait {
                            holder,
                            request,
                            joined: completed,
                            until: op.invoked,
                            first: no,
                            last: no,
                            granted,
                        };
                        open.insert(holder, wait);
                    }
                }
                if granted.is_some() {
                    all.extend(open.remove(&holder));
                }
            }
            (Asked::Claim { .. }, Outcome::Refused { .. })
            | (Asked::Withdraw { .. }, Outcome::Ok(_) | Outcome::Unknown) => {
                all.extend(open.remove(&holder));
            }
            _ => {}
        }
    }
    all.extend(open.into_values());
    all.sort_by_key(|wait| (wait.joined, wait.first));
    all
}
