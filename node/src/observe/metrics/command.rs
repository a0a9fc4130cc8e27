//! The names of calls in metrics: the commands, and the other requests to a node.

use lease::Command;

/// The name of a call, from a closed set, so that it may be a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandName(&'static str);

impl CommandName {
    pub const VIEW_ITEM: Self = Self("view_item");
    pub const LIST: Self = Self("list");
    pub const CARRYING: Self = Self("carrying");
    pub const LINE: Self = Self("line");
    pub const PEEK: Self = Self("peek");
    pub const QUEUES: Self = Self("queues");
    pub const CLAIMS_UNDER: Self = Self("claims_under");
    pub const SPACES: Self = Self("spaces");
    pub const WORKERS: Self = Self("workers");
    pub const BODY: Self = Self("body");
    pub const EVENTS: Self = Self("events");
    pub const WATCH: Self = Self("watch");
    pub const STATUS: Self = Self("status");

    #[must_use]
    pub fn of(command: &Command) -> Self {
        Self(name(command))
    }

    /// A call that has no name here: a read, or a call for operators. The name is from the program, never from a
    /// caller.
    #[must_use]
    pub const fn other(name: &'static str) -> Self {
        Self(name)
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

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
