//! beads4657: eight racers asked for the next item, and two to seven of them won the same one. These tests play every
//! interleaving of a small model and check that exactly one racer wins each item.

use lease::caller::Role;
use lease::command::{Complete, Next, Write};
use lease::item::NewItem;
use lease::names::{ItemId, QueueName};
use lease::numbers::{Time, Token, Wall};
use lease::{Command, Entry, Outcome, Records, Request, Salt, State};
use std::collections::BTreeMap;
use test_support::names;

/// One course of the race so far.
#[derive(Clone)]
struct Race {
    state: State,
    records: Records,
    /// Racer, item and token of each win, in order.
    won: Vec<(usize, ItemId, Token)>,
    requests: u32,
}

impl Race {
    fn new(items: usize) -> Self {
        let mut race =
            Self { state: State::new(Salt([1, 2])), records: Records::default(), won: Vec::new(), requests: 0 };
        for item in 0..items {
            let item = NewItem::new(item_id(item), queue());
            race.apply(vec![(0, Command::Create(Box::new(item)))]);
        }
        race
    }

    fn apply(&mut self, commands: Vec<(usize, Command)>) -> Vec<Outcome> {
        let mut requests = Vec::new();
        for (racer, command) in commands {
            self.requests += 1;
            requests.push(request(racer, self.requests, command));
        }
        let entry = Entry { at: Time(1), wall: Wall(1), commands: requests };
        let applied = self.state.apply(&entry, &self.records);
        self.records.write(&applied.changes);
        applied.outcomes
    }

    /// The racers ask in this order, all in one entry.
    fn ask(&mut self, racers: &[usize]) {
        let outcomes = self.apply(racers.iter().map(|racer| (*racer, Command::Next(Next::new(queue())))).collect());
        for (racer, outcome) in racers.iter().zip(&outcomes) {
            match outcome {
                Outcome::Dispatched(grants) => {
                    let [grant] = grants.as_slice() else { panic!("asked for one, got {grants:?}") };
                    self.won.push((*racer, grant.item.clone(), grant.token));
                }
                Outcome::Empty { .. } => {}
                other => panic!("next was answered {other:?}"),
            }
        }
    }

    fn complete(&mut self, racer: usize) {
        let (_, item, token) = self.won.iter().find(|(of, _, _)| *of == racer).expect("a winner").clone();
        let write = Write { item, token: Some(token), read_at: None };
        let outcomes = self.apply(vec![(racer, Command::Complete(Complete { write, result: None }))]);
        assert!(matches!(&outcomes[0], Outcome::Moved { .. }), "{outcomes:?}");
    }

    fn check(&self, racers: usize, items: usize) {
        let mut winners: BTreeMap<&ItemId, Vec<usize>> = BTreeMap::new();
        for (racer, item, _) in &self.won {
            winners.entry(item).or_default().push(*racer);
        }
        assert_eq!(self.won.len(), racers.min(items), "every item is won while there are racers: {winners:?}");
        assert!(winners.values().all(|racers| racers.len() == 1), "one winner an item: {winners:?}");
        assert!(self.won.windows(2).all(|pair| pair[0].2 < pair[1].2), "tokens rise: {:?}", self.won);
    }
}

#[test]
fn eight_racers_in_every_order_win_each_item_once() {
    for items in [1, 3, 8, 9] {
        let mut orders = 0;
        visit_orders(Race::new(items), &mut (0..8).collect(), &mut |race| {
            race.check(8, items);
            orders += 1;
        });
        assert_eq!(orders, 40_320);
    }
}

/// Plays every order of the racers that have not asked yet.
fn visit_orders(race: Race, waiting: &mut Vec<usize>, finished: &mut dyn FnMut(&Race)) {
    if waiting.is_empty() {
        return finished(&race);
    }
    for index in 0..waiting.len() {
        let racer = waiting.remove(index);
        let mut after = race.clone();
        after.ask(&[racer]);
        visit_orders(after, waiting, finished);
        waiting.insert(index, racer);
    }
}

#[test]
fn the_grouping_of_eight_racers_into_entries_does_not_matter() {
    for items in [1, 3, 8] {
        for cuts in 0_u32..1 << 7 {
            let mut race = Race::new(items);
            let mut gathered = vec![0];
            for racer in 1..8 {
                if cuts & (1 << (racer - 1)) != 0 {
                    race.ask(&std::mem::take(&mut gathered));
                }
                gathered.push(racer);
            }
            race.ask(&gathered);
            race.check(8, items);
        }
    }
}

/// Seven racers each ask, then complete what they won. Racers are alike, so it is enough to let them begin in order:
/// that leaves 13!! = 135,135 interleavings.
#[test]
fn completing_while_others_ask_lets_nobody_win_twice() {
    let mut interleavings = 0;
    visit_interleavings(Race::new(4), 7, 0, &mut Vec::new(), &mut |race| {
        race.check(7, 4);
        interleavings += 1;
    });
    assert_eq!(interleavings, 135_135);
}

fn visit_interleavings(
    race: Race,
    racers: usize,
    begun: usize,
    running: &mut Vec<usize>,
    finished: &mut dyn FnMut(&Race),
) {
    if begun == racers && running.is_empty() {
        return finished(&race);
    }
    if begun < racers {
        let mut after = race.clone();
        after.ask(&[begun]);
        running.push(begun);
        visit_interleavings(after, racers, begun + 1, running, finished);
        running.pop();
    }
    for index in 0..running.len() {
        let racer = running.remove(index);
        let mut after = race.clone();
        // A racer that won nothing has nothing to complete.
        if after.won.iter().any(|(winner, _, _)| *winner == racer) {
            after.complete(racer);
        }
        visit_interleavings(after, racers, begun, running, finished);
        running.insert(index, racer);
    }
}

fn request(racer: usize, number: u32, command: Command) -> Request {
    names::request(names::caller(&format!("racer-{racer}"), &[Role::Worker, Role::Dispatcher]), number, command)
}

fn item_id(item: usize) -> ItemId {
    names::item(&format!("item-{item}"))
}

fn queue() -> QueueName {
    names::queue("work")
}
