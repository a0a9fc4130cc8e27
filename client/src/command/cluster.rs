//! The cluster: its members, its leader, its backup. For admins.

use super::at::At;
use super::backup::{Backup, Restore};
use super::failure::Failure;
use super::global::Context;
use super::out::{Out, Paint, Table, grouped, say};
use super::span::Span;
use api::cluster::{ClusterStatus, Done, NewJoinSecret, NewMember, NodeDraining};
use clap::{Args, Subcommand};

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Show the members, the leader, and how up to date each member is
    Status,
    /// Allow a node to join the cluster, as a learner without a vote
    Add(Add),
    /// Create a join secret, with which a node may join for a limited time
    JoinSecret(ForJoining),
    /// Make a learner a voter
    Promote(Member),
    /// Remove a node from the cluster; its number can never be used again
    Remove(Member),
    /// Transfer leadership to another node
    Transfer(Transfer),
    /// Make a node take a snapshot of its state
    Snapshot(At),
    Backup(Backup),
    Restore(Restore),
    /// Let a restored cluster grant again, once nobody works under leases of the old cluster
    Activate,
    /// Make a node hand over leadership and reject commands
    Drain(At),
    /// Make a node accept commands again
    Undrain(At),
    /// Raise the rules version in force, once every member supports it
    Rules(Rules),
}

#[derive(Args, Debug)]
pub(crate) struct Add {
    /// Node number that no other data directory has ever used
    #[arg(long, value_name = "N")]
    node: u64,
    /// Address where other nodes reach it
    #[arg(long, value_name = "HOST:PORT")]
    peer_address: String,
    /// Address where callers reach it
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    api_address: String,
    /// Instance number of its data directory; 0: not known yet, the node reports it when it joins
    #[arg(long, value_name = "N", default_value_t = 0)]
    instance: u64,
}

#[derive(Args, Debug)]
pub(crate) struct ForJoining {
    /// How long the secret is valid, at most 30d
    #[arg(long = "for", value_name = "TIME", default_value = "1h")]
    valid_for: Span,
    /// Number of the only node that may join with it [default: any node]
    #[arg(long, value_name = "N")]
    node_id: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct Member {
    /// Node number
    #[arg(value_name = "NODE")]
    node: u64,
}

#[derive(Args, Debug)]
pub(crate) struct Transfer {
    /// New leader [default: the most up-to-date voter]
    #[arg(long, value_name = "NODE")]
    to: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct Rules {
    /// New rules version
    #[arg(value_name = "VERSION")]
    raise_to: u32,
}

impl Verb {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (&context.client, &context.out);
        match self {
            Self::Status => out.answer(&context.ask(client.cluster()).await?, status),
            Self::Add(add) => {
                let Add { node, peer_address, api_address, instance } = add;
                let member = NewMember { node, peer_address, api_address, instance };
                let done = context.ask(client.add_member(&member)).await?;
                out.answer(&done, |out, Done { node }| out.line(format_args!("node {node} may join")))
            }
            Self::JoinSecret(ForJoining { valid_for, node_id }) => {
                let new = NewJoinSecret { node: node_id, valid_for_ms: Some(valid_for.ms()) };
                let made = context.ask(client.join_secret(&new)).await?;
                out.answer(&made, |out, made| out.line(&made.secret))
            }
            Self::Promote(Member { node }) => {
                let done = context.ask(client.promote_member(node)).await?;
                out.answer(&done, |out, Done { node }| out.line(format_args!("node {node} is a voter")))
            }
            Self::Remove(Member { node }) => {
                let done = context.ask(client.remove_member(node)).await?;
                out.answer(&done, |out, Done { node }| {
                    out.line(format_args!("node {node} is removed from the cluster"))
                })
            }
            Self::Transfer(Transfer { to }) => {
                let done = context.ask(client.transfer_leader(to)).await?;
                out.answer(&done, |out, Done { node }| out.line(format_args!("node {node} is the leader")))
            }
            Self::Snapshot(at) => {
                let taken = context.ask(at.node(context)?.snapshot()).await?;
                out.answer(&taken, |out, taken| {
                    out.line(format_args!("node {} took a snapshot up to entry {}", taken.node, taken.applied))
                })
            }
            Self::Backup(backup) => backup.run(context).await,
            Self::Restore(restore) => restore.run(context).await,
            Self::Activate => {
                let activated = context.ask(client.activate()).await?;
                out.answer(&activated, |out, _| out.line("the cluster grants again"))
            }
            Self::Drain(at) => out.answer(&context.ask(at.node(context)?.drain()).await?, drained),
            Self::Undrain(at) => out.answer(&context.ask(at.node(context)?.undrain()).await?, drained),
            Self::Rules(Rules { raise_to }) => {
                let raised = context.ask(client.raise_rules(raise_to)).await?;
                out.answer(&raised, |out, raised| out.line(format_args!("rules {} are in force", raised.version)))
            }
        }
    }
}

fn drained(out: &Out, draining: &NodeDraining) -> Result<(), Failure> {
    let so = if draining.draining { "rejects commands" } else { "accepts commands" };
    out.line(format_args!("node {} {so}", draining.node))
}

fn status(out: &Out, status: &ClusterStatus) -> Result<(), Failure> {
    let mut table = Table::default();
    table.pair("cluster", &status.cluster);
    table.pair(
        "leader",
        status.leader.map_or_else(|| "none".into(), |leader| format!("node {leader}, term {}", status.term)),
    );
    table.pair("rules", status.rules_version);
    if !status.activated {
        table.row([("grants".into(), Paint::Dim), ("not before `tenure cluster activate`".into(), Paint::Warn)]);
    }
    match status.hashes_agree {
        Some(true) => table.row([("states".into(), Paint::Dim), ("agree".into(), Paint::Good)]),
        Some(false) => table.row([("states".into(), Paint::Dim), ("DISAGREE".into(), Paint::Bad)]),
        None => {}
    }
    out.table(&table)?;
    out.line("")?;
    out.table(&members(status))?;
    for failure in status.members.iter().filter_map(|member| {
        let why = member.report.as_ref().and_then(|report| report.failure.clone());
        why.or(member.unreachable.clone()).map(|why| format!("node {}: {why}", member.id))
    }) {
        say(super::out::clean(&failure));
    }
    Ok(())
}

/// A table with one row per node.
pub(crate) fn members(status: &ClusterStatus) -> Table {
    let mut table = Table::new(&["NODE", "ROLE", "VOTES", "APPLIED", "LAG", "VERSION", "CALLERS", "PEERS"]);
    for member in &status.members {
        let plain = |text: String| (text, Paint::Plain);
        let report = member.report.as_ref();
        let role = match report {
            None => ("unreachable".to_owned(), Paint::Bad),
            Some(report) if report.failure.is_some() => ("failed".into(), Paint::Bad),
            Some(report) if report.draining => (format!("{}, draining", report.role), Paint::Warn),
            Some(report) if report.role == "leader" => (report.role.clone(), Paint::Good),
            Some(report) => (report.role.clone(), Paint::Plain),
        };
        let number = |number: Option<u64>| number.map(grouped).unwrap_or_default();
        table.row([
            plain(member.id.to_string()),
            role,
            plain(if member.votes { "yes" } else { "learns" }.into()),
            plain(number(report.and_then(|report| report.applied))),
            plain(number(report.and_then(|report| report.lag))),
            plain(report.map(|report| report.version.clone()).unwrap_or_default()),
            plain(member.api_address.clone()),
            (member.peer_address.clone(), Paint::Dim),
        ]);
    }
    table
}
