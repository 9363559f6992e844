//! Which profile: what the command line names, else what the host keeps in /etc/bedplate, else the shipped profile
//! that fits the hardware best. Reads files; what they mean is the profile module's business.

use std::io::Read as _;
use std::path::Path;

use super::{CliError, ProfileArgs, output};
use crate::facts::Facts;
use crate::host::{ReadError, Reader};
use crate::profile::{self, Diagnostic, LayerText, Loaded, MatchError, Shipped};

/// The host's own profile.
pub const HOST_PROFILE: &str = "/etc/bedplate/profile.toml";
/// Profiles of a mixed fleet, of which the best match is taken.
pub const HOST_PROFILES: &str = "/etc/bedplate/profiles";
/// Layers laid over the profile, in sorted order.
pub const HOST_LAYERS: &str = "/etc/bedplate/profile.d";

/// Longest text that is taken for a profile. A kernel command line ends at 2 KiB (handbook §1), and the shipped
/// profiles are shorter than 8 KiB with all their comments.
const MOST_BYTES: usize = 128 * 1024;
/// Findings shown at once; the rest is counted.
const MOST_FINDINGS: usize = 20;

/// One text of a profile.
#[derive(Debug, Clone)]
pub struct Layer {
    path: String,
    text: String,
}

impl Layer {
    /// A shipped profile as a layer.
    pub fn of_shipped(shipped: &Shipped) -> Self {
        Layer { path: shipped.path(), text: shipped.text.to_owned() }
    }

    /// What messages call it.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn of_a_bearable_size(self) -> Result<Self, CliError> {
        if self.text.len() <= MOST_BYTES {
            return Ok(self);
        }
        let path = self.path;
        Err(CliError::Plain(format!(
            "{path} is larger than {} KiB: that is no profile",
            MOST_BYTES / 1024
        )))
    }
}

/// The merged, validated profile for this host. Lint findings go to stderr.
pub fn load(args: &ProfileArgs, reader: &dyn Reader, facts: &Facts) -> Result<Loaded, CliError> {
    let loaded = load_quietly(args, reader, facts)?;
    print_lints(&loaded);
    Ok(loaded)
}

/// The same, for whoever plans more than once: lint findings are said once.
pub fn load_quietly(
    args: &ProfileArgs,
    reader: &dyn Reader,
    facts: &Facts,
) -> Result<Loaded, CliError> {
    let mut layers = base(args.profile.as_deref(), reader, facts)?;
    layers.extend(host_files(reader, HOST_LAYERS)?);
    finish(&layers)
}

/// The profile that the operator has put on this host.
pub struct Own {
    /// It, merged.
    pub loaded: Loaded,
    /// The files of the host that it was read from.
    pub files: Vec<String>,
}

/// The profile that the operator has put on this host. `None`: there is none; what the shipped profiles would be for this
/// hardware is a guess, and nobody has asked for it.
pub fn load_own(reader: &dyn Reader, facts: &Facts) -> Result<Option<Own>, CliError> {
    let Some(mut layers) = own(reader, facts)? else { return Ok(None) };
    layers.extend(host_files(reader, HOST_LAYERS)?);
    let files =
        layers.iter().filter(|layer| layer.path.starts_with('/')).map(|layer| layer.path.clone());
    let files = files.collect();
    Ok(Some(Own { loaded: finish(&layers)?, files }))
}

/// Whether the profile would be the shipped one that fits the hardware best: neither the command line nor the host names one.
pub fn is_guessed(args: &ProfileArgs, reader: &dyn Reader) -> Result<bool, CliError> {
    Ok(args.profile.is_none()
        && host_profile(reader)?.is_none()
        && host_files(reader, HOST_PROFILES)?.is_empty())
}

/// Why such a guess is not applied to the running machine unasked.
pub fn no_profile_named() -> String {
    format!(
        "there is no profile: {HOST_PROFILE} is not there, and {HOST_PROFILES} holds none. Nothing was changed: name one with \
         --profile (`bedplate profile list`), or put one in /etc/bedplate (`bedplate profile init`)"
    )
}

/// What to tell a host that has none.
pub fn no_own_profile() -> String {
    format!(
        "there is no profile: {HOST_PROFILE} is not there, and {HOST_PROFILES} holds none. Nothing is enforced. Put one there \
         (`extends = \"NAME\"` names a shipped one, `match = \"auto\"` takes the one that fits best; `bedplate profile list`)"
    )
}

/// Merge and validate; errors come with place and remedy.
pub fn finish(layers: &[Layer]) -> Result<Loaded, CliError> {
    let texts: Vec<LayerText> =
        layers.iter().map(|layer| LayerText { path: &layer.path, text: &layer.text }).collect();
    profile::load(&texts, profile::shipped())
        .map_err(|errors| CliError::Rendered(rendered(&errors.0)))
}

/// Lint findings, to stderr.
pub fn print_lints(loaded: &Loaded) {
    if !loaded.lints.is_empty() {
        output::diagnostics(&rendered(&loaded.lints));
    }
}

fn rendered(findings: &[Diagnostic]) -> String {
    let shown = findings.get(..MOST_FINDINGS).unwrap_or(findings);
    let text = profile::render_all(shown, colour());
    match findings.len() - shown.len() {
        0 => text,
        more => format!("{}\n\n… and {more} more", text.trim_end()),
    }
}

/// Diagnostics are laid out before they reach the stream that would strip their colour.
fn colour() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

fn base(asked: Option<&str>, reader: &dyn Reader, facts: &Facts) -> Result<Vec<Layer>, CliError> {
    let layer = match asked {
        Some(name) => named(name, facts)?,
        None => return own(reader, facts)?.map_or_else(|| Ok(vec![matching_shipped(facts)?]), Ok),
    };
    matched(layer, facts)
}

/// A profile that says `match = "auto"` is laid over the shipped one that fits the hardware best.
fn matched(layer: Layer, facts: &Facts) -> Result<Vec<Layer>, CliError> {
    match profile::asks_for_match(&layer.text) {
        true => Ok(vec![matching_shipped(facts)?, layer]),
        false => Ok(vec![layer]),
    }
}

fn matching_shipped(facts: &Facts) -> Result<Layer, CliError> {
    best(profile::shipped().iter().map(Layer::of_shipped).collect(), facts, "the shipped profiles")
}

/// A file, or, where there is none of that name, a shipped profile.
pub fn file_or_shipped(path: &Path) -> Result<Layer, CliError> {
    let shipped = profile::shipped().iter().find(|shipped| Path::new(shipped.name) == path);
    match shipped {
        Some(shipped) if !path.exists() => Ok(Layer::of_shipped(shipped)),
        _ => read_file(path),
    }
}

/// A shipped name, a file, or a directory.
pub fn named(name: &str, facts: &Facts) -> Result<Layer, CliError> {
    let looks_like_path = name.contains('/') || name.ends_with(".toml");
    if !looks_like_path
        && let Some(shipped) = profile::shipped().iter().find(|shipped| shipped.name == name)
    {
        return Ok(Layer::of_shipped(shipped));
    }
    let path = Path::new(name);
    if path.is_dir() {
        return best(directory(path)?, facts, name);
    }
    if !path.exists() && !looks_like_path {
        return Err(CliError::Plain(no_such_profile(name)));
    }
    read_file(path)
}

fn no_such_profile(name: &str) -> String {
    let names: Vec<&str> = profile::shipped().iter().map(|shipped| shipped.name).collect();
    let meant = profile::nearest(name, names.iter().copied())
        .map(|near| format!("did you mean `{near}`? "));
    format!(
        "no profile is called `{name}`: {}shipped ones are {}; a file is given by its path, such as ./site.toml",
        meant.unwrap_or_default(),
        names.join(", ")
    )
}

/// One file of the machine that bedplate runs on.
pub fn read_file(path: &Path) -> Result<Layer, CliError> {
    let shown = path.display().to_string();
    let failed = |error| CliError::while_doing(format!("cannot read the profile {shown}"), error);
    let mut bytes = Vec::new();
    // A device or a pipe may never end.
    let limit = MOST_BYTES as u64 + 1;
    let read = std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    read.map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        CliError::Plain(format!("the profile {shown} is not UTF-8 text: save it as UTF-8"))
    })?;
    Layer { path: shown, text }.of_a_bearable_size()
}

fn directory(dir: &Path) -> Result<Vec<Layer>, CliError> {
    let listed = std::fs::read_dir(dir).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = listed.map_err(|error| {
        CliError::while_doing(format!("cannot list the profiles in {}", dir.display()), error)
    })?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths.iter().map(|path| read_file(path)).collect()
}

/// What is installed in the host's /etc/bedplate: the profiles that it may use, and the layers laid over any of them.
pub fn installed(reader: &dyn Reader) -> Result<(Vec<Layer>, Vec<Layer>), CliError> {
    let profiles = match host_profile(reader)? {
        Some(profile) => vec![profile],
        None => host_files(reader, HOST_PROFILES)?,
    };
    Ok((profiles, host_files(reader, HOST_LAYERS)?))
}

fn host_profile(reader: &dyn Reader) -> Result<Option<Layer>, CliError> {
    match reader.text(HOST_PROFILE) {
        Ok(text) => Layer { path: HOST_PROFILE.into(), text }.of_a_bearable_size().map(Some),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(cannot_read(error)),
    }
}

/// What the operator has put on the host; `None`: nothing.
fn own(reader: &dyn Reader, facts: &Facts) -> Result<Option<Vec<Layer>>, CliError> {
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

/// What messages call the shipped profile that fits the hardware best.
pub fn best_shipped(facts: &Facts) -> Result<String, MatchError> {
    let row = |shipped: &Shipped| {
        let layer = LayerText { path: &shipped.path(), text: shipped.text };
        let loaded = profile::load(&[layer], profile::shipped());
        // A test holds that every shipped profile loads.
        (shipped.path(), loaded.map(|loaded| loaded.profile.matching).unwrap_or_default())
    };
    let conditions: Vec<_> = profile::shipped().iter().map(row).collect();
    profile::pick(&conditions, facts).map(str::to_owned)
}

fn best(mut candidates: Vec<Layer>, facts: &Facts, place: &str) -> Result<Layer, CliError> {
    if candidates.is_empty() {
        return Err(CliError::Plain(format!(
            "{place} holds no profile: no file in it ends in .toml"
        )));
    }
    let mut conditions = Vec::new();
    for candidate in &candidates {
        let loaded = finish(std::slice::from_ref(candidate))?;
        conditions.push((candidate.path.clone(), loaded.profile.matching));
    }
    let chosen = profile::pick(&conditions, facts).map_err(|error| {
        let doing =
            format!("no profile of {place} can be chosen for this host; name one with --profile");
        CliError::while_doing(doing, error)
    })?;
    let at = candidates.iter().position(|candidate| candidate.path == chosen);
    at.map(|at| candidates.swap_remove(at))
        .ok_or_else(|| CliError::Plain(format!("{place} holds no profile")))
}

fn host_files(reader: &dyn Reader, dir: &str) -> Result<Vec<Layer>, CliError> {
    let names = match reader.list(dir) {
        Ok(names) => names,
        Err(error) if error.is_absent() => return Ok(Vec::new()),
        // A snapshot made without this directory has none to lay over.
        Err(ReadError::NotRecorded { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(cannot_read(error)),
    };
    let files = names.into_iter().filter(|name| name.ends_with(".toml")).map(|name| {
        let path = format!("{dir}/{name}");
        let text = reader.text(&path).map_err(cannot_read)?;
        Layer { path, text }.of_a_bearable_size()
    });
    files.collect()
}

fn cannot_read(error: ReadError) -> CliError {
    CliError::while_doing("cannot read the host's profile", error)
}
