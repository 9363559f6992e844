//! Errors of the selection of a profile.

use super::MOST_BYTES;
use crate::profile::{self, Diagnostic, MatchError};
use bedplate_base::ReadError;

/// Why no profile can be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The texts are not a valid profile; every finding has its location.
    #[error("the profile cannot be used")]
    Invalid(Vec<Diagnostic>),
    /// A file cannot be read.
    #[error("cannot read the profile {path}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A directory of profiles cannot be listed.
    #[error("cannot list the profiles in {directory}")]
    Unlisted {
        /// The directory.
        directory: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the host cannot be read.
    #[error("cannot read the host's profile")]
    Host(#[source] ReadError),
    /// Other users could have written the profile, which decides what root does.
    #[error("the profile {path} is not trusted: {why}")]
    Untrusted {
        /// The file or its directory.
        path: String,
        /// Why, and the command that fixes it.
        why: String,
    },
    /// A file that is not UTF-8 text.
    #[error("the profile {path} is not UTF-8 text: save it as UTF-8")]
    NotText {
        /// The file.
        path: String,
    },
    /// A file that is not TOML, and may hold any content.
    #[error(
        "the profile {path} is not TOML (line {line}); the line is shown only for a file of your own that ends in .toml"
    )]
    NotToml {
        /// The file.
        path: String,
        /// First line that is not TOML, from 1.
        line: usize,
    },
    /// A file above the size limit.
    #[error("{path} exceeds the {} KiB profile limit", MOST_BYTES / 1024)]
    TooLarge {
        /// The file.
        path: String,
    },
    /// Neither a shipped profile nor a file has this name.
    #[error(
        "no profile is named `{name}`: {}shipped profiles are {}; name a file by its path, such as ./site.toml",
        did_you_mean(.name), shipped_names().join(", ")
    )]
    UnknownName {
        /// Requested name.
        name: String,
    },
    /// A directory without profiles.
    #[error("no profile in {place}: no file in it ends in .toml")]
    Empty {
        /// The directory.
        place: String,
    },
    /// No shipped profile, or more than one, fits this host.
    #[error(
        "cannot choose a shipped profile for this host: name one with --profile, or create one (`bedplate profile init \
         --extends NAME`)"
    )]
    NoShipped(#[source] MatchError),
    /// No profile of several, or more than one, fits this host.
    #[error("cannot choose a profile of {place} for this host: name one with --profile")]
    NoMatch {
        /// Directory of the profiles.
        place: String,
        /// Why.
        source: MatchError,
    },
}

fn shipped_names() -> Vec<&'static str> {
    profile::shipped().iter().map(|shipped| shipped.name).collect()
}

fn did_you_mean(name: &str) -> String {
    let nearest = profile::nearest(name, shipped_names());
    nearest.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default()
}
