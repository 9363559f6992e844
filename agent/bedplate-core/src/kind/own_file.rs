//! Files that identify bedplate's work after its ledger was lost.

/// A file that a resource type writes, completely or in part.
#[derive(Debug, Clone, Copy)]
pub struct OwnFile {
    /// Absolute path inside the host.
    pub path: &'static str,
    /// Proof that the file is bedplate's.
    pub mark: OwnMark,
    /// Tools that generate other files from this one; the first one installed is run.
    pub readers: &'static [FileTool],
}

/// Proof that a file, or a part of it, is bedplate's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnMark {
    /// The heading in the first line; the whole file is bedplate's.
    Heading,
    /// The file name; the whole file is bedplate's.
    Name,
    /// A line with this text; a part of the file is bedplate's.
    Part(&'static str),
}

/// A tool that generates other files from one.
#[derive(Debug, Clone, Copy)]
pub struct FileTool {
    /// Path that exists if the tool is installed.
    pub program: &'static str,
    /// Program and arguments.
    pub argv: &'static [&'static str],
    /// Time limit in seconds.
    pub limit_s: u32,
}

impl OwnFile {
    /// Returns a file with bedplate's heading that no tool reads.
    pub(crate) const fn whole(path: &'static str) -> Self {
        OwnFile { path, mark: OwnMark::Heading, readers: &[] }
    }

    /// Returns a file in which `line` opens bedplate's part.
    pub(crate) const fn part(path: &'static str, line: &'static str) -> Self {
        OwnFile { path, mark: OwnMark::Part(line), readers: &[] }
    }
}
