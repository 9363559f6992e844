//! The disk after every cut that the log allows, checked from outside. Without a guest a state takes milliseconds.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bedplate_tests::lab::Result;

use super::disk::{Entry, SECTOR, said};

/// Messages of fsck.fat for damage by which a file can get another file's content (fsck.fat, check.c). A cut may leave
/// other defects: clusters in no file, half a long name, the dirty bit, a wrong count of free clusters.
pub const DAMAGE: [&str; 8] = [
    "free cluster (",
    "share clusters",
    "cluster chain length",
    "bad cluster",
    "Circular",
    "Start does point to root",
    "beyond limit",
    "out of range",
];

/// Permitted content of entries after a cut.
pub struct Texts {
    /// Name, text before, text after.
    pub files: Vec<(String, String, String)>,
}

/// The disk in one of its states.
struct State<'a> {
    path: PathBuf,
    file: File,
    texts: &'a Texts,
    tried: usize,
    faults: Vec<String>,
}

/// Replays writes by sector: in order, and with reordering between two flushes. `made` is the disk before `log`; only
/// writes from `start` on are cut. Returns the number of states, and the faults.
pub fn every_cut(
    made: &Path,
    log: &[Entry],
    start: usize,
    texts: &Texts,
) -> Result<(usize, Vec<String>)> {
    let path = made.with_extension("state");
    std::fs::copy(made, &path)?;
    let file = File::options().read(true).write(true).open(&path)?;
    let mut state = State { path, file, texts, tried: 0, faults: Vec::new() };
    state.put(&sectors(&log[..start]))?;
    state.check("before the first write")?;
    let epochs: Vec<&[Entry]> = log[start..].split(Entry::is_flush).collect();
    for (flushes, epoch) in epochs.iter().enumerate() {
        if flushes + 1 == epochs.len() {
            // Writes after the last flush may be lost, although `apply` has ended.
            state.check_end()?;
        }
        let writes = sectors(epoch);
        for chosen in subsets(writes.len()) {
            let chosen: Vec<_> = chosen.into_iter().map(|index| writes[index]).collect();
            let before = state.put(&chosen)?;
            let places: Vec<u64> = chosen.iter().map(|(sector, _)| *sector).collect();
            state.check(&format!("after {flushes} flushes and sectors {places:?}"))?;
            let before: Vec<_> =
                before.iter().rev().map(|(sector, data)| (*sector, data.as_slice())).collect();
            state.put(&before)?;
        }
        state.put(&writes)?;
    }
    Ok((state.tried, state.faults))
}

fn sectors(entries: &[Entry]) -> Vec<(u64, &[u8])> {
    entries.iter().flat_map(|entry| (entry.sector..).zip(entry.data.chunks_exact(SECTOR))).collect()
}

/// Returns all prefixes, all single elements, and all sets that lack one element.
fn subsets(count: usize) -> BTreeSet<Vec<usize>> {
    let mut subsets = BTreeSet::new();
    for index in 0..count {
        subsets.insert((0..=index).collect());
        subsets.insert(vec![index]);
        subsets.insert((0..count).filter(|other| *other != index).collect());
    }
    subsets.remove(&Vec::new());
    subsets
}

impl State<'_> {
    /// Writes sectors; returns the previous content.
    fn put(&self, sectors: &[(u64, &[u8])]) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut before = Vec::new();
        for (sector, data) in sectors {
            let (at, mut old) = (sector * SECTOR as u64, vec![0; SECTOR]);
            self.file.read_exact_at(&mut old, at)?;
            self.file.write_all_at(data, at)?;
            before.push((*sector, old));
        }
        Ok(before)
    }

    fn text(&self, name: &str) -> Result<String> {
        let image = self.path.display().to_string();
        let (_, bytes) = said(&["mtype", "-i", &image, &format!("::/entries/{name}")])?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn check_end(&mut self) -> Result<()> {
        for (name, _, after) in &self.texts.files {
            if self.text(name)? != *after {
                self.faults.push(format!("{name} is as before where the last flush ends"));
            }
        }
        Ok(())
    }

    fn check(&mut self, when: &str) -> Result<()> {
        self.tried += 1;
        for (name, before, after) in &self.texts.files {
            let now = self.text(name)?;
            if now != *before && now != *after {
                self.faults.push(format!("{when}: {name} holds {now:?}"));
            }
        }
        let (_, report) = said(&["fsck.vfat", "-n", &self.path.display().to_string()])?;
        let report = String::from_utf8_lossy(&report);
        let damage = DAMAGE.iter().filter(|damage| report.contains(**damage));
        let found: Vec<_> = damage.copied().collect();
        if !found.is_empty() {
            self.faults.push(format!("{when}: {found:?} in {}", report.trim()));
        }
        Ok(())
    }
}
