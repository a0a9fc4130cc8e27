//! `profile`: lists, shows, changes and removes profiles.

use super::failure::Failure;
use super::global::Global;
use super::out::{Out, Table, say};
use super::profiles::{Profile, Profiles, read, unknown, write};
use clap::Subcommand;
use client::names::SpaceName;
use serde::Serialize;
use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// List the profiles; * marks the current one
    List,
    /// Create or change a profile: stores the given --endpoint, --api-key, --api-key-file, --actor, --space and --ca
    Set {
        /// Profile name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Make a profile the current one
    Use {
        /// Profile name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show a profile, without its API key
    Show {
        /// Profile name [default: the current profile]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Remove a profile
    Remove {
        /// Profile name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// A profile as it is shown: without the API key.
#[derive(Serialize)]
struct Shown<'p> {
    name: &'p str,
    current: bool,
    endpoints: &'p [String],
    identity: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    space: &'p Option<SpaceName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: &'p Option<PathBuf>,
}

fn shown<'p>(all: &Profiles, name: &'p str, profile: &'p Profile) -> Shown<'p> {
    let identity = match profile {
        Profile { api_key: Some(_), .. } => "an API key in the profile".into(),
        Profile { api_key_file: Some(path), .. } => format!("the API key in {}", path.display()),
        Profile { actor: Some(actor), .. } => format!("actor {actor}"),
        _ => "the user's name".into(),
    };
    Shown {
        name,
        current: all.current.as_deref() == Some(name),
        endpoints: &profile.endpoints,
        identity,
        space: &profile.space,
        ca: &profile.ca,
    }
}

/// `is_said`: whether an option is on the command line, and not only in the environment.
pub(crate) fn run(verb: Verb, global: &Global, is_said: &dyn Fn(&str) -> bool) -> Result<(), Failure> {
    let out = Out::new(global.json);
    let mut all = read()?;
    match verb {
        Verb::List => {
            let mut table = Table::new(&["", "NAME", "ENDPOINTS", "IDENTITY", "SPACE"]);
            for (name, profile) in &all.profiles {
                let shown = shown(&all, name, profile);
                if out.is_json {
                    out.json(&shown)?;
                } else {
                    let star = if shown.current { "*" } else { "" };
                    let space = profile.space.as_ref().map(ToString::to_string).unwrap_or_default();
                    table.plain([star, name, &shown.endpoints.join(" "), &shown.identity, &space]);
                }
            }
            if !out.is_json { out.table(&table) } else { Ok(()) }
        }
        Verb::Set { name } => {
            let profile = all.profiles.entry(name.clone()).or_default();
            change(profile, global, is_said)?;
            if all.current.is_none() {
                all.current = Some(name.clone());
            }
            write(&all)?;
            changed(&out, &all, &name, "is set")
        }
        Verb::Use { name } => {
            if !all.profiles.contains_key(&name) {
                return Err(unknown(&name));
            }
            all.current = Some(name.clone());
            write(&all)?;
            changed(&out, &all, &name, "is the current one")
        }
        Verb::Show { name } => {
            let name = name.or_else(|| all.current.clone());
            let name = name.ok_or_else(|| Failure::Nothing("there is no current profile".into()))?;
            let profile = all.profiles.get(&name).ok_or_else(|| unknown(&name))?;
            out.answer(&shown(&all, &name, profile), |out, shown| {
                let mut table = Table::default();
                table.pair("name", shown.name);
                table.pair("endpoints", shown.endpoints.join(" "));
                table.pair("identity", &shown.identity);
                table.pair_if("space", shown.space.as_ref());
                table.pair_if("ca", shown.ca.as_ref().map(|path| path.display()));
                out.table(&table)
            })
        }
        Verb::Remove { name } => {
            all.profiles.remove(&name).ok_or_else(|| unknown(&name))?;
            all.current = all.current.filter(|current| *current != name);
            write(&all)?;
            out.answer(&Gone { name: &name, removed: true }, |_, gone| {
                say(format_args!("profile {} is removed", gone.name));
                Ok(())
            })
        }
    }
}

#[derive(Serialize)]
struct Gone<'p> {
    name: &'p str,
    removed: bool,
}

/// Reports a changed profile.
fn changed(out: &Out, all: &Profiles, name: &str, how: &str) -> Result<(), Failure> {
    let profile = all.profiles.get(name).ok_or_else(|| unknown(name))?;
    out.answer(&shown(all, name, profile), |_, shown| {
        say(format_args!("profile {} {how}", shown.name));
        Ok(())
    })
}

fn change(profile: &mut Profile, global: &Global, is_said: &dyn Fn(&str) -> bool) -> Result<(), Failure> {
    let absolute =
        |path: &Path| std::path::absolute(path).map_err(|error| Failure::other(format!("{}: {error}", path.display())));
    if is_said("endpoint") {
        profile.endpoints = global.endpoint.iter().map(ToString::to_string).collect();
    }
    // A profile has one identity: a new one replaces the old one, of whatever kind it is.
    if is_said("api_key") || is_said("api_key_file") || is_said("actor") {
        (profile.api_key, profile.api_key_file, profile.actor) = (None, None, None);
    }
    if is_said("api_key") {
        profile.api_key = match global.api_key.as_deref() {
            Some("-") => Some(first_line()?),
            api_key => api_key.map(ToOwned::to_owned),
        };
    }
    if let Some(path) = global.api_key_file.as_deref().filter(|_| is_said("api_key_file")) {
        profile.api_key_file = Some(absolute(path)?);
    }
    if is_said("actor") {
        profile.actor.clone_from(&global.actor);
    }
    if is_said("space") {
        profile.space.clone_from(&global.space);
    }
    if let Some(path) = global.ca.as_deref().filter(|_| is_said("ca")) {
        profile.ca = Some(absolute(path)?);
    }
    Ok(())
}

fn first_line() -> Result<String, Failure> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| Failure::other(format!("standard input: {error}")))?;
    Ok(line.trim().to_owned())
}
