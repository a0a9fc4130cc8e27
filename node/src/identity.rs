//! Who a caller is. One seam: a credential goes in, an [`Identity`] comes out, and nothing behind it asks how.
//!
//! Today there are two ways: a file of bearer tokens, kept as hashes and read again when it changes, and, on a
//! development node and from the same machine only, the caller's own word.

use api::words::Need;
use api::{Code, Problem};
use lease::bounds::RIGHTS;
use lease::caller::{ActorKind, Caller, QueueScope, Right, Role, Verified};
use lease::names::{ActorId, QueueName, SessionId, SpaceName};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// An actor as it was established, and what it may do where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub actor: ActorId,
    pub kind: ActorKind,
    pub parent: Option<ActorId>,
    pub verified: Verified,
    grants: Vec<Grant>,
    cluster: Vec<ClusterRight>,
}

/// What a caller may do with the cluster as a whole. It says nothing about items: roles do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterRight {
    /// Everything that the others may, and: members, leadership, snapshots, draining, rules, restore, activation.
    Admin,
    /// Takes backups, which hold everything in every space.
    Backup,
    /// Reads the metrics, which name every queue of every space.
    Metrics,
}

impl From<ClusterRight> for Need {
    fn from(right: ClusterRight) -> Self {
        match right {
            ClusterRight::Admin => Self::Admin,
            ClusterRight::Backup => Self::Backup,
            ClusterRight::Metrics => Self::Metrics,
        }
    }
}

/// # Errors
/// `forbidden`, with the right that would do.
pub fn check_cluster_right(identity: &Identity, right: ClusterRight) -> Result<(), Box<Problem>> {
    if identity.has_cluster_right(right) {
        return Ok(());
    }
    let mut problem = Problem::new(Code::Forbidden);
    problem.needs = Some(right.into());
    Err(problem.into())
}

/// Rights in one space, or in every one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    space: Option<SpaceName>,
    rights: Vec<Right>,
}

impl Identity {
    /// A development node's caller: everything, everywhere, on its own word.
    #[must_use]
    pub fn self_reported(actor: ActorId, kind: ActorKind, parent: Option<ActorId>) -> Self {
        let roles = [Role::Reader, Role::Worker, Role::Dispatcher, Role::Operator];
        let right = |role| Right { role, queues: QueueScope::every() };
        let grants = vec![Grant { space: None, rights: roles.map(right).to_vec() }];
        Self { actor, kind, parent, verified: Verified::SelfReported, grants, cluster: vec![ClusterRight::Admin] }
    }

    /// The space of one who names none: its only one, else `default`.
    #[must_use]
    pub fn usual_space(&self) -> SpaceName {
        match self.grants.as_slice() {
            [Grant { space: Some(space), .. }] => space.clone(),
            _ => SpaceName::fallback(),
        }
    }

    /// The caller in a space, with what it may do there; with nothing, where nothing was granted to it.
    #[must_use]
    pub fn caller(&self, space: &SpaceName, session: Option<SessionId>) -> Caller {
        let reaches = |grant: &&Grant| grant.space.as_ref().is_none_or(|granted| granted == space);
        let rights = self.grants.iter().filter(reaches).flat_map(|grant| grant.rights.iter().cloned()).collect();
        Caller {
            actor: self.actor.clone(),
            kind: self.kind,
            parent: self.parent.clone(),
            session,
            verified: self.verified,
            rights,
        }
    }

    /// Whether it was given this right for the cluster, or all of them.
    #[must_use]
    pub fn has_cluster_right(&self, right: ClusterRight) -> bool {
        self.cluster.iter().any(|given| *given == right || *given == ClusterRight::Admin)
    }

    /// Whether it was given any right for the cluster.
    #[must_use]
    pub fn serves_cluster(&self) -> bool {
        !self.cluster.is_empty()
    }
}

/// What a token is known by. Tokens are long and random, so a fast hash is enough: there is nothing to guess from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHash([u8; 32]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl TokenHash {
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    fn parse(hex: &str) -> Option<Self> {
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<TokenEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    sha256: String,
    actor: ActorId,
    kind: KindWord,
    parent: Option<ActorId>,
    #[serde(default)]
    cluster: Vec<ClusterWord>,
    #[serde(default)]
    grant: Vec<GrantEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantEntry {
    /// `*`: every space.
    space: String,
    roles: Vec<RoleWord>,
    /// Names, and beginnings of names with a `*` behind them. Default: every queue.
    queues: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClusterWord {
    Admin,
    Backup,
    Metrics,
}

impl From<ClusterWord> for ClusterRight {
    fn from(word: ClusterWord) -> Self {
        match word {
            ClusterWord::Admin => Self::Admin,
            ClusterWord::Backup => Self::Backup,
            ClusterWord::Metrics => Self::Metrics,
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindWord {
    User,
    Agent,
    System,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RoleWord {
    Reader,
    Worker,
    Dispatcher,
    Operator,
    /// Known, so that its refusal can say what to write instead.
    Admin,
}

impl From<KindWord> for ActorKind {
    fn from(word: KindWord) -> Self {
        match word {
            KindWord::User => Self::User,
            KindWord::Agent => Self::Agent,
            KindWord::System => Self::System,
        }
    }
}

impl RoleWord {
    fn role(self) -> Result<Role, String> {
        match self {
            Self::Reader => Ok(Role::Reader),
            Self::Worker => Ok(Role::Worker),
            Self::Dispatcher => Ok(Role::Dispatcher),
            Self::Operator => Ok(Role::Operator),
            Self::Admin => Err(
                "admin is a right for the whole cluster, not a role in a space or a queue: take it out of `roles`, and write \
                 cluster = [\"admin\"] above [[token.grant]]"
                    .into(),
            ),
        }
    }
}

/// The queues that an entry of `queues` names.
fn queue_scope(text: &str) -> Result<QueueScope, String> {
    let wrong = |why: &str| {
        format!(
            "queues: {text:?} {why}; write a whole name, or the beginning of names with one * at the end, like \"ops-*\""
        )
    };
    let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |prefix| (prefix, true));
    if name.contains('*') {
        return Err(wrong("has a * that is not its last character"));
    }
    match (name.is_empty(), is_prefix) {
        (true, true) => Ok(QueueScope::every()),
        (true, false) => Err(wrong("is empty")),
        (false, true) if name.len() > lease::bounds::QUEUE_NAME_BYTES => Err(wrong("is longer than any name")),
        (false, true) if name.chars().any(char::is_control) => Err(wrong("has control characters")),
        (false, true) => Ok(QueueScope::prefix(name)),
        (false, false) => {
            QueueName::new(name).map(|name| QueueScope::exactly(&name)).map_err(|bad| wrong(&bad.to_string()))
        }
    }
}

/// What is wrong with the file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokensError(String);

impl fmt::Display for TokensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TokensError {}

type ByHash = BTreeMap<TokenHash, Arc<Identity>>;

/// The tokens of a file. Clones share them.
#[derive(Clone, Debug)]
pub struct Tokens {
    path: Arc<PathBuf>,
    current: Arc<RwLock<Current>>,
}

struct Current {
    text: String,
    by_hash: Arc<ByHash>,
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.by_hash.len())
    }
}

impl Tokens {
    /// # Errors
    /// When the file cannot be read or does not say what it has to.
    pub fn from_file(path: &Path) -> Result<Self, TokensError> {
        let current = Self::read(path)?;
        Ok(Self { path: Arc::new(path.into()), current: Arc::new(RwLock::new(current)) })
    }

    /// Reads the file again, and says whether it had changed.
    ///
    /// # Errors
    /// When it cannot be used. What was in use stays so.
    pub fn reload(&self) -> Result<bool, TokensError> {
        let read = Self::read(&self.path)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = current.text != read.text;
        *current = read;
        Ok(is_new)
    }

    #[must_use]
    pub fn find(&self, hash: TokenHash) -> Option<Arc<Identity>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).by_hash.get(&hash).cloned()
    }

    fn read(path: &Path) -> Result<Current, TokensError> {
        let fail = |why: String| TokensError(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
        let by_hash = parse(&text).map_err(fail)?;
        Ok(Current { text, by_hash: Arc::new(by_hash) })
    }
}

fn parse(text: &str) -> Result<ByHash, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut by_hash = ByHash::new();
    for entry in file.token {
        let wrong = |why: String| format!("the token of {}: {why}", entry.actor);
        let hash =
            TokenHash::parse(&entry.sha256).ok_or_else(|| wrong("sha256 must be 64 hexadecimal digits".into()))?;
        for (field, name) in [("actor", Some(&entry.actor)), ("parent", entry.parent.as_ref())] {
            name.map_or(Ok(()), ActorId::check_new).map_err(|bad| wrong(format!("{field} {bad}")))?;
        }
        let mut grants = Vec::new();
        for grant in &entry.grant {
            let space = match grant.space.as_str() {
                "*" => None,
                name => Some(SpaceName::new(name).map_err(|bad| wrong(format!("space {bad}")))?),
            };
            let scopes = match &grant.queues {
                None => vec![QueueScope::every()],
                Some(queues) => {
                    queues.iter().map(|text| queue_scope(text)).collect::<Result<_, _>>().map_err(&wrong)?
                }
            };
            let roles: Vec<Role> =
                grant.roles.iter().map(|role| role.role()).collect::<Result<_, _>>().map_err(&wrong)?;
            let in_each = |role: Role| scopes.iter().map(move |queues| Right { role, queues: queues.clone() });
            grants.push(Grant { space, rights: roles.into_iter().flat_map(in_each).collect() });
        }
        if grants.iter().map(|grant| grant.rights.len()).sum::<usize>() > RIGHTS {
            return Err(wrong(format!("more than {RIGHTS} roles times queues: use fewer, shorter prefixes")));
        }
        let kind = entry.kind.into();
        let cluster = entry.cluster.into_iter().map(ClusterRight::from).collect();
        let identity =
            Identity { actor: entry.actor, kind, parent: entry.parent, verified: Verified::Checked, grants, cluster };
        if by_hash.insert(hash, Arc::new(identity)).is_some() {
            return Err(format!("the token {hash} stands there twice"));
        }
    }
    Ok(by_hash)
}

/// A token, and what makes it known.
#[derive(Debug)]
pub struct NewToken {
    /// To be given to its caller and kept nowhere else.
    pub token: String,
    /// For the file.
    pub entry: String,
}

/// Who a new token is for, and what it may do.
#[derive(Clone, Debug, Default)]
pub struct TokenFor {
    pub actor: String,
    pub kind: String,
    /// For the whole cluster.
    pub cluster: Vec<String>,
    /// In one space, or in every one (`*`). Without roles nothing is granted there.
    pub space: String,
    pub roles: Vec<String>,
    /// Empty: every queue.
    pub queues: Vec<String>,
}

/// # Errors
/// When a name is none, a right or a role is unknown, or the machine gives no random numbers.
pub fn new_token(wanted: &TokenFor) -> Result<NewToken, TokensError> {
    let random = || getrandom::u64().map_err(|error| TokensError(format!("no random numbers: {error}")));
    // 256 bits: there is no guessing it.
    let words = [random()?, random()?, random()?, random()?];
    let token = words.iter().fold(String::from("tenure_"), |token, word| token + &format!("{word:016x}"));
    // A string of JSON is one of TOML.
    let text = |text: &String| serde_json::Value::from(text.as_str()).to_string();
    let list = |texts: &[String]| texts.iter().map(text).collect::<Vec<_>>().join(", ");
    let mut entry = format!(
        "[[token]]\nsha256 = \"{}\"\nactor = {}\nkind = {}\n",
        TokenHash::of(&token),
        text(&wanted.actor),
        text(&wanted.kind),
    );
    if !wanted.cluster.is_empty() {
        entry += &format!("cluster = [{}]\n", list(&wanted.cluster));
    }
    if !wanted.roles.is_empty() {
        entry += &format!("[[token.grant]]\nspace = {}\nroles = [{}]\n", text(&wanted.space), list(&wanted.roles));
        if !wanted.queues.is_empty() {
            entry += &format!("queues = [{}]\n", list(&wanted.queues));
        }
    }
    parse(&entry).map_err(TokensError)?;
    Ok(NewToken { token, entry })
}

/// How a node takes callers.
#[derive(Clone, Debug)]
pub enum Authenticator {
    Tokens(Tokens),
    /// The caller's own word, from this machine only.
    SelfReported,
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::names::QueueName;

    const FILE: &str = r#"
        [[token]]
        sha256 = "HASH"
        actor = "ada"
        kind = "agent"
        parent = "jo"
        [[token.grant]]
        space = "default"
        roles = ["worker"]
        queues = ["ops", "build-*"]
        [[token.grant]]
        space = "lab"
        roles = ["reader", "operator"]
    "#;

    fn file(token: &str) -> String {
        FILE.replace("HASH", &TokenHash::of(token).to_string())
    }

    #[test]
    fn a_token_is_known_by_its_hash_and_brings_its_roles_space_by_space() {
        let tokens = parse(&file("secret")).unwrap();
        assert!(!tokens.contains_key(&TokenHash::of("Secret")));
        let ada = &tokens[&TokenHash::of("secret")];
        let here = ada.caller(&SpaceName::fallback(), None);
        let queue = |name: &str| QueueName::new(name).unwrap();
        assert!(here.has_role(Role::Worker, &queue("ops")) && here.has_role(Role::Worker, &queue("build-7")));
        assert!(!here.can_see(&queue("ops-secret")) && !here.can_see(&queue("build")));
        assert!(!here.can_see(&queue("finance")) && !here.has_role(Role::Reader, &queue("ops")));
        let lab = ada.caller(&SpaceName::new("lab").unwrap(), None);
        assert!(lab.has_role(Role::Operator, &queue("finance")) && !lab.has_role(Role::Worker, &queue("ops")));
        assert!(ada.caller(&SpaceName::new("elsewhere").unwrap(), None).rights.is_empty());
        assert!(!ada.serves_cluster());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        let refusal = |text: &str| parse(text).unwrap_err();
        assert!(refusal(FILE).contains("the token of ada: sha256 must be 64"));
        assert!(refusal(&file("a").replace("worker", "king")).contains("unknown variant `king`"));
        assert!(refusal(&file("a").replace("parent", "boss")).contains("unknown field `boss`"));
        let odd = refusal(&file("a").replace("\"ada\"", "\"a\u{202e}da\""));
        assert!(odd.contains("actor must not contain U+202E"), "{odd}");
        assert!(refusal(&format!("{}{}", file("a"), file("a"))).contains("twice"));
        let many = format!("queues = {:?}", vec!["x"; 65]);
        assert!(refusal(&file("a").replace("queues = [\"ops\", \"build-*\"]", &many)).contains("more than 64"));
    }

    #[test]
    fn a_right_for_the_cluster_is_given_for_the_cluster_and_says_nothing_of_items() {
        let with = |right: &str| {
            let text = file("a").replace("parent =", &format!("cluster = [{right:?}]\n        parent ="));
            parse(&text).unwrap().into_values().next().unwrap()
        };
        use ClusterRight::{Admin, Backup, Metrics};
        for (right, may) in [("admin", &[Admin, Backup, Metrics][..]), ("backup", &[Backup]), ("metrics", &[Metrics])] {
            let identity = with(right);
            for asked in [Admin, Backup, Metrics] {
                assert_eq!(identity.has_cluster_right(asked), may.contains(&asked), "{right}: {asked:?}");
            }
            let elsewhere = identity.caller(&SpaceName::new("elsewhere").unwrap(), None);
            assert!(elsewhere.rights.is_empty() && !elsewhere.is_admin());
        }
        let refused = parse(&file("a").replace("\"worker\"", "\"admin\"")).unwrap_err();
        assert!(refused.contains("the token of ada") && refused.contains("cluster = [\"admin\"]"), "{refused}");
    }

    #[test]
    fn a_star_stands_at_the_end_of_a_queue_or_nowhere() {
        let queues = |text: &str| parse(&file("a").replace("build-*", text)).map(|_| ());
        assert_eq!((queues("*"), queues("build-*")), (Ok(()), Ok(())));
        for (text, why) in
            [("*ops", "not its last"), ("o*ps", "not its last"), ("ops**", "not its last"), ("", "is empty")]
        {
            let refused = queues(text).unwrap_err();
            assert!(refused.contains("the token of ada") && refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_file_that_changed_is_read_again_and_a_broken_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        fs::write(&path, file("one")).unwrap();
        let tokens = Tokens::from_file(&path).unwrap();
        let knows = |token: &str| tokens.find(TokenHash::of(token)).is_some();
        assert!(knows("one") && !tokens.reload().unwrap());
        fs::write(&path, file("two")).unwrap();
        assert!(tokens.reload().unwrap() && knows("two") && !knows("one"));
        fs::write(&path, "token = 7").unwrap();
        assert!(tokens.reload().is_err() && knows("two"));
    }

    #[test]
    fn a_new_token_is_known_by_its_entry_whatever_its_actor_is_called() {
        let wanted = TokenFor {
            actor: "a \"b\"\\ é".into(),
            kind: "user".into(),
            cluster: vec!["admin".into()],
            space: "*".into(),
            roles: vec!["reader".into()],
            queues: vec!["ops".into()],
        };
        let made = new_token(&wanted).unwrap();
        let tokens = parse(&made.entry).unwrap();
        let identity = &tokens[&TokenHash::of(&made.token)];
        assert_eq!(identity.actor.as_str(), "a \"b\"\\ é");
        assert!(identity.has_cluster_right(ClusterRight::Admin) && identity.kind == ActorKind::User);
        let caller = identity.caller(&SpaceName::fallback(), None);
        assert!(caller.has_role(Role::Reader, &QueueName::new("ops").unwrap()));
        assert!(!caller.can_see(&QueueName::new("ops-2").unwrap()));
        assert!(new_token(&TokenFor { actor: String::new(), ..wanted.clone() }).is_err());
        assert!(new_token(&TokenFor { roles: vec!["admin".into()], ..wanted }).is_err());
    }

    #[test]
    fn who_has_one_space_need_not_name_it() {
        let text = file("a");
        let only_lab = text.replace("\"default\"", "\"lab\"").replace(
            "\n        [[token.grant]]\n        space = \"lab\"\n        roles = [\"reader\", \"operator\"]",
            "",
        );
        let usual = |text: &str| parse(text).unwrap().into_values().next().unwrap().usual_space().to_string();
        assert_eq!((usual(&text), usual(&only_lab)), ("default".into(), "lab".into()));
    }
}
