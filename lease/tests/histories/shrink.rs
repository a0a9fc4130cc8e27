//! From a failing history of a thousand commands to the few that matter.

use crate::rebind::Origins;
use crate::run::{Failure, Honest, Liar, Run, Watch};
use lease::item::NewItem;
use lease::{Command, Entry};
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// How many commands shrinking may apply in total: about a minute of work.
const BUDGET: usize = 1_000_000;

thread_local! {
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs it; a panic of the machine is a failure like any other.
pub(crate) fn catch<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if IS_CATCHING.get() {
                CAUGHT.with_borrow_mut(|caught| *caught = panic.to_string());
            } else {
                usual(panic);
            }
        }));
    });
    let before = IS_CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_CATCHING.set(before);
    result.unwrap_or_else(|_| {
        let why = CAUGHT.with_borrow(Clone::clone);
        let place = why.lines().next().unwrap_or_default().to_owned();
        Err(Failure { kind: place, why })
    })
}

/// Plays a recorded history.
pub(crate) fn replay(seed: u64, watch: Watch, history: &[Entry], liar: &mut dyn Liar) -> Result<(), Failure> {
    catch(|| {
        let mut run = Run::new(seed, watch, liar);
        for entry in history {
            run.step(entry)?;
        }
        run.finish()
    })
}

/// The smallest history that fails in the same way, as far as the budget reaches.
pub(crate) fn shrink(seed: u64, history: Vec<Entry>, kind: &str) -> Vec<Entry> {
    // Checks after every entry, so that the failure appears at its cause.
    let watch = Watch { violations_every: 1, ..Watch::of(seed) };
    let watch = if fails(seed, watch, &history, kind) { watch } else { Watch::of(seed) };
    // If rebinding panics, the tokens stay as they are.
    let origins = catch(|| Ok(Origins::of(&history))).unwrap_or_default();
    let rebind = |history: &[Entry]| catch(|| Ok(origins.rebind(history))).unwrap_or_else(|_| history.to_vec());
    let shrunk = shrink_while(history, |smaller| fails(seed, watch, &rebind(smaller), kind));
    rebind(&shrunk)
}

/// Leaves out entries, then commands, then parts of batches, as long as it still fails.
pub(crate) fn shrink_while(mut history: Vec<Entry>, still_fails: impl Fn(&[Entry]) -> bool) -> Vec<Entry> {
    let mut left = BUDGET;
    let mut try_without = |smaller: &[Entry]| {
        let cost = smaller.iter().map(|entry| entry.commands.len() + 1).sum();
        left = left.saturating_sub(cost);
        left > 0 && still_fails(smaller)
    };
    leave_out(&mut history, |entries| try_without(entries));
    loop {
        let before = weight(&history);
        for index in (0..history.len()).rev() {
            let mut commands = history[index].commands.clone();
            let (head, tail) = (history[..index].to_vec(), history[index + 1..].to_vec());
            let entry = history[index].clone();
            leave_out(&mut commands, |commands| {
                let this = Entry { commands: commands.to_vec(), ..entry };
                let smaller: Vec<_> = head.iter().cloned().chain([this]).chain(tail.iter().cloned()).collect();
                try_without(&smaller)
            });
            history[index].commands = commands;
        }
        for entry in 0..history.len() {
            for command in 0..history[entry].commands.len() {
                for part in (0..parts_of(&history[entry].commands[command].command)).rev() {
                    let mut smaller = history.clone();
                    remove_part(&mut smaller[entry].commands[command].command, part);
                    if try_without(&smaller) {
                        history = smaller;
                    }
                }
            }
        }
        leave_out(&mut history, |entries| try_without(entries));
        if weight(&history) == before {
            return history;
        }
    }
}

fn weight(history: &[Entry]) -> usize {
    let parts = |entry: &Entry| entry.commands.iter().map(|request| 1 + parts_of(&request.command)).sum::<usize>();
    history.iter().map(|entry| 1 + parts(entry)).sum()
}

/// How many parts a batch has.
fn parts_of(command: &Command) -> usize {
    match command {
        Command::CreateMany(items) => items.len(),
        Command::ClaimMany(many) => many.claims.len() + many.releases.len(),
        Command::SetPolicy(set) => set.settings.len(),
        Command::Update(update) => update.edits.len(),
        Command::Create(new) => usize::from(**new != NewItem::new(new.id.clone(), new.queue.clone())),
        _ => 0,
    }
}

fn remove_part(command: &mut Command, part: usize) {
    match command {
        Command::CreateMany(items) => drop(items.remove(part)),
        Command::ClaimMany(many) if part < many.claims.len() => drop(many.claims.remove(part)),
        Command::ClaimMany(many) => drop(many.releases.remove(part - many.claims.len())),
        Command::SetPolicy(set) => drop(set.settings.remove(part)),
        Command::Update(update) => drop(update.edits.remove(part)),
        Command::Create(new) => **new = NewItem::new(new.id.clone(), new.queue.clone()),
        _ => {}
    }
}

fn fails(seed: u64, watch: Watch, history: &[Entry], kind: &str) -> bool {
    replay(seed, watch, history, &mut Honest).is_err_and(|failure| failure.kind == kind)
}

/// Delta debugging: leaves out smaller and smaller parts, from the end.
fn leave_out<T: Clone>(parts: &mut Vec<T>, mut still_fails: impl FnMut(&[T]) -> bool) {
    let mut size = parts.len().div_ceil(2).max(1);
    loop {
        let mut end = parts.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            let mut smaller = parts.clone();
            smaller.drain(start..end);
            if still_fails(&smaller) {
                *parts = smaller;
            }
            end = start;
        }
        if size == 1 {
            return;
        }
        size = size.div_ceil(2);
    }
}

/// One command per line.
pub(crate) fn show(history: &[Entry]) -> String {
    let mut text = String::new();
    for entry in history {
        writeln!(text, "at {} wall {}", entry.at, entry.wall).expect("text");
        for request in &entry.commands {
            let session = request.caller.session.as_ref().map_or("-", |session| session.as_str());
            let (who, verified, id) = (&request.caller.actor, request.caller.verified, &request.request_id);
            let attempt = request.attempt;
            let line =
                format!("{} {who}/{session} {verified:?} {id} {attempt:?}: {:?}", request.space, request.command);
            writeln!(text, "    {line}").expect("text");
        }
    }
    text
}
