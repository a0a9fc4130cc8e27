//! `space`: its counts and its policy.

use super::failure::Failure;
use super::global::Context;
use super::out::{Table, bytes, grouped, word};
use super::parse;
use api::words::IdentityPolicy;
use clap::{Args, Subcommand};

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Show the counts and the policy of the space
    Show,
    /// Change the policy of the space; values not given are kept. For operators
    Policy(Policy),
}

#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct Policy {
    /// Maximum live items; 0: unlimited
    #[arg(long, value_name = "N")]
    items_max: Option<u64>,
    /// Maximum bytes in the bodies of live items; 0: unlimited
    #[arg(long, value_name = "BYTES")]
    body_bytes_max: Option<u64>,
    /// Identities whose commands are accepted
    #[arg(long, value_name = "WHOSE", value_parser = parse::words(IdentityPolicy::ALL))]
    identity: Option<IdentityPolicy>,
}

impl Verb {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (&context.client, &context.out);
        match self {
            Self::Show => out.answer(&context.ask(client.space()).await?, |out, space| {
                let limit = |number: u64, text: String| if number == 0 { "unlimited".into() } else { text };
                let mut table = Table::default();
                table.pair("space", &space.space);
                table.pair("live items", grouped(space.live));
                table.pair("ended items", grouped(space.terminal));
                table.pair("created", grouped(space.created));
                table.pair("purged", grouped(space.purged));
                table.pair("bodies", bytes(space.body_bytes));
                table.pair("queues", grouped(space.queues));
                table.pair("workers", grouped(space.workers));
                table.pair("policy version", space.version);
                table.pair("items max", limit(space.policy.items_max, grouped(space.policy.items_max)));
                let bodies = limit(space.policy.body_bytes_max, bytes(space.policy.body_bytes_max));
                table.pair("bodies max", bodies);
                table.pair("identity", word(space.policy.identity));
                out.table(&table)
            }),
            Self::Policy(change) => {
                // The policy is set as a whole, so start from the current one.
                let mut policy = client.space().await?.policy;
                policy.items_max = change.items_max.unwrap_or(policy.items_max);
                policy.body_bytes_max = change.body_bytes_max.unwrap_or(policy.body_bytes_max);
                policy.identity = change.identity.unwrap_or(policy.identity);
                let set = context.ask(client.set_space_policy(&policy)).await?;
                out.answer(&set, |out, set| out.line(format_args!("policy of the space: version {}", set.version)))
            }
        }
    }
}
