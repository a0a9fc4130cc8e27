//! The check of new names in a request. A node calls it before it proposes. Apply never does, so that entries written
//! earlier keep their meaning.

use crate::command::{Command, Request};
use crate::item::{Edit, NewItem};
use crate::names::{BadName, Label};
use crate::policy::Setting;
use crate::refusal::Refusal;

type Checked = Result<(), Refusal>;

/// Checks that no new name contains an invisible character. Existing names are accepted as they are.
///
/// # Errors
/// [`Refusal::Invalid`] with the name of the field.
pub fn check_new_names(request: &Request) -> Checked {
    match &request.command {
        Command::Create(item) => space(request).and(new_item("", item)),
        Command::CreateMany(items) => {
            space(request)?;
            let mut numbered = items.iter().zip(0_usize..);
            numbered.try_for_each(|(item, index)| new_item(&format!("items[{index}]."), item))
        }
        Command::Update(update) => update.edits.iter().try_for_each(|edit| match edit {
            Edit::Labels(list) => labels("labels", list),
            Edit::Needs(list) => labels("needs", list),
            Edit::Phase(phase) => name("phase", phase.check_new()),
            Edit::Title(_)
            | Edit::Priority(_)
            | Edit::Parent(_)
            | Edit::Target(_)
            | Edit::NotBefore(_)
            | Edit::Mode(_)
            | Edit::Body(..) => Ok(()),
        }),
        Command::HandOn(hand_on) => name("phase", hand_on.phase.check_new()),
        Command::Assign { actor, .. } => name("actor", actor.check_new()),
        Command::Revoke(revoke) => {
            revoke.assign_to.as_ref().map_or(Ok(()), |actor| name("assign_to", actor.check_new()))
        }
        Command::SetPolicy(set) => {
            space(request)?;
            name("queue", set.queue.check_new())?;
            set.settings.iter().try_for_each(|setting| match setting {
                Setting::Phases(phases) => phases.iter().try_for_each(|phase| name("phases", phase.check_new())),
                _ => Ok(()),
            })
        }
        Command::Pause { queue } | Command::Unpause { queue } | Command::Drain { queue } => {
            space(request).and(name("queue", queue.check_new()))
        }
        Command::SetSpacePolicy(_) => space(request),
        Command::RegisterWorker(registration) => {
            space(request)?;
            labels("capabilities", &registration.capabilities).and(labels("labels", &registration.labels))
        }
        Command::Claim(_)
        | Command::ClaimMany(_)
        | Command::Next(_)
        | Command::Renew(_)
        | Command::RenewAll(_)
        | Command::Extend(_)
        | Command::Release(_)
        | Command::Reserve(_)
        | Command::Withdraw { .. }
        | Command::Reorder { .. }
        | Command::Unassign { .. }
        | Command::Activity(_)
        | Command::AwaitInput(_)
        | Command::Resume(_)
        | Command::Complete(_)
        | Command::Fail(_)
        | Command::Cancel(_)
        | Command::Reopen { .. }
        | Command::Retry { .. }
        | Command::DrainWorker { .. }
        | Command::RemoveWorker { .. }
        | Command::BeginEpoch { .. }
        | Command::BeginEpochAcceptingClock { .. }
        | Command::Activate
        | Command::RaiseRules { .. } => Ok(()),
    }
}

fn space(request: &Request) -> Checked {
    name("space", request.space.check_new())
}

fn new_item(within: &str, item: &NewItem) -> Checked {
    let field = |field: &str| format!("{within}{field}");
    name(&field("id"), item.id.check_new())?;
    name(&field("queue"), item.queue.check_new())?;
    labels(&field("labels"), &item.labels)?;
    labels(&field("needs"), &item.needs)?;
    item.phase.as_ref().map_or(Ok(()), |phase| name(&field("phase"), phase.check_new()))
}

fn labels(field: &str, labels: &[Label]) -> Checked {
    labels.iter().try_for_each(|label| name(field, label.check_new()))
}

fn name(field: &str, checked: Result<(), BadName>) -> Checked {
    checked.map_err(|bad| Refusal::invalid(field, bad.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{ActorKind, Caller, Verified};
    use crate::command::{Attempt, Cancel, Registration, SetPolicy};
    use crate::item::RunsIn;
    use crate::names::{ActorId, ItemId, Phase, QueueName, RequestId, SpaceName};
    use crate::numbers::Span;

    const ODD: &str = "pay\u{202e}roll";

    fn request(space: &str, command: Command) -> Request {
        Request {
            space: SpaceName::known(space).unwrap(),
            caller: Caller {
                actor: ActorId::new("ada").unwrap(),
                kind: ActorKind::User,
                parent: None,
                session: None,
                verified: Verified::Checked,
                rights: Vec::new(),
            },
            request_id: RequestId::new("r").unwrap(),
            attempt: Attempt::First,
            command,
        }
    }

    /// Returns the refused field.
    fn refused(space: &str, command: Command) -> Option<String> {
        match check_new_names(&request(space, command)) {
            Ok(()) => None,
            Err(Refusal::Invalid { field, why }) if why.contains("U+202E") => Some(field),
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    #[test]
    fn new_names_with_invisible_characters_are_rejected_by_field() {
        let odd_label = || vec![Label::known(ODD).unwrap()];
        let item = |change: &dyn Fn(&mut NewItem)| {
            let mut item = NewItem::new(ItemId::new("a").unwrap(), QueueName::new("ops").unwrap());
            change(&mut item);
            item
        };
        let create = |change: &dyn Fn(&mut NewItem)| refused("s", Command::Create(Box::new(item(change))));
        assert_eq!(create(&|_| {}), None);
        assert_eq!(create(&|item| item.id = ItemId::known(ODD).unwrap()).as_deref(), Some("id"));
        assert_eq!(create(&|item| item.queue = QueueName::known(ODD).unwrap()).as_deref(), Some("queue"));
        assert_eq!(create(&|item| item.labels = odd_label()).as_deref(), Some("labels"));
        assert_eq!(create(&|item| item.needs = odd_label()).as_deref(), Some("needs"));
        assert_eq!(create(&|item| item.phase = Some(Phase::known(ODD).unwrap())).as_deref(), Some("phase"));
        let second = item(&|item| item.id = ItemId::known(ODD).unwrap());
        let many = Command::CreateMany(vec![item(&|_| {}), second]);
        assert_eq!(refused("s", many).as_deref(), Some("items[1].id"));
        assert_eq!(refused(ODD, Command::Create(Box::new(item(&|_| {})))).as_deref(), Some("space"));
        let settings = vec![Setting::Phases(vec![Phase::known(ODD).unwrap()])];
        let set = SetPolicy { queue: QueueName::new("ops").unwrap(), settings, version: None };
        assert_eq!(refused("s", Command::SetPolicy(set)).as_deref(), Some("phases"));
        let assign = Command::Assign { item: ItemId::new("a").unwrap(), actor: ActorId::known(ODD).unwrap() };
        assert_eq!(refused("s", assign).as_deref(), Some("actor"));
        let register = Registration {
            capabilities: odd_label(),
            labels: Vec::new(),
            mode: RunsIn::Any,
            alive_for: Span::secs(60),
        };
        assert_eq!(refused("s", Command::RegisterWorker(register)).as_deref(), Some("capabilities"));
    }

    #[test]
    fn existing_names_with_invisible_characters_are_accepted() {
        let cancel = Cancel { item: ItemId::known(ODD).unwrap(), reason: ODD.into(), force: false };
        assert_eq!(refused(ODD, Command::Cancel(cancel)), None);
    }
}
