//! The names of commands in log lines and metrics.

use lease::Command;

/// A command's name on the wire.
#[must_use]
pub fn name(command: &Command) -> &'static str {
    match command {
        Command::Create(_) => "create",
        Command::CreateMany(_) => "create_many",
        Command::Claim(_) => "claim",
        Command::ClaimMany(_) => "claim_many",
        Command::Next(_) => "next",
        Command::Renew(_) => "renew",
        Command::RenewAll(_) => "renew_all",
        Command::Extend(_) => "extend",
        Command::Release(_) => "release",
        Command::Reserve(_) => "reserve",
        Command::Withdraw { .. } => "withdraw",
        Command::Reorder { .. } => "reorder",
        Command::Revoke(_) => "revoke",
        Command::Assign { .. } => "assign",
        Command::Unassign { .. } => "unassign",
        Command::Update(_) => "update",
        Command::Activity(_) => "activity",
        Command::AwaitInput(_) => "await_input",
        Command::Resume(_) => "resume",
        Command::HandOn(_) => "hand_on",
        Command::Complete(_) => "complete",
        Command::Fail(_) => "fail",
        Command::Cancel(_) => "cancel",
        Command::Reopen { .. } => "reopen",
        Command::Retry { .. } => "retry",
        Command::SetPolicy(_) => "set_policy",
        Command::Pause { .. } => "pause",
        Command::Unpause { .. } => "unpause",
        Command::Drain { .. } => "drain",
        Command::SetSpacePolicy(_) => "set_space_policy",
        Command::RegisterWorker(_) => "register_worker",
        Command::DrainWorker { .. } => "drain_worker",
        Command::RemoveWorker { .. } => "remove_worker",
        Command::BeginEpoch { .. } | Command::BeginEpochAcceptingClock { .. } => "begin_epoch",
        Command::Activate => "activate",
        Command::RaiseRules { .. } => "raise_rules",
    }
}
