//! The file of profiles: named clusters and the identity to use there.

use super::failure::Failure;
use client::names::{ActorId, SpaceName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A cluster and the identity to use there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) endpoints: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_key_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<ActorId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) space: Option<SpaceName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// The profile of that name, or the current one if there is one.
pub(crate) fn chosen(name: Option<&str>) -> Result<Option<Profile>, Failure> {
    let mut all = read()?;
    match name.or(all.current.as_deref()).map(ToOwned::to_owned) {
        None => Ok(None),
        Some(name) => all.profiles.remove(&name).map(Some).ok_or_else(|| unknown(&name)),
    }
}

pub(crate) fn unknown(name: &str) -> Failure {
    Failure::Usage(format!("there is no profile {name}: `tenure profile list` shows all profiles"))
}

fn path() -> Result<PathBuf, Failure> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let folder = folder.or_else(|| set("HOME").map(|home| home.join(".config")));
    let folder = folder
        .ok_or_else(|| Failure::Usage("cannot find the profiles: neither XDG_CONFIG_HOME nor HOME is set".into()))?;
    Ok(folder.join("tenure").join("profiles.toml"))
}

pub(crate) fn read() -> Result<Profiles, Failure> {
    let Ok(path) = path() else { return Ok(Profiles::default()) };
    let failed = |error: io::Error| Failure::other(format!("{}: {error}", path.display()));
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Profiles::default()),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    let all: Profiles = toml::from_str(&text).map_err(|error| {
        Failure::hinted(format!("{}: {}", path.display(), error.message()), "fix the file, or delete it")
    })?;
    if all.profiles.values().any(|profile| profile.api_key.is_some()) {
        refuse_if_others_read(&path, &file)?;
    }
    Ok(all)
}

/// Replaces the file atomically; only its owner may access it.
pub(crate) fn write(all: &Profiles) -> Result<(), Failure> {
    let path = path()?;
    let text = toml::to_string(all).map_err(|error| Failure::other(error.to_string()))?;
    let written = || {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let beside = path.with_extension(format!("toml.{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        let done =
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&beside, &path));
        if done.is_err() {
            let _ = fs::remove_file(&beside);
        }
        done
    };
    written().map_err(|error| Failure::other(format!("{}: {error}", path.display())))
}

/// Rejects a file with a secret that other users can read.
pub(crate) fn refuse_if_others_read(path: &Path, file: &File) -> Result<(), Failure> {
    let path = path.display();
    let mode = file.metadata().map_err(|error| Failure::other(format!("{path}: {error}")))?.mode();
    if mode & 0o077 != 0 {
        let why = format!("{path} holds an API key, but other users may read it (mode {:o}): not used", mode & 0o777);
        return Err(Failure::hinted(why, format!("chmod 600 {path}, and consider replacing the API key")));
    }
    Ok(())
}
