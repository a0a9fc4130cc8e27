//! Deadlines: leases expire, places end, reservations and delays run out, dates come, unused queues are removed.

use super::Step;
use crate::command::{Command, Request};
use crate::event::What;
use crate::numbers::Time;
use crate::refusal::Refusal;
use crate::standing::ItemState;
use crate::state::deadlines::Due;
use crate::state::item_key::ItemKey;
use sabotage::{Broken, is_broken};

impl Step<'_> {
    /// Processes the deadlines of the items that this entry's commands act on, if more deadlines have passed than an
    /// entry may process. So a late renewal is refused however many other leases expired before it.
    fn expire_named(&mut self, commands: &[Request]) {
        for request in commands {
            let Some(space) = self.state.space_numbers.get(&request.space).copied() else { continue };
            for id in request.command.items() {
                if let Some(key) = self.state.items.find(space, id) {
                    self.expire_item(key);
                }
            }
            if matches!(request.command, Command::RenewAll(_)) {
                let holdings = self.state.holdings.get(space, &request.caller.actor);
                let held: Vec<_> =
                    holdings.iter().flat_map(|holdings| holdings.of_session(&request.caller.session)).collect();
                for (_, key) in held {
                    if self.state.items.is_live(key) {
                        self.expire_item(key);
                    }
                }
            }
        }
    }

    /// Processes all passed deadlines of one item and of its places.
    fn expire_item(&mut self, key: ItemKey) {
        let now = self.now();
        while self.state.items.is_live(key) && self.item(key).standing.due_at() <= now {
            self.item_is_due(key);
        }
        if !self.state.items.is_live(key) {
            return;
        }
        let line = self.item(key).line.as_ref();
        let over: Vec<_> =
            line.iter().flat_map(|line| line.iter()).filter(|(_, place)| place.ends_at() <= now).collect();
        let over: Vec<_> = over.into_iter().map(|(number, _)| number).collect();
        for number in over {
            self.leave_line(key, number, Err(Refusal::WaitTimeout));
            self.settle(key);
        }
    }

    /// Processes the deadlines that have passed, in their order, as far as this entry's steps reach.
    pub(super) fn work_off_due(&mut self, commands: &[Request]) {
        let now = self.now();
        while self.steps_left > 0 {
            let Some((time, due)) = self.state.deadlines.first() else { break };
            if time > now {
                break;
            }
            match due {
                Due::Item(key) => {
                    if self.state.is_really_due(key) {
                        self.steps_left -= 1;
                        self.item_is_due(key);
                    }
                }
                Due::Place(key, number) => {
                    self.steps_left -= 1;
                    self.leave_line(key, number, Err(Refusal::WaitTimeout));
                    self.settle(key);
                }
                Due::Worker(space, who) => {
                    self.steps_left -= 1;
                    self.worker_is_due(space, &who);
                }
                Due::Queue(no) => {
                    if self.state.is_queue_due(time, no) {
                        self.steps_left -= 1;
                        self.remove_queue(no);
                    }
                }
            }
        }
        while self.steps_left > 0 {
            let Some((date, key)) = self.state.deadlines.calendar.first().copied() else { break };
            if date > self.wall {
                break;
            }
            self.steps_left -= 1;
            self.change(key, |item| {
                if let ItemState::Pending(waits) = &mut item.standing.state {
                    waits.not_before = None;
                }
            });
            self.settle_waits(key);
        }
        if self.steps_left == 0 {
            self.expire_named(commands);
        }
        self.work_off_backlog();
        self.work_off_retention();
    }

    /// Processes one passed deadline of this item.
    fn item_is_due(&mut self, key: ItemKey) {
        let now = self.now();
        let standing = &self.item(key).standing;
        if let Some(lease) = &standing.lease {
            if lease.expires_at > now {
                let reason = standing.cancel.as_ref().map_or_else(String::new, |cancel| cancel.reason.to_string());
                self.cancel_now(key, reason);
            } else if lease.pickup.is_some() {
                self.not_picked_up(key);
            } else {
                self.lapse(key);
            }
            return;
        }
        match &standing.state {
            ItemState::Pending(waits) if is_over(waits.until, now) => {
                self.change(key, |item| {
                    if let ItemState::Pending(waits) = &mut item.standing.state {
                        waits.until = None;
                    }
                });
                self.settle_waits(key);
            }
            ItemState::Reserved(reservation) if reservation.until <= now => self.end_reservation(key),
            _ => {
                self.change(key, |item| {
                    if let Some(past) = &mut item.standing.past {
                        past.delay = None;
                    }
                });
                if is_broken(Broken::SilentDelay) {
                    self.state.openings.forget(key);
                }
                self.settle(key);
            }
        }
    }

    /// Queues a pending item that no longer waits for anything.
    pub(super) fn settle_waits(&mut self, key: ItemKey) {
        if let ItemState::Pending(waits) = &self.item(key).standing.state
            && waits.is_over()
        {
            self.set_state(key, ItemState::Queued);
            self.emit_of(key, What::Queued);
            self.settle(key);
        }
    }

    /// Ends a grant from the line that its holder did not pick up. It counts neither as an attempt nor as an unclean
    /// end, and the line moves on.
    fn not_picked_up(&mut self, key: ItemKey) {
        let lease = self.end_lease(key);
        let was_stale = lease.pickup.as_ref().is_some_and(|pickup| pickup.was_stale);
        self.emit_of(key, What::NotPickedUp { holder: lease.holder, token: lease.token });
        self.free(key, if was_stale { ItemState::Stale } else { ItemState::Queued });
    }
}

fn is_over(until: Option<Time>, now: Time) -> bool {
    until.is_some_and(|until| until <= now)
}
