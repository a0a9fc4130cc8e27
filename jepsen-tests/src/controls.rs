//! Promises broken on purpose: for each the workload and the faults that show it, and the invariant that must find it.
//! This proves that the suite can fail.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A promise that a build for tests can break.
#[derive(Debug)]
pub struct Control {
    pub name: &'static str,
    pub workload: &'static str,
    pub nemesis: &'static [&'static str],
    pub minutes: f64,
    /// The invariants of which at least one must be violated.
    pub caught_by: &'static [&'static str],
}

pub const ALL: &[Control] = &[
    Control { name: "fencing", workload: "mutex", nemesis: &[], minutes: 0.5, caught_by: &["I1"] },
    Control { name: "dedup", workload: "idempotency", nemesis: &[], minutes: 0.5, caught_by: &["I10"] },
    Control { name: "fifo", workload: "line", nemesis: &[], minutes: 0.5, caught_by: &["I8"] },
    Control { name: "wall-clock", workload: "expiry", nemesis: &["wall-bump"], minutes: 1.0, caught_by: &["I3"] },
    Control {
        name: "lease-read",
        workload: "register",
        nemesis: &["pause-long", "isolate-leader"],
        minutes: 2.0,
        caught_by: &["I11"],
    },
    Control {
        name: "fsync",
        workload: "register",
        nemesis: &["power-loss-all"],
        minutes: 1.0,
        caught_by: &["I5", "I11"],
    },
    Control { name: "rules", workload: "mutex", nemesis: &["newer-build"], minutes: 0.5, caught_by: &["I20"] },
    Control {
        name: "stale-voters",
        workload: "membership",
        nemesis: &["join-together"],
        minutes: 2.0,
        caught_by: &["I23"],
    },
    Control {
        name: "removed-returns",
        workload: "membership",
        nemesis: &["move-and-remove"],
        minutes: 1.5,
        caught_by: &["I23"],
    },
    Control {
        name: "snapshot-race",
        workload: "register",
        nemesis: &["snapshot-overlap"],
        minutes: 2.0,
        caught_by: &["I24"],
    },
    // The same leader must continue: if every node is isolated, followers start elections and usually win in the end.
    Control {
        name: "no-quorum-time",
        workload: "long",
        nemesis: &["kill-followers"],
        minutes: 1.5,
        caught_by: &["I3"],
    },
    Control { name: "late-repeat", workload: "idempotency", nemesis: &[], minutes: 2.7, caught_by: &["I10"] },
    Control {
        name: "wrong-date",
        workload: "mutex",
        nemesis: &["wrong-date", "backup"],
        minutes: 0.5,
        caught_by: &["I5"],
    },
    Control { name: "long-answers", workload: "bulk", nemesis: &[], minutes: 0.5, caught_by: &["I27"] },
    Control { name: "silent-delay", workload: "parked", nemesis: &[], minutes: 0.5, caught_by: &["I26"] },
];

#[must_use]
pub fn find(name: &str) -> Option<&'static Control> {
    ALL.iter().find(|control| control.name == name)
}

#[derive(Debug, clap::Args)]
pub struct Asked {
    /// A daemon built with the feature `sabotage`
    #[arg(long, env = "JEPSEN_DAEMON", value_name = "FILE")]
    daemon: PathBuf,
    /// Break only these promises [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Seed of the runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs each control in its own process, because each enters its own namespaces. Returns whether all were caught.
///
/// # Errors
/// When a run cannot be started.
pub fn main(asked: &Asked) -> io::Result<bool> {
    if let Some(unknown) = asked.only.iter().find(|name| find(name).is_none()) {
        let all: Vec<_> = ALL.iter().map(|control| control.name).collect();
        return Err(io::Error::other(format!("--only: unknown promise {unknown}: use one of {}", all.join(", "))));
    }
    let mut rows = Vec::new();
    for control in
        ALL.iter().filter(|control| asked.only.is_empty() || asked.only.iter().any(|name| name == control.name))
    {
        let ran = Command::new(std::env::current_exe()?)
            .args(["--break", control.name, "--seed", &asked.seed.to_string(), "--daemon"])
            .arg(&asked.daemon)
            .arg("--newer")
            .arg(&asked.daemon)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        let said = String::from_utf8_lossy(&ran.stdout);
        let caught = said.lines().rfind(|line| line.starts_with("caught:")).map(str::to_owned);
        rows.push((control, ran.status.success(), caught));
    }
    let mut out = io::stdout().lock();
    writeln!(out, "\n{:<16} {:<12} {:<28} verdict", "broken", "workload", "faults")?;
    let mut is_well = true;
    for (control, is_caught, caught) in rows {
        is_well &= is_caught;
        let verdict = caught.unwrap_or_else(|| "NOT CAUGHT".into());
        let faults = if control.nemesis.is_empty() { "none".to_owned() } else { control.nemesis.join(", ") };
        writeln!(out, "{:<16} {:<12} {:<28} {verdict}", control.name, control.workload, faults)?;
    }
    Ok(is_well)
}
