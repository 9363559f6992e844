//! Selection of the profile: the one named on the command line, else the host's own in /etc/bedplate, else the shipped
//! profile that fits the hardware best. Reads the files; the profile module parses them.

mod error;
#[cfg(test)]
mod tests;

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::profile::model::Profile;
use crate::profile::{self, LayerText, LoadedProfile, MatchError, MatchResult, Shipped};
use bedplate_base::{OptionalRead as _, ReadError};
use bedplate_facts::Facts;
use bedplate_host::{Reader, file, trust};

pub use error::SourceError;

/// The host's own profile.
pub const HOST_PROFILE: &str = "/etc/bedplate/profile.toml";
/// Profiles of a mixed fleet; the best match is used.
pub const HOST_PROFILES: &str = "/etc/bedplate/profiles";
/// Layers laid over the profile, in sorted order.
pub(crate) const HOST_LAYERS: &str = "/etc/bedplate/profile.d";

/// Maximum length of a profile in bytes. A kernel command line ends at 2 KiB (handbook §1), and the shipped profiles
/// are shorter than 8 KiB with all their comments.
const MOST_BYTES: usize = 128 * 1024;

/// Directory of the host's profiles.
const HOST_DIRECTORY: &str = "/etc/bedplate";

/// Whether the owner of a profile named on the command line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerCheck {
    /// No: any file may be read, also a pipe, because the profile is only displayed.
    Skip,
    /// Yes: the file must belong to the caller or to root, and other users must not be able to write it, because it
    /// decides what root does.
    Require,
}

/// Requested profile.
#[derive(Debug, Clone, Copy)]
pub enum Choice<'a> {
    /// Name of a shipped profile, a file, or a directory of which the best match is used.
    Named(&'a str),
    /// The operator's profile on the host, else the shipped profile that fits the hardware best.
    HostOrShipped,
    /// Only the operator's profile on the host: the daemon never enforces a guess.
    HostOnly,
}

/// A profile, merged and validated, with its source files.
#[derive(Debug)]
pub struct ChosenProfile {
    /// The profile.
    pub loaded: LoadedProfile,
    /// Files of the host that the profile was read from.
    pub files: Vec<String>,
}

/// Text of one layer of a profile.
#[derive(Debug, Clone)]
pub struct Layer {
    path: String,
    text: String,
}

impl Layer {
    /// Makes a layer of a shipped profile.
    pub fn of_shipped(shipped: &Shipped) -> Self {
        Layer { path: shipped.path(), text: shipped.text.to_owned() }
    }

    /// Returns the path to show in messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn of_a_bearable_size(self) -> Result<Self, SourceError> {
        match self.text.len() <= MOST_BYTES {
            true => Ok(self),
            false => Err(SourceError::TooLarge { path: self.path }),
        }
    }
}

/// Returns the profile for this host. `None`: [`Choice::HostOnly`], and the host has no profile.
///
/// # Errors
/// [`SourceError`].
pub fn choose(
    choice: Choice<'_>,
    check: OwnerCheck,
    reader: &dyn Reader,
    facts: &Facts,
) -> Result<Option<ChosenProfile>, SourceError> {
    let base = match choice {
        Choice::Named(name) => matched(named(name, check, facts)?, facts)?,
        Choice::HostOrShipped => match own(reader, facts)? {
            Some(layers) => layers,
            None => vec![matching_shipped(facts)?],
        },
        Choice::HostOnly => match own(reader, facts)? {
            Some(layers) => layers,
            None => return Ok(None),
        },
    };
    let layers: Vec<Layer> = base.into_iter().chain(host_files(reader, HOST_LAYERS)?).collect();
    let of_host = layers.iter().filter(|layer| layer.path.starts_with('/'));
    let files = of_host.map(|layer| layer.path.clone()).collect();
    Ok(Some(ChosenProfile { loaded: finish(&layers)?, files }))
}

/// Whether the choice falls to the shipped profile that fits the hardware best: neither the command line nor the host
/// names one.
///
/// # Errors
/// [`SourceError`].
pub fn is_guessed(choice: Choice<'_>, reader: &dyn Reader) -> Result<bool, SourceError> {
    Ok(matches!(choice, Choice::HostOrShipped)
        && host_profile(reader)?.is_none()
        && host_files(reader, HOST_PROFILES)?.is_empty())
}

/// Returns the text for an apply on the running machine without a named profile: a guess is not applied unrequested.
pub fn no_profile_named() -> String {
    format!(
        "there is no profile: {HOST_PROFILE} does not exist, and {HOST_PROFILES} contains none. No changes made. Name one \
         with --profile (`bedplate profile list`), or create one in /etc/bedplate (`bedplate profile init`)"
    )
}

/// Returns the text for a host without a profile of its own.
pub(crate) fn no_own_profile() -> String {
    format!(
        "there is no profile: {HOST_PROFILE} does not exist, and {HOST_PROFILES} contains none. Nothing is enforced. Create \
         one with `bedplate profile init` (`extends = \"NAME\"` uses a shipped one, `match = \"auto\"` the best match; \
         `bedplate profile list`)"
    )
}

/// Merges the layers and validates the result; errors have a location and a fix.
///
/// # Errors
/// [`SourceError::Invalid`].
pub fn finish(layers: &[Layer]) -> Result<LoadedProfile, SourceError> {
    let texts: Vec<LayerText> =
        layers.iter().map(|layer| LayerText { path: &layer.path, text: &layer.text }).collect();
    profile::load(&texts, profile::shipped()).map_err(|errors| SourceError::Invalid(errors.0))
}

/// Lays a profile with `match = "auto"` over the shipped one that fits the hardware best.
fn matched(layer: Layer, facts: &Facts) -> Result<Vec<Layer>, SourceError> {
    match profile::asks_for_match(&layer.text) {
        true => Ok(vec![matching_shipped(facts)?, layer]),
        false => Ok(vec![layer]),
    }
}

fn matching_shipped(facts: &Facts) -> Result<Layer, SourceError> {
    let name = best_shipped(facts).map_err(SourceError::NoShipped)?;
    let shipped = profile::shipped().iter().find(|shipped| shipped.name == name);
    shipped.map(Layer::of_shipped).ok_or(SourceError::UnknownName { name })
}

/// Returns the file at `path`, or the shipped profile of that name if there is no such file.
///
/// # Errors
/// [`SourceError`].
pub fn file_or_shipped(path: &Path) -> Result<Layer, SourceError> {
    let shipped = profile::shipped().iter().find(|shipped| Path::new(shipped.name) == path);
    match shipped {
        Some(shipped) if !path.exists() => Ok(Layer::of_shipped(shipped)),
        _ => read_file(path, OwnerCheck::Skip),
    }
}

/// Resolves the name of a shipped profile, a file, or a directory.
fn named(name: &str, check: OwnerCheck, facts: &Facts) -> Result<Layer, SourceError> {
    let looks_like_path = name.contains('/') || name.ends_with(".toml");
    if !looks_like_path
        && let Some(shipped) = profile::shipped().iter().find(|shipped| shipped.name == name)
    {
        return Ok(Layer::of_shipped(shipped));
    }
    let path = Path::new(name);
    if path.is_dir() {
        return best(directory(path, check)?, facts, name);
    }
    if !path.exists() && !looks_like_path {
        return Err(SourceError::UnknownName { name: name.to_owned() });
    }
    read_file(path, check)
}

/// Reads one file of the machine that bedplate runs on, named by the caller.
fn read_file(path: &Path, check: OwnerCheck) -> Result<Layer, SourceError> {
    match check {
        OwnerCheck::Skip => shown_file(path, std::fs::File::open(path)),
        OwnerCheck::Require => own_file(path),
    }
}

/// Reads a file for display only. Messages quote lines of profiles, and sudo may let a user name any file as a profile:
/// lines of a file that is not TOML are quoted only from the user's own profile.
fn shown_file(path: &Path, opened: std::io::Result<std::fs::File>) -> Result<Layer, SourceError> {
    let file = opened.map_err(unreadable(path))?;
    let owner = file.metadata().map_err(unreadable(path))?.uid();
    let layer = layer(path, Ok(file))?;
    let is_own = owner == trust::invoking_user() && layer.path.ends_with(".toml");
    match profile::not_toml_at(&layer.text) {
        Some(line) if !is_own => Err(SourceError::NotToml { path: layer.path, line }),
        _ => Ok(layer),
    }
}

/// Reads a file of a directory: a pipe must not block the rest.
fn listed_file(path: &Path, check: OwnerCheck) -> Result<Layer, SourceError> {
    match check {
        OwnerCheck::Skip => shown_file(path, file::open(path).map(|(file, _)| file)),
        OwnerCheck::Require => own_file(path),
    }
}

fn own_file(path: &Path) -> Result<Layer, SourceError> {
    // A command in a message must name the same file in every working directory.
    let absolute = std::path::absolute(path).map_err(unreadable(path))?;
    let shown = absolute.display().to_string();
    let (opened, stat) = file::open(path).map_err(unreadable(path))?;
    check_trust(trust::distrust(&stat, &shown), &shown)?;
    // Whoever can write a directory can replace a file in it: check the directory of the name and the one that links
    // lead to.
    let parent = absolute.parent().unwrap_or(Path::new("/"));
    let named = nix::sys::stat::stat(parent).map_err(|errno| unreadable(parent)(errno.into()))?;
    let real = file::real_directory(&opened);
    for (directory, stat) in std::iter::once((parent.to_owned(), named)).chain(real) {
        let why = trust::distrust_directory(&stat);
        check_trust(
            why.map(|why| format!("its directory {}: {why}", directory.display())),
            &shown,
        )?;
    }
    layer(path, Ok(opened))
}

fn layer(path: &Path, opened: std::io::Result<std::fs::File>) -> Result<Layer, SourceError> {
    let mut bytes = Vec::new();
    // A device or a pipe may never end.
    let limit = MOST_BYTES as u64 + 1;
    opened.and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(unreadable(path))?;
    let path = path.display().to_string();
    let text = String::from_utf8(bytes).map_err(|_| SourceError::NotText { path: path.clone() })?;
    Layer { path, text }.of_a_bearable_size()
}

fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> SourceError {
    move |source| SourceError::Unreadable { path: path.display().to_string(), source }
}

fn check_trust(why: Option<String>, path: &str) -> Result<(), SourceError> {
    let untrusted = |why| Err(SourceError::Untrusted { path: path.to_owned(), why });
    why.map_or(Ok(()), untrusted)
}

fn directory(dir: &Path, check: OwnerCheck) -> Result<Vec<Layer>, SourceError> {
    let listed = std::fs::read_dir(dir).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let directory = || dir.display().to_string();
    let entries =
        listed.map_err(|source| SourceError::Unlisted { directory: directory(), source })?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths.iter().map(|path| listed_file(path, check)).collect()
}

/// Returns the profiles in the host's /etc/bedplate, and the layers laid over any of them.
///
/// # Errors
/// [`SourceError`].
pub fn installed(reader: &dyn Reader) -> Result<(Vec<Layer>, Vec<Layer>), SourceError> {
    let profiles = match host_profile(reader)? {
        Some(profile) => vec![profile],
        None => host_files(reader, HOST_PROFILES)?,
    };
    Ok((profiles, host_files(reader, HOST_LAYERS)?))
}

fn host_profile(reader: &dyn Reader) -> Result<Option<Layer>, SourceError> {
    let trusted = reader.trusted_directory(HOST_DIRECTORY);
    let text = trusted.and_then(|()| trusted_text(reader, HOST_PROFILE));
    let Some(text) = text.optional().map_err(SourceError::Host)? else { return Ok(None) };
    Layer { path: HOST_PROFILE.into(), text }.of_a_bearable_size().map(Some)
}

/// Returns the operator's profile on the host. `None`: there is none.
fn own(reader: &dyn Reader, facts: &Facts) -> Result<Option<Vec<Layer>>, SourceError> {
    if let Some(profile) = host_profile(reader)? {
        return matched(profile, facts).map(Some);
    }
    let fleet = host_files(reader, HOST_PROFILES)?;
    if fleet.is_empty() {
        Ok(None)
    } else {
        best(fleet, facts, HOST_PROFILES).map(|layer| Some(vec![layer]))
    }
}

/// Returns the name of the shipped profile that fits the hardware best.
///
/// # Errors
/// No profile fits, or several fit equally.
pub fn best_shipped(facts: &Facts) -> Result<String, MatchError> {
    let conditions: Vec<_> =
        shipped_profiles().map(|(name, profile)| (name.to_owned(), profile.matching)).collect();
    profile::pick(&conditions, facts).map(str::to_owned).map_err(|error| match error {
        // `bedplate profile list` shows why a host is none of the named machines.
        MatchError::NoneFits(mut misfits) => {
            misfits.retain(|misfit| misfit.profile.starts_with("generic-"));
            MatchError::NoneFits(misfits)
        }
        tie => tie,
    })
}

/// Shipped profile, compared with a host.
#[derive(Debug, Clone)]
pub struct ListedProfile {
    /// Its name.
    pub name: &'static str,
    /// Machines that it is for.
    pub description: String,
    /// Result of its conditions.
    pub judged: MatchResult,
    /// Whether it fits best.
    pub best: bool,
}

/// Compares all shipped profiles with a host.
pub fn listed(facts: &Facts) -> Vec<ListedProfile> {
    let best = best_shipped(facts).ok();
    let row = |(name, profile): (&'static str, Profile)| ListedProfile {
        name,
        judged: profile::match_profile(&profile.matching, facts),
        description: profile.description,
        best: best.as_deref() == Some(name),
    };
    shipped_profiles().map(row).collect()
}

fn shipped_profiles() -> impl Iterator<Item = (&'static str, Profile)> {
    profile::shipped().iter().filter_map(|shipped| {
        let layer = LayerText { path: &shipped.path(), text: shipped.text };
        // A test ensures that every shipped profile loads.
        let loaded = profile::load(&[layer], profile::shipped()).ok()?;
        Some((shipped.name, loaded.profile))
    })
}

fn best(mut candidates: Vec<Layer>, facts: &Facts, place: &str) -> Result<Layer, SourceError> {
    if candidates.is_empty() {
        return Err(SourceError::Empty { place: place.to_owned() });
    }
    let mut conditions = Vec::new();
    for candidate in &candidates {
        let loaded = finish(std::slice::from_ref(candidate))?;
        conditions.push((candidate.path.clone(), loaded.profile.matching));
    }
    let chosen = profile::pick(&conditions, facts)
        .map_err(|source| SourceError::NoMatch { place: place.to_owned(), source })?;
    let at = candidates.iter().position(|candidate| candidate.path == chosen);
    at.map(|at| candidates.swap_remove(at))
        .ok_or_else(|| SourceError::Empty { place: place.to_owned() })
}

fn host_files(reader: &dyn Reader, dir: &str) -> Result<Vec<Layer>, SourceError> {
    let trusted =
        reader.trusted_directory(HOST_DIRECTORY).and_then(|()| reader.trusted_directory(dir));
    let names = match trusted.and_then(|()| reader.list(dir)) {
        Ok(names) => names,
        Err(error) if error.is_absent() => return Ok(Vec::new()),
        // A snapshot made without this directory has no layers.
        Err(ReadError::NotRecorded { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(SourceError::Host(error)),
    };
    let files = names.into_iter().filter(|name| name.ends_with(".toml")).map(|name| {
        let path = format!("{dir}/{name}");
        let text = trusted_text(reader, &path).map_err(SourceError::Host)?;
        Layer { path, text }.of_a_bearable_size()
    });
    files.collect()
}

fn trusted_text(reader: &dyn Reader, path: &str) -> Result<String, ReadError> {
    String::from_utf8(reader.read_trusted(path)?)
        .map_err(|_| ReadError::Failed { path: path.to_owned(), reason: "not UTF-8 text".into() })
}
