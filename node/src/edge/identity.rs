//! Authentication of callers: turns a credential into an [`Identity`]. The rest of the node does not depend on the
//! method.
//!
//! There are two methods: a file of API keys, stored as hashes and reloaded when it changes; and, on a development node
//! and from the same machine only, the name that the caller states.

use api::words::{self, Need};
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
use std::time::Duration;
use tokio::time::sleep;

/// How often the file of API keys is checked for changes.
const READ_EVERY: Duration = Duration::from_secs(2);

/// An authenticated actor and its rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub actor: ActorId,
    pub kind: ActorKind,
    pub parent: Option<ActorId>,
    pub verified: Verified,
    spaces: Vec<SpaceRights>,
    cluster: Vec<ClusterRight>,
}

/// A right for the whole cluster. It gives no right to items: roles do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterRight {
    /// Includes the other rights, and: members, leadership, snapshots, draining, rules, restore, activation.
    Admin,
    /// May take backups, which contain everything in every space.
    Backup,
    /// May read the metrics, which name every queue of every space.
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
/// `forbidden`, with the right that is needed.
pub fn check_cluster_right(identity: &Identity, right: ClusterRight) -> Result<(), Box<Problem>> {
    if identity.has_cluster_right(right) {
        return Ok(());
    }
    let mut problem = Problem::new(Code::Forbidden);
    problem.needs = Some(right.into());
    Err(problem.into())
}

/// Rights in one space, or in every space.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SpaceRights {
    /// `None`: every space.
    space: Option<SpaceName>,
    rights: Vec<Right>,
}

impl Identity {
    /// A caller of a development node: every right, under the name that it states.
    #[must_use]
    pub fn self_reported(actor: ActorId, kind: ActorKind, parent: Option<ActorId>) -> Self {
        let roles = [Role::Reader, Role::Worker, Role::Dispatcher, Role::Operator];
        let right = |role| Right { role, queues: QueueScope::every() };
        let spaces = vec![SpaceRights { space: None, rights: roles.map(right).to_vec() }];
        Self { actor, kind, parent, verified: Verified::SelfReported, spaces, cluster: vec![ClusterRight::Admin] }
    }

    /// The space for a request that names none: the caller's only space, else `default`.
    #[must_use]
    pub fn usual_space(&self) -> SpaceName {
        match self.spaces.as_slice() {
            [SpaceRights { space: Some(space), .. }] => space.clone(),
            _ => SpaceName::fallback(),
        }
    }

    /// The caller with its rights in a space; without rights if it has none there.
    #[must_use]
    pub fn caller(&self, space: &SpaceName, session: Option<SessionId>) -> Caller {
        let reaches = |entry: &&SpaceRights| entry.space.as_ref().is_none_or(|granted| granted == space);
        let rights = self.spaces.iter().filter(reaches).flat_map(|entry| entry.rights.iter().cloned()).collect();
        Caller {
            actor: self.actor.clone(),
            kind: self.kind,
            parent: self.parent.clone(),
            session,
            verified: self.verified,
            rights,
        }
    }

    /// Whether the caller has this right for the cluster, or `admin`.
    #[must_use]
    pub fn has_cluster_right(&self, right: ClusterRight) -> bool {
        self.cluster.iter().any(|given| *given == right || *given == ClusterRight::Admin)
    }

    /// Whether the caller has any right for the cluster.
    #[must_use]
    pub fn serves_cluster(&self) -> bool {
        !self.cluster.is_empty()
    }
}

/// The hash of an API key. API keys are long and random, so a fast hash is enough: a key cannot be guessed from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiKeyHash([u8; 32]);

impl fmt::Debug for ApiKeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKeyHash")
    }
}

impl fmt::Display for ApiKeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl ApiKeyHash {
    #[must_use]
    pub fn of(api_key: &str) -> Self {
        Self(Sha256::digest(api_key.as_bytes()).into())
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

/// The format of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    api_key: Vec<ApiKeyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApiKeyEntry {
    sha256: String,
    actor: ActorId,
    kind: words::ActorKind,
    parent: Option<ActorId>,
    #[serde(default)]
    cluster: Vec<ClusterRight>,
    #[serde(default)]
    rights: Vec<RightsEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RightsEntry {
    /// `*`: every space.
    space: String,
    roles: Vec<Need>,
    /// Queue names, and prefixes followed by `*`. By default: every queue.
    queues: Option<Vec<String>>,
}

/// The role in a space that a word names.
fn role(word: Need) -> Result<Role, String> {
    match word {
        Need::Reader => Ok(Role::Reader),
        Need::Worker => Ok(Role::Worker),
        Need::Dispatcher => Ok(Role::Dispatcher),
        Need::Operator => Ok(Role::Operator),
        Need::Admin => Err(not_a_role("admin")),
        Need::Backup => Err(not_a_role("backup")),
        Need::Metrics => Err(not_a_role("metrics")),
    }
}

fn not_a_role(right: &str) -> String {
    format!(
        "{right} is a right for the whole cluster, not a role in a space or a queue: remove it from `roles`, and write \
         cluster = [\"{right}\"] above [[api_key.rights]]"
    )
}

/// Parses an entry of `queues`.
fn queue_scope(text: &str) -> Result<QueueScope, String> {
    let wrong = |why: &str| {
        format!("queues: {text:?} {why}; write a whole name, or a prefix with one * at the end, like \"ops-*\"")
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

/// An error in the file of API keys, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeysError(String);

impl fmt::Display for ApiKeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ApiKeysError {}

type ByHash = BTreeMap<ApiKeyHash, Arc<Identity>>;

/// The API keys of a file. Clones share them.
#[derive(Clone, Debug)]
pub struct ApiKeys {
    path: Arc<PathBuf>,
    current: Arc<RwLock<Current>>,
}

struct Current {
    text: String,
    by_hash: Arc<ByHash>,
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} API keys", self.by_hash.len())
    }
}

impl ApiKeys {
    /// # Errors
    /// When the file cannot be read or is invalid.
    pub fn from_file(path: &Path) -> Result<Self, ApiKeysError> {
        let current = Self::read(path)?;
        Ok(Self { path: Arc::new(path.into()), current: Arc::new(RwLock::new(current)) })
    }

    /// Reads the file again and returns whether it had changed.
    ///
    /// # Errors
    /// When the file cannot be read or is invalid. The previous API keys then remain in use.
    pub fn reload(&self) -> Result<bool, ApiKeysError> {
        let read = Self::read(&self.path)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = current.text != read.text;
        *current = read;
        Ok(is_new)
    }

    /// Applies changes of the file without a restart, until it is dropped.
    pub(crate) async fn keep_up(self) {
        let mut is_logged = false;
        loop {
            sleep(READ_EVERY).await;
            match self.reload() {
                Ok(is_new) => {
                    if is_new {
                        tracing::info!("the API keys have changed");
                    }
                    is_logged = false;
                }
                Err(error) => {
                    if !is_logged {
                        tracing::warn!(%error, "the API keys cannot be loaded; the previous ones stay in use");
                    }
                    is_logged = true;
                }
            }
        }
    }

    #[must_use]
    pub fn find(&self, hash: ApiKeyHash) -> Option<Arc<Identity>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).by_hash.get(&hash).cloned()
    }

    fn read(path: &Path) -> Result<Current, ApiKeysError> {
        let fail = |why: String| ApiKeysError(format!("{}: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
        let by_hash = parse(&text).map_err(fail)?;
        Ok(Current { text, by_hash: Arc::new(by_hash) })
    }
}

fn parse(text: &str) -> Result<ByHash, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut by_hash = ByHash::new();
    for entry in file.api_key {
        let wrong = |why: String| format!("the API key of {}: {why}", entry.actor);
        let hash =
            ApiKeyHash::parse(&entry.sha256).ok_or_else(|| wrong("sha256 must be 64 hexadecimal digits".into()))?;
        for (field, name) in [("actor", Some(&entry.actor)), ("parent", entry.parent.as_ref())] {
            name.map_or(Ok(()), ActorId::check_new).map_err(|bad| wrong(format!("{field} {bad}")))?;
        }
        let mut spaces = Vec::new();
        for rights in &entry.rights {
            let space = match rights.space.as_str() {
                "*" => None,
                name => Some(SpaceName::new(name).map_err(|bad| wrong(format!("space {bad}")))?),
            };
            let scopes = match &rights.queues {
                None => vec![QueueScope::every()],
                Some(queues) => {
                    queues.iter().map(|text| queue_scope(text)).collect::<Result<_, _>>().map_err(&wrong)?
                }
            };
            let roles: Vec<Role> =
                rights.roles.iter().map(|word| role(*word)).collect::<Result<_, _>>().map_err(&wrong)?;
            let in_each = |role: Role| scopes.iter().map(move |queues| Right { role, queues: queues.clone() });
            spaces.push(SpaceRights { space, rights: roles.into_iter().flat_map(in_each).collect() });
        }
        if spaces.iter().map(|space| space.rights.len()).sum::<usize>() > RIGHTS {
            return Err(wrong(format!("more than {RIGHTS} roles times queues: use fewer, shorter prefixes")));
        }
        let kind = entry.kind.into();
        let identity = Identity {
            actor: entry.actor,
            kind,
            parent: entry.parent,
            verified: Verified::Checked,
            spaces,
            cluster: entry.cluster,
        };
        if by_hash.insert(hash, Arc::new(identity)).is_some() {
            return Err(format!("the API key with sha256 {hash} appears more than once"));
        }
    }
    Ok(by_hash)
}

/// A new API key and its entry for the file.
#[derive(Debug)]
pub struct NewApiKey {
    /// To be given to the caller and stored nowhere else.
    pub api_key: String,
    /// To be added to the file.
    pub entry: String,
}

/// The caller of a new API key and its rights.
#[derive(Clone, Debug, Default)]
pub struct ApiKeyRequest {
    pub actor: String,
    pub kind: String,
    /// Rights for the whole cluster.
    pub cluster: Vec<String>,
    /// The space of the roles; `*` is every space. Ignored without roles.
    pub space: String,
    pub roles: Vec<String>,
    /// Empty: every queue.
    pub queues: Vec<String>,
}

/// Makes an API key.
///
/// # Errors
/// When a name is invalid, a right or a role is unknown, or the system provides no random numbers.
pub fn new_api_key(wanted: &ApiKeyRequest) -> Result<NewApiKey, ApiKeysError> {
    let random =
        || getrandom::u64().map_err(|error| ApiKeysError(format!("the system provides no random numbers: {error}")));
    // 256 bits cannot be guessed.
    let words = [random()?, random()?, random()?, random()?];
    let api_key = words.iter().fold(String::from("tenure_"), |api_key, word| api_key + &format!("{word:016x}"));
    // A JSON string is a valid TOML string.
    let text = |text: &String| serde_json::Value::from(text.as_str()).to_string();
    let list = |texts: &[String]| texts.iter().map(text).collect::<Vec<_>>().join(", ");
    let mut entry = format!(
        "[[api_key]]\nsha256 = \"{}\"\nactor = {}\nkind = {}\n",
        ApiKeyHash::of(&api_key),
        text(&wanted.actor),
        text(&wanted.kind),
    );
    if !wanted.cluster.is_empty() {
        entry += &format!("cluster = [{}]\n", list(&wanted.cluster));
    }
    if !wanted.roles.is_empty() {
        entry += &format!("[[api_key.rights]]\nspace = {}\nroles = [{}]\n", text(&wanted.space), list(&wanted.roles));
        if !wanted.queues.is_empty() {
            entry += &format!("queues = [{}]\n", list(&wanted.queues));
        }
    }
    parse(&entry).map_err(ApiKeysError)?;
    Ok(NewApiKey { api_key, entry })
}

/// How a node authenticates callers.
#[derive(Clone, Debug)]
pub enum Authenticator {
    ApiKeys(ApiKeys),
    /// Callers name themselves, from this machine only.
    SelfReported,
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::names::QueueName;

    const FILE: &str = r#"
        [[api_key]]
        sha256 = "HASH"
        actor = "ada"
        kind = "agent"
        parent = "jo"
        [[api_key.rights]]
        space = "default"
        roles = ["worker"]
        queues = ["ops", "build-*"]
        [[api_key.rights]]
        space = "lab"
        roles = ["reader", "operator"]
    "#;

    fn file(api_key: &str) -> String {
        FILE.replace("HASH", &ApiKeyHash::of(api_key).to_string())
    }

    #[test]
    fn an_api_key_is_found_by_its_hash_and_has_roles_per_space() {
        let api_keys = parse(&file("secret")).unwrap();
        assert!(!api_keys.contains_key(&ApiKeyHash::of("Secret")));
        let ada = &api_keys[&ApiKeyHash::of("secret")];
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
    fn errors_in_the_file_are_named() {
        let refusal = |text: &str| parse(text).unwrap_err();
        assert!(refusal(FILE).contains("the API key of ada: sha256 must be 64"));
        assert!(refusal(&file("a").replace("worker", "king")).contains("unknown variant `king`"));
        assert!(refusal(&file("a").replace("parent", "boss")).contains("unknown field `boss`"));
        let odd = refusal(&file("a").replace("\"ada\"", "\"a\u{202e}da\""));
        assert!(odd.contains("actor must not contain U+202E"), "{odd}");
        assert!(refusal(&format!("{}{}", file("a"), file("a"))).contains("more than once"));
        let many = format!("queues = {:?}", vec!["x"; 65]);
        assert!(refusal(&file("a").replace("queues = [\"ops\", \"build-*\"]", &many)).contains("more than 64"));
    }

    #[test]
    fn a_cluster_right_gives_no_role_in_any_space() {
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
        assert!(refused.contains("the API key of ada") && refused.contains("cluster = [\"admin\"]"), "{refused}");
    }

    #[test]
    fn a_star_is_valid_only_at_the_end_of_a_queue() {
        let queues = |text: &str| parse(&file("a").replace("build-*", text)).map(|_| ());
        assert_eq!((queues("*"), queues("build-*")), (Ok(()), Ok(())));
        for (text, why) in
            [("*ops", "not its last"), ("o*ps", "not its last"), ("ops**", "not its last"), ("", "is empty")]
        {
            let refused = queues(text).unwrap_err();
            assert!(refused.contains("the API key of ada") && refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_changed_file_is_reloaded_and_an_invalid_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api-keys.toml");
        fs::write(&path, file("one")).unwrap();
        let api_keys = ApiKeys::from_file(&path).unwrap();
        let knows = |api_key: &str| api_keys.find(ApiKeyHash::of(api_key)).is_some();
        assert!(knows("one") && !api_keys.reload().unwrap());
        fs::write(&path, file("two")).unwrap();
        assert!(api_keys.reload().unwrap() && knows("two") && !knows("one"));
        fs::write(&path, "api_key = 7").unwrap();
        assert!(api_keys.reload().is_err() && knows("two"));
    }

    #[test]
    fn a_new_api_key_is_found_by_its_entry_whatever_the_actor_name() {
        let wanted = ApiKeyRequest {
            actor: "a \"b\"\\ é".into(),
            kind: "user".into(),
            cluster: vec!["admin".into()],
            space: "*".into(),
            roles: vec!["reader".into()],
            queues: vec!["ops".into()],
        };
        let made = new_api_key(&wanted).unwrap();
        let api_keys = parse(&made.entry).unwrap();
        let identity = &api_keys[&ApiKeyHash::of(&made.api_key)];
        assert_eq!(identity.actor.as_str(), "a \"b\"\\ é");
        assert!(identity.has_cluster_right(ClusterRight::Admin) && identity.kind == ActorKind::User);
        let caller = identity.caller(&SpaceName::fallback(), None);
        assert!(caller.has_role(Role::Reader, &QueueName::new("ops").unwrap()));
        assert!(!caller.can_see(&QueueName::new("ops-2").unwrap()));
        assert!(new_api_key(&ApiKeyRequest { actor: String::new(), ..wanted.clone() }).is_err());
        assert!(new_api_key(&ApiKeyRequest { roles: vec!["admin".into()], ..wanted }).is_err());
    }

    #[test]
    fn the_only_space_of_a_caller_is_its_default() {
        let text = file("a");
        let only_lab = text.replace("\"default\"", "\"lab\"").replace(
            "\n        [[api_key.rights]]\n        space = \"lab\"\n        roles = [\"reader\", \"operator\"]",
            "",
        );
        let usual = |text: &str| parse(text).unwrap().into_values().next().unwrap().usual_space().to_string();
        assert_eq!((usual(&text), usual(&only_lab)), ("default".into(), "lab".into()));
    }
}
