//! What a request does, and how often.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    CreateMany,
    Claim,
    Wait,
    ClaimMany,
    Next,
    Renew,
    RenewAll,
    Extend,
    Release,
    Reserve,
    Withdraw,
    Reorder,
    Revoke,
    Assign,
    Unassign,
    Update,
    Activity,
    AwaitInput,
    Resume,
    HandOn,
    Complete,
    Fail,
    Cancel,
    Reopen,
    Retry,
    SetPolicy,
    Pause,
    Unpause,
    Drain,
    SetSpacePolicy,
    RegisterWorker,
    DrainWorker,
    RemoveWorker,
    BeginEpoch,
    Activate,
    RaiseRules,
    Invalid,
}

/// How often each verb is chosen, before a history's own mix.
pub(super) const WEIGHTS: [(u64, Verb); 38] = [
    (70, Verb::Create),
    (14, Verb::CreateMany),
    (120, Verb::Claim),
    (110, Verb::Wait),
    (45, Verb::ClaimMany),
    (110, Verb::Next),
    (80, Verb::Renew),
    (30, Verb::RenewAll),
    (25, Verb::Extend),
    (60, Verb::Release),
    (25, Verb::Reserve),
    (10, Verb::Withdraw),
    (10, Verb::Reorder),
    (12, Verb::Revoke),
    (12, Verb::Assign),
    (10, Verb::Unassign),
    (40, Verb::Update),
    (25, Verb::Activity),
    (18, Verb::AwaitInput),
    (18, Verb::Resume),
    (18, Verb::HandOn),
    (45, Verb::Complete),
    (40, Verb::Fail),
    (16, Verb::Cancel),
    (22, Verb::Reopen),
    (20, Verb::Retry),
    (14, Verb::SetPolicy),
    (5, Verb::Pause),
    (8, Verb::Unpause),
    (4, Verb::Drain),
    (3, Verb::SetSpacePolicy),
    (14, Verb::RegisterWorker),
    (3, Verb::DrainWorker),
    (6, Verb::RemoveWorker),
    (2, Verb::BeginEpoch),
    (2, Verb::Activate),
    (2, Verb::RaiseRules),
    (15, Verb::Invalid),
];

impl Verb {
    /// Whether mostly an operator sends this command.
    pub(super) fn is_operators(self) -> bool {
        matches!(
            self,
            Self::CreateMany
                | Self::Reorder
                | Self::Revoke
                | Self::Assign
                | Self::Unassign
                | Self::Cancel
                | Self::Reopen
                | Self::Retry
                | Self::SetPolicy
                | Self::Pause
                | Self::Unpause
                | Self::Drain
                | Self::SetSpacePolicy
                | Self::DrainWorker
                | Self::BeginEpoch
                | Self::Activate
                | Self::RaiseRules
        )
    }
}
