//! Chooses the faults, their start, their duration and their combinations, all from a seed.

use super::{ALL, Active, Family, Kind, find};
use crate::cluster::{Cluster, LIMIT};
use crate::dice::Dice;
use crate::history::Fault;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The settings of a run's nemesis.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The names of the faults [default: every fault that the machine allows].
    pub names: Vec<String>,
    pub seed: u64,
    /// The workload's lease duration: pauses are shorter and longer than this.
    pub lease: Duration,
    /// The duration of a fault.
    pub lasts: (Duration, Duration),
    /// The pause between two faults.
    pub rests: (Duration, Duration),
    /// Run several at once, and some of them for long.
    pub mixed: bool,
    /// The duration of the run: one fault lasts at most a part of it.
    pub goes_on_for: Duration,
}

/// The abilities of this machine and the available builds.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    pub packets: bool,
    pub newer_build: bool,
}

impl Means {
    #[must_use]
    pub fn of(cluster: &Cluster) -> Self {
        Self { packets: cluster.wire().has_packets(), newer_build: cluster.options().newer_daemon.is_some() }
    }

    fn allow(self, kind: &Kind) -> bool {
        (self.packets || !kind.needs_packets) && (self.newer_build || !kind.needs_newer)
    }
}

impl Plan {
    #[must_use]
    pub fn new(seed: u64, lease: Duration) -> Self {
        Self {
            names: Vec::new(),
            seed,
            lease,
            lasts: (Duration::from_secs(2), Duration::from_secs(8)),
            rests: (Duration::from_secs(1), Duration::from_secs(5)),
            mixed: false,
            goes_on_for: Duration::from_secs(300),
        }
    }

    /// The selected kinds of faults.
    ///
    /// # Errors
    /// When a name is unknown, or this machine cannot do a fault that was requested.
    pub fn kinds(&self, means: Means) -> io::Result<Vec<&'static Kind>> {
        if self.names.is_empty() {
            return Ok(ALL.iter().filter(|kind| means.allow(kind)).collect());
        }
        let named = self.names.iter().map(|name| {
            let kind = find(name).ok_or_else(|| {
                let all: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
                io::Error::other(format!("unknown fault {name:?}: use one of {}", all.join(", ")))
            })?;
            if kind.needs_newer && !means.newer_build {
                return Err(io::Error::other(format!("{name} needs --newer, a daemon with the feature sabotage")));
            }
            if kind.needs_packets && !means.packets {
                return Err(io::Error::other(format!("{name} needs network namespaces, which are not allowed here")));
            }
            Ok(kind)
        });
        named.collect()
    }
}

/// Limits of nodes that some faults outlast: a call is answered within 10 s, a place in a line lives for 30 s, and a
/// request is remembered for 120 s. With the share of long faults, of a hundred, that outlast each.
const LONG: [(u64, u64, u64); 3] = [(11, 20, 60), (31, 45, 30), (121, 150, 10)];
/// Rounds of a hundred with a long fault.
const LONG_ROUNDS: u64 = 15;
/// One fault lasts at most this part of the run.
const SHARE: u32 = 4;
/// Rounds of a hundred with this many faults at once.
const AT_ONCE: [(u64, usize); 4] = [(30, 1), (35, 2), (25, 3), (10, 4)];
/// A mixed run has no faults for a while before its first fault and after this many rounds: some promises can only be
/// checked then.
const CALM_EVERY: usize = 12;
/// The maximum time without faults, and the maximum part of the run.
const CALM: Duration = Duration::from_secs(20);
const CALM_SHARE: u32 = 8;
/// The later faults of a round begin within this time.
const STAGGERED: Duration = Duration::from_secs(2);

/// Runs faults until it is stopped, each of them once before any is repeated, and reports each when it ends. Undoes the
/// last ones before it returns; [`Cluster::heal`] repairs everything else.
///
/// # Errors
/// When the plan is invalid.
pub async fn run(
    cluster: Arc<Cluster>,
    plan: Plan,
    stop: CancellationToken,
    mut told: impl FnMut(&Fault),
) -> io::Result<Vec<Fault>> {
    let kinds = plan.kinds(Means::of(&cluster))?;
    let mut dice = Dice::of(plan.seed, "nemesis");
    let mut faults = Vec::new();
    let mut left: Vec<&'static Kind> = Vec::new();
    let mut rounds = 0_usize;
    loop {
        if plan.mixed && rounds.is_multiple_of(CALM_EVERY) {
            // If healing fails, the next fault runs all the same, and the end of the run reports it.
            let _ = cluster.heal(LIMIT).await;
            rest(CALM.min(plan.goes_on_for / CALM_SHARE), &stop).await;
        }
        rounds += 1;
        rest(within(&mut dice, plan.rests), &stop).await;
        if stop.is_cancelled() {
            return Ok(faults);
        }
        let Some(first) = take(&mut left, &kinds, &mut dice, |_| true) else { return Ok(faults) };
        if first.family == Family::Members && !first.mixes {
            // It relies on the others: all nodes must be well.
            if let Err(error) = cluster.heal(LIMIT).await {
                faults.push(not_done(&cluster, first, &error));
                continue;
            }
        }
        let round = plan.round(first, &mut left, &kinds, &mut dice);
        let doing = round.into_iter().map(|one| one.run(&cluster, &plan, &stop));
        let mut doing: FuturesUnordered<_> = doing.collect();
        while let Some(fault) = doing.next().await {
            told(&fault);
            faults.push(fault);
        }
    }
}

/// A fault of a round.
struct One {
    kind: &'static Kind,
    begins: Duration,
    lasts: Duration,
    dice: Dice,
}

impl One {
    async fn run(mut self, cluster: &Cluster, plan: &Plan, stop: &CancellationToken) -> Fault {
        rest(self.begins, stop).await;
        let active = Active::begin(self.kind, plan, cluster, &mut self.dice).await;
        rest(self.lasts, stop).await;
        active.end(cluster).await
    }
}

impl Plan {
    /// The faults that run together with the first.
    fn round(
        &self,
        first: &'static Kind,
        left: &mut Vec<&'static Kind>,
        kinds: &[&'static Kind],
        dice: &mut Dice,
    ) -> Vec<One> {
        let count = if self.mixed && first.mixes { by_chance(dice, AT_ONCE) } else { 1 };
        let mut together = vec![first];
        while together.len() < count {
            let fits = |kind: &Kind| kind.mixes && together.iter().all(|other| may_be_together(kind, other));
            let Some(next) = take(left, kinds, dice, fits) else { break };
            together.push(next);
        }
        let long = (self.mixed && dice.chance(LONG_ROUNDS)).then(|| self.long(dice)).flatten();
        let most = self.goes_on_for / SHARE;
        let one = |(nth, kind): (usize, &'static Kind)| One {
            kind,
            begins: if nth == 0 { Duration::ZERO } else { within(dice, (Duration::ZERO, STAGGERED)) },
            lasts: match (kind.takes, long) {
                (Some((least, longest)), _) => within(dice, (least.min(most), longest.min(most))),
                (None, Some(long)) if kind.mixes && kind.family != Family::Members => within(dice, long),
                (None, _) => within(dice, self.lasts),
            },
            dice: Dice::new(dice.roll()),
        };
        together.into_iter().enumerate().map(one).collect()
    }

    /// The duration of a long fault; `None` if the run is too short for any.
    fn long(&self, dice: &mut Dice) -> Option<(Duration, Duration)> {
        let (least, most) = by_chance(dice, LONG.map(|(least, most, chance)| (chance, (least, most))));
        let span = |(least, most)| (Duration::from_secs(least), Duration::from_secs(most));
        let fits = |(_, most): &(Duration, Duration)| *most <= self.goes_on_for / SHARE;
        Some(span((least, most))).filter(fits).or_else(|| Some(span((LONG[0].0, LONG[0].1))).filter(fits))
    }
}

/// Of different families, or of one family whose faults affect nodes, each on another node.
fn may_be_together(one: &Kind, other: &Kind) -> bool {
    one.family != other.family || (one.is_of_nodes() && one.is_single && other.is_single && one.name != other.name)
}

fn by_chance<T: Copy, const N: usize>(dice: &mut Dice, of: [(u64, T); N]) -> T {
    let mut left = dice.below(of.iter().map(|(chance, _)| chance).sum());
    for (chance, what) in of {
        if left < chance {
            return what;
        }
        left -= chance;
    }
    of[0].1
}

fn within(dice: &mut Dice, (least, most): (Duration, Duration)) -> Duration {
    let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(0);
    least + Duration::from_millis(dice.below(span + 1))
}

/// Waits until then, or until it is stopped.
async fn rest(span: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = sleep(span) => {}
        () = stop.cancelled() => {}
    }
}

/// The next suitable fault of those that were not done in this round.
fn take(
    left: &mut Vec<&'static Kind>,
    all: &[&'static Kind],
    dice: &mut Dice,
    fits: impl Fn(&Kind) -> bool,
) -> Option<&'static Kind> {
    if left.is_empty() {
        left.extend(all);
        dice.shuffle(left);
    }
    let at = left.iter().rposition(|kind| fits(kind))?;
    Some(left.remove(at))
}

fn not_done(cluster: &Cluster, kind: &Kind, error: &io::Error) -> Fault {
    let (what, began) = (format!("failed to start: {error}"), cluster.now());
    Fault {
        kind: kind.name.to_owned(),
        what,
        nodes: Vec::new(),
        began,
        ended: Some(began),
        took_hold: false,
        in_force: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_fault_comes_once_before_any_comes_again() {
        let all: Vec<&'static Kind> = ALL.iter().collect();
        let (mut left, mut dice) = (Vec::new(), Dice::new(3));
        for _ in 0..2 {
            let round: BTreeSet<&str> =
                (0..all.len()).map(|_| take(&mut left, &all, &mut dice, |_| true).unwrap().name).collect();
            assert_eq!(round.len(), ALL.len());
        }
    }

    #[test]
    fn the_next_mixed_fault_is_of_another_family_or_there_is_none() {
        let all = [find("kill-all").unwrap(), find("pause-long").unwrap()];
        let (mut left, mut dice) = (Vec::new(), Dice::new(3));
        assert!(take(&mut left, &all, &mut dice, |kind| kind.family != Family::Process).is_none());
        assert_eq!(left.len(), 2, "both are left for later");
    }

    #[test]
    fn unknown_and_impossible_faults_are_named_in_the_error() {
        let mut plan = Plan::new(1, Duration::from_secs(1));
        let (all, without) = (Means { packets: true, newer_build: true }, Means { packets: false, newer_build: false });
        assert_eq!(plan.kinds(all).unwrap().len(), ALL.len());
        assert_eq!(plan.kinds(without).unwrap().len(), ALL.len() - 3);
        for (name, why) in [("reorder", "needs network namespaces"), ("newer-build", "needs --newer")] {
            plan.names = vec![name.into()];
            assert!(plan.kinds(all).is_ok());
            assert!(plan.kinds(without).unwrap_err().to_string().contains(why));
        }
        plan.names = vec!["kill-nobody".into()];
        assert!(plan.kinds(all).unwrap_err().to_string().contains("kill-leader"));
    }

    #[test]
    fn faults_of_a_round_differ_in_family_or_nodes() {
        let all: Vec<&'static Kind> = ALL.iter().collect();
        let mut plan = Plan::new(1, Duration::from_secs(1));
        plan.mixed = true;
        let (mut left, mut dice, mut most, mut is_same) = (Vec::new(), Dice::new(3), 0, false);
        for _ in 0..500 {
            let first = take(&mut left, &all, &mut dice, |_| true).unwrap();
            let round = plan.round(first, &mut left, &all, &mut dice);
            most = most.max(round.len());
            for (nth, one) in round.iter().enumerate() {
                assert!(round.len() == 1 || one.kind.mixes, "{:?} is done alone", one.kind);
                for other in &round[..nth] {
                    assert!(may_be_together(one.kind, other.kind), "{:?} with {:?}", one.kind, other.kind);
                    is_same |= one.kind.family == other.kind.family;
                }
            }
        }
        assert!(most >= 4 && is_same);
    }

    #[test]
    fn long_runs_have_faults_beyond_every_limit_and_short_runs_only_short_faults() {
        let all: Vec<&'static Kind> = ALL.iter().collect();
        let longest = |minutes: u64| {
            let mut plan = Plan::new(1, Duration::from_secs(1));
            (plan.mixed, plan.goes_on_for) = (true, Duration::from_secs(60 * minutes));
            let (mut left, mut dice, mut longest) = (Vec::new(), Dice::new(3), Duration::ZERO);
            for _ in 0..500 {
                let first = take(&mut left, &all, &mut dice, |_| true).unwrap();
                let round = plan.round(first, &mut left, &all, &mut dice);
                longest = round.iter().map(|one| one.lasts).fold(longest, Duration::max);
            }
            longest.as_secs()
        };
        assert!((11..=30).contains(&longest(2)), "{}", longest(2));
        assert!((121..=150).contains(&longest(30)), "{}", longest(30));
    }

    /// A run starts it in its own task.
    #[test]
    fn a_run_can_be_spawned() {
        fn is_send<T: Send>(_: impl FnOnce(Arc<Cluster>) -> T) {}
        is_send(|cluster| run(cluster, Plan::new(1, Duration::ZERO), CancellationToken::new(), |_| {}));
    }
}
