//! A history that lost some of its commands mints other tokens. The commands that are left must still name the same
//! leases, so each token in a command is replaced by the newest one that its holder was granted for that item.

use lease::caller::Holder;
use lease::command::Command;
use lease::event::What;
use lease::names::{ItemId, SpaceName};
use lease::numbers::Token;
use lease::{Entry, Records, Salt, State};
use std::collections::BTreeMap;

type Whose = (SpaceName, ItemId, Holder);

/// The holder of each token of the whole history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins(BTreeMap<Token, Whose>);

/// The history with its new tokens, and their holders.
fn play(history: &[Entry], origins: &Origins) -> (Vec<Entry>, Origins) {
    let mut state = State::new(Salt([7, 11]));
    let mut store = Records::default();
    let mut newest: BTreeMap<Whose, Token> = BTreeMap::new();
    let mut granted = Origins::default();
    let mut played = Vec::with_capacity(history.len());
    for entry in history {
        let mut entry = entry.clone();
        for request in &mut entry.commands {
            for token in tokens_of(&mut request.command) {
                if let Some(now) = origins.0.get(token).and_then(|whose| newest.get(whose)) {
                    *token = *now;
                }
            }
        }
        let applied = state.apply(&entry, &store);
        store.write(&applied.changes);
        for event in applied.events {
            if let (Some(item), What::Granted { holder, token, .. }) = (event.item, event.what) {
                let whose = (event.space, item, holder);
                newest.insert(whose.clone(), token);
                granted.0.insert(token, whose);
            }
        }
        played.push(entry);
    }
    (played, granted)
}

impl Origins {
    pub(crate) fn of(history: &[Entry]) -> Self {
        play(history, &Self::default()).1
    }

    pub(crate) fn rebind(&self, history: &[Entry]) -> Vec<Entry> {
        play(history, self).0
    }
}

fn tokens_of(command: &mut Command) -> Vec<&mut Token> {
    match command {
        Command::Renew(renew) => vec![&mut renew.token],
        Command::Extend(extend) => vec![&mut extend.token],
        Command::Reserve(reserve) => vec![&mut reserve.token],
        Command::Release(release) => release.token.iter_mut().collect(),
        Command::ClaimMany(many) => many.releases.iter_mut().filter_map(|release| release.token.as_mut()).collect(),
        Command::RenewAll(all) => all.expected.iter_mut().map(|(_, token)| token).collect(),
        Command::Update(update) => update.write.token.iter_mut().collect(),
        Command::Activity(activity) => activity.write.token.iter_mut().collect(),
        Command::AwaitInput(wait) => wait.write.token.iter_mut().collect(),
        Command::Resume(write) => write.token.iter_mut().collect(),
        Command::HandOn(hand_on) => hand_on.write.token.iter_mut().collect(),
        Command::Complete(complete) => complete.write.token.iter_mut().collect(),
        Command::Fail(fail) => fail.write.token.iter_mut().collect(),
        _ => Vec::new(),
    }
}
