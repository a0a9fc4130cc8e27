//! Who a caller is. One seam: a credential goes in, an [`Identity`] comes out, and nothing behind it asks how.
//!
//! Today there are two ways: a file of bearer tokens, kept as hashes and read again when it changes, and, on a
//! development node and from the same machine only, the caller's own word.

use lease::bounds::RIGHTS;
use lease::caller::{ActorKind, Caller, QueuePrefix, Right, Role, Verified};
use lease::names::{ActorId, SessionId, SpaceName};
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
        let roles = [Role::Reader, Role::Worker, Role::Dispatcher, Role::Operator, Role::Admin];
        let right = |role| Right { role, queues: QueuePrefix::default() };
        let grants = vec![Grant { space: None, rights: roles.map(right).to_vec() }];
        Self { actor, kind, parent, verified: Verified::SelfReported, grants }
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

    /// Whether it is an operator or an admin of anything.
    #[must_use]
    pub fn runs_something(&self) -> bool {
        self.grants.iter().any(|grant| grant.rights.iter().any(|right| right.role >= Role::Operator))
    }

    /// Whether it runs the cluster: no space of its own, so an admin of any is one.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.grants.iter().any(|grant| grant.rights.iter().any(|right| right.role == Role::Admin))
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
    grant: Vec<GrantEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantEntry {
    /// `*`: every space.
    space: String,
    roles: Vec<RoleWord>,
    /// Prefixes of names; every queue unless said.
    queues: Option<Vec<String>>,
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

impl From<RoleWord> for Role {
    fn from(word: RoleWord) -> Self {
        match word {
            RoleWord::Reader => Self::Reader,
            RoleWord::Worker => Self::Worker,
            RoleWord::Dispatcher => Self::Dispatcher,
            RoleWord::Operator => Self::Operator,
            RoleWord::Admin => Self::Admin,
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
        let wrong = |why: &str| format!("the token of {}: {why}", entry.actor);
        let hash = TokenHash::parse(&entry.sha256).ok_or_else(|| wrong("sha256 must be 64 hexadecimal digits"))?;
        let mut grants = Vec::new();
        for grant in &entry.grant {
            let space = match grant.space.as_str() {
                "*" => None,
                name => Some(SpaceName::new(name).map_err(|bad| wrong(&format!("space {bad}")))?),
            };
            let prefixes = grant.queues.clone().unwrap_or_else(|| vec![String::new()]);
            let rights = grant.roles.iter().flat_map(|role| {
                prefixes.iter().map(|prefix| Right { role: (*role).into(), queues: QueuePrefix(prefix.clone()) })
            });
            grants.push(Grant { space, rights: rights.collect() });
        }
        if grants.iter().map(|grant| grant.rights.len()).sum::<usize>() > RIGHTS {
            return Err(wrong(&format!("more than {RIGHTS} roles times queue prefixes: use fewer, shorter prefixes")));
        }
        let kind = entry.kind.into();
        let identity = Identity { actor: entry.actor, kind, parent: entry.parent, verified: Verified::Checked, grants };
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

/// # Errors
/// When a name is none, or the machine gives no random numbers.
pub fn new_token(actor: &str, kind: &str, space: &str, roles: &[String]) -> Result<NewToken, TokensError> {
    let random = || getrandom::u64().map_err(|error| TokensError(format!("no random numbers: {error}")));
    // 256 bits: there is no guessing it.
    let words = [random()?, random()?, random()?, random()?];
    let token = words.iter().fold(String::from("tenure_"), |token, word| token + &format!("{word:016x}"));
    // A string of JSON is one of TOML.
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let roles: Vec<String> = roles.iter().map(|role| text(role)).collect();
    let entry = format!(
        "[[token]]\nsha256 = \"{}\"\nactor = {}\nkind = {}\n[[token.grant]]\nspace = {}\nroles = [{}]\n",
        TokenHash::of(&token),
        text(actor),
        text(kind),
        text(space),
        roles.join(", "),
    );
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
        queues = ["ops", "build-"]
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
        assert!(!here.can_see(&queue("finance")) && !here.has_role(Role::Reader, &queue("ops")));
        let lab = ada.caller(&SpaceName::new("lab").unwrap(), None);
        assert!(lab.has_role(Role::Operator, &queue("finance")) && !lab.has_role(Role::Worker, &queue("ops")));
        assert!(ada.caller(&SpaceName::new("elsewhere").unwrap(), None).rights.is_empty());
        assert!(!ada.is_admin());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named() {
        let refusal = |text: &str| parse(text).unwrap_err();
        assert!(refusal(FILE).contains("the token of ada: sha256 must be 64"));
        assert!(refusal(&file("a").replace("worker", "king")).contains("unknown variant `king`"));
        assert!(refusal(&file("a").replace("parent", "boss")).contains("unknown field `boss`"));
        assert!(refusal(&format!("{}{}", file("a"), file("a"))).contains("twice"));
        let many = format!("queues = {:?}", vec!["x"; 65]);
        assert!(refusal(&file("a").replace("queues = [\"ops\", \"build-\"]", &many)).contains("more than 64"));
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
        let made = new_token("a \"b\"\\ é", "user", "*", &["reader".into(), "admin".into()]).unwrap();
        let tokens = parse(&made.entry).unwrap();
        let identity = &tokens[&TokenHash::of(&made.token)];
        assert_eq!(identity.actor.as_str(), "a \"b\"\\ é");
        assert!(identity.is_admin() && identity.kind == ActorKind::User);
        assert!(new_token("", "user", "*", &[]).is_err());
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
