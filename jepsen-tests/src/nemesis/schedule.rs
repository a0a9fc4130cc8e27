//! Which fault comes when, for how long, and with which other one beside it: all from a seed.

use super::{ALL, Active, Family, Kind, find};
use crate::cluster::{Cluster, LIMIT};
use crate::dice::Dice;
use crate::history::Fault;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// What a run's nemesis is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The names of the faults; every one that the machine allows unless said.
    pub names: Vec<String>,
    pub seed: u64,
    /// How long leases of the workload are: pauses are shorter and longer than that.
    pub lease: Duration,
    /// How long a fault lasts.
    pub lasts: (Duration, Duration),
    /// How long nothing is done between two.
    pub rests: (Duration, Duration),
    /// Two at once, of different families.
    pub mixed: bool,
}

/// What there is to do faults with.
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
        }
    }

    /// The faults it names.
    ///
    /// # Errors
    /// When there is none of such a name, or this machine cannot do one that was asked for.
    pub fn kinds(&self, means: Means) -> io::Result<Vec<&'static Kind>> {
        if self.names.is_empty() {
            return Ok(ALL.iter().filter(|kind| means.allow(kind)).collect());
        }
        let named = self.names.iter().map(|name| {
            let kind = find(name).ok_or_else(|| {
                let all: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
                io::Error::other(format!("there is no fault {name:?}: say one of {}", all.join(", ")))
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

/// Does faults until it is told to stop, each of them once before any comes again, and tells of each as it ends. Undoes the last one
/// before it returns; whatever else is wrong then, [`Cluster::heal`] mends.
///
/// # Errors
/// When the plan makes no sense.
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
    let wait = |dice: &mut Dice, (least, most): (Duration, Duration)| {
        let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(0);
        let stop = stop.clone();
        let until = Instant::now() + least + Duration::from_millis(dice.below(span + 1));
        async move {
            tokio::select! {
                () = sleep_until(until) => {}
                () = stop.cancelled() => {}
            }
        }
    };
    loop {
        wait(&mut dice, plan.rests).await;
        if stop.is_cancelled() {
            return Ok(faults);
        }
        let Some(first) = take(&mut left, &kinds, &mut dice, |_| true) else { return Ok(faults) };
        if first.family == Family::Members {
            // It counts on the others: all of them have to be there.
            if let Err(error) = cluster.heal(LIMIT).await {
                faults.push(not_done(&cluster, first, &error));
                continue;
            }
        }
        let mut active = vec![Active::begin(first, &plan, &cluster, &mut dice).await];
        if plan.mixed && first.mixes && dice.chance(60) {
            let fits = |kind: &Kind| kind.mixes && kind.family != first.family;
            if let Some(second) = take(&mut left, &kinds, &mut dice, fits) {
                wait(&mut dice, (Duration::ZERO, plan.lasts.0)).await;
                active.push(Active::begin(second, &plan, &cluster, &mut dice).await);
            }
        }
        wait(&mut dice, plan.lasts).await;
        while let Some(last) = active.pop() {
            let fault = last.end(&cluster).await;
            told(&fault);
            faults.push(fault);
        }
    }
}

/// The next one that fits, of those that were not done in this round.
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
    let (what, began) = (format!("could not be done: {error}"), cluster.now());
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
    fn one_that_is_to_be_mixed_in_is_of_another_family_or_none() {
        let all = [find("kill-all").unwrap(), find("pause-long").unwrap()];
        let (mut left, mut dice) = (Vec::new(), Dice::new(3));
        assert!(take(&mut left, &all, &mut dice, |kind| kind.family != Family::Process).is_none());
        assert_eq!(left.len(), 2, "both are left for later");
    }

    #[test]
    fn a_fault_that_nobody_knows_is_named_and_so_is_one_that_cannot_be_done_here() {
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

    /// Whoever starts a run does so in a task of its own.
    #[test]
    fn a_run_can_be_a_task() {
        fn is_send<T: Send>(_: impl FnOnce(Arc<Cluster>) -> T) {}
        is_send(|cluster| run(cluster, Plan::new(1, Duration::ZERO), CancellationToken::new(), |_| {}));
    }
}
