//! Files by which bedplate is known again where its ledger was lost.

/// A file that a kind writes, or in which it writes a part.
#[derive(Debug, Clone, Copy)]
pub struct OwnFile {
    /// Absolute path inside the host.
    pub path: &'static str,
    /// What shows that it is bedplate's.
    pub mark: OwnMark,
    /// Tools that make other files from it; the first that the host has.
    pub readers: &'static [FileTool],
}

/// What shows that a file, or a part of it, is bedplate's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnMark {
    /// The heading in its first line; the whole file is.
    Heading,
    /// Its name; the whole file is.
    Name,
    /// A line with this text; a part of it is.
    Part(&'static str),
}

/// A tool that makes other files from one.
#[derive(Debug, Clone, Copy)]
pub struct FileTool {
    /// The program's path, where the tool is installed.
    pub program: &'static str,
    /// Program and arguments.
    pub argv: &'static [&'static str],
    /// Seconds it may take.
    pub limit_s: u32,
}

impl OwnFile {
    /// A file of bedplate's, with its heading, that no tool reads.
    pub(crate) const fn whole(path: &'static str) -> Self {
        OwnFile { path, mark: OwnMark::Heading, readers: &[] }
    }

    /// A file in which this line opens bedplate's part.
    pub(crate) const fn part(path: &'static str, line: &'static str) -> Self {
        OwnFile { path, mark: OwnMark::Part(line), readers: &[] }
    }
}
