//! A fake machine in a temporary directory: real files written by the real writer, sysfs and config space that behave
//! like real ones, tools that work, fail, hang or stop half-way, and a fuse that ends everything at a chosen step as
//! `kill -9` would.

pub mod devices;
pub mod nic;
pub mod tools;
pub mod tree;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::{EswitchMode, VfAttributes};
use bedplate_host::DirReader;
use bedplate_host::write::DirWriter;
use bedplate_host::{
    ConfigSpace, Expected, FileMeta, HostKind, ModifiedAt, NicCause, NicError, Reader, ToolEnd,
    ToolOutput, WriteError, Writer,
};
use tempfile::TempDir;

use devices::Habits;
use tools::Tools;

/// A fake machine.
pub struct Machine {
    root: PathBuf,
    /// Deletes the root on drop.
    _temporary: Option<TempDir>,
    /// Reactions of its hardware to writes.
    pub habits: Habits,
    /// Behaviour of its tools.
    pub tools: Tools,
}

impl Machine {
    /// Creates an empty machine with only a boot id.
    pub fn new() -> Self {
        let directory = scratch();
        let root = directory.path().to_owned();
        let machine = Machine { _temporary: Some(directory), ..Self::open(&root) };
        machine.put("/proc/sys/kernel/random/boot_id", "5a1c0d9e-0000-4000-8000-000000000001\n");
        machine
    }

    /// Opens an existing machine, which is not deleted on drop.
    pub fn open(root: &Path) -> Self {
        Machine {
            root: root.to_owned(),
            _temporary: None,
            habits: Habits::default(),
            tools: Tools::default(),
        }
    }

    /// Root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Real path of a path on the fake machine.
    pub fn at(&self, path: &str) -> PathBuf {
        at(self.root(), path)
    }

    /// Writes a file, with its directories.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a file is in a directory"))
            .expect("directories can be made");
        fs::write(path, content).expect("a file can be written");
    }

    /// Writes a file with a mode.
    pub fn put_mode(&self, path: &str, content: &str, mode: u32) {
        self.put(path, content);
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode))
            .expect("a mode can be set");
    }

    /// Text of a file; empty if missing.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    /// Creates a reader that treats the machine as the running one.
    pub fn reader(&self) -> LiveReader {
        LiveReader { inner: DirReader::image(self.root()).expect("the root can be read") }
    }

    /// Creates a writer that stops when the fuse blows.
    pub fn writer(&self, fuse: &Fuse) -> FakeWriter {
        let gate = fuse.clone();
        let inner = DirWriter::image(self.root(), false).expect("the root can be written");
        FakeWriter {
            inner: inner.gated(Box::new(move |step, path| gate.step(&format!("{step} {path}")))),
            root: self.root().to_owned(),
            fuse: fuse.clone(),
            habits: self.habits.clone(),
            tools: self.tools.clone(),
        }
    }
}

/// Creates a directory, in memory if possible: the writer syncs often.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let directory =
        if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    directory.or_else(|_| tempfile::tempdir()).expect("a temporary directory")
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

fn at(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Stops everything at a chosen step.
#[derive(Clone, Default)]
pub struct Fuse(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    blows_at: Option<usize>,
    meddles: Option<(usize, Meddling)>,
    trail: Vec<String>,
}

/// Work of another program, done once.
type Meddling = Box<dyn FnOnce() + Send>;

impl Fuse {
    /// A fuse that never blows.
    pub fn none() -> Self {
        Self::default()
    }

    /// A fuse that blows before this step, counted from 0.
    pub fn at(step: usize) -> Self {
        Fuse(Arc::new(Mutex::new(State { blows_at: Some(step), ..State::default() })))
    }

    /// A fuse that never blows, and runs another program's work before this step.
    pub fn meddling(step: usize, work: impl FnOnce() + Send + 'static) -> Self {
        let meddles = Some((step, Box::new(work) as Meddling));
        Fuse(Arc::new(Mutex::new(State { meddles, ..State::default() })))
    }

    /// Announces a step. A blown fuse rejects all further steps.
    pub fn step(&self, what: &str) -> io::Result<()> {
        let mut state = self.0.lock().expect("nobody panics with it");
        if state.blows_at.is_some_and(|at| state.trail.len() >= at) {
            return Err(io::Error::other("killed"));
        }
        let now = state.trail.len();
        if let Some((_, work)) = state.meddles.take_if(|(at, _)| *at <= now) {
            work();
        }
        state.trail.push(what.to_owned());
        Ok(())
    }

    /// Steps so far.
    pub fn trail(&self) -> Vec<String> {
        self.0.lock().expect("nobody panics with it").trail.clone()
    }

    /// Whether the fuse has blown.
    pub fn blown(&self) -> bool {
        let state = self.0.lock().expect("nobody panics with it");
        state.blows_at.is_some_and(|at| state.trail.len() >= at)
    }
}

/// Reads a directory as the running machine.
pub struct LiveReader {
    inner: DirReader,
}

impl Reader for LiveReader {
    fn kind(&self) -> HostKind {
        HostKind::Live
    }
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.inner.read(path)
    }
    fn read_start(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
        self.inner.read_start(path, limit)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.inner.list(path)
    }
    fn link(&self, path: &str) -> Result<String, ReadError> {
        self.inner.link(path)
    }
    fn links(&self, path: &str) -> Result<Vec<(String, String)>, ReadError> {
        self.inner.links(path)
    }
    fn exists(&self, path: &str) -> Result<bool, ReadError> {
        self.inner.exists(path)
    }
    fn modified(&self, path: &str) -> Result<ModifiedAt, ReadError> {
        self.inner.modified(path)
    }
    fn digest(&self, path: &str) -> Result<[u8; 32], ReadError> {
        self.inner.digest(path)
    }
    /// A lock is held if its file has the content [`LOCKED`].
    fn is_locked(&self, path: &str) -> Result<bool, ReadError> {
        Ok(self.inner.read(path)? == LOCKED.as_bytes())
    }
    fn config(&self, address: PciAddress) -> Result<Box<dyn ConfigSpace + '_>, ReadError> {
        self.inner.config(address)
    }
    fn grub_header_block(&self, device: &str) -> Result<String, ReadError> {
        self.inner.grub_header_block(device)
    }
}

/// Content of a file that another process has locked.
pub const LOCKED: &str = "locked\n";

/// Writes to a directory as the running machine.
pub struct FakeWriter {
    inner: DirWriter,
    root: PathBuf,
    fuse: Fuse,
    habits: Habits,
    tools: Tools,
}

impl FakeWriter {
    fn step(&self, doing: &'static str, path: &str) -> Result<(), WriteError> {
        let failed = |error: io::Error| WriteError {
            doing,
            path: path.to_owned(),
            reason: error.to_string(),
        };
        self.fuse.step(&format!("{doing} {path}")).map_err(failed)
    }
}

fn killed(error: WriteError) -> NicError {
    NicError { error, cause: NicCause::Other }
}

impl Writer for FakeWriter {
    fn replace_expected(
        &mut self,
        path: &str,
        bytes: &[u8],
        mode: u32,
        expected: Expected<'_>,
    ) -> Result<(), WriteError> {
        self.inner.replace_expected(path, bytes, mode, expected)
    }
    fn restore_expected(
        &mut self,
        path: &str,
        bytes: &[u8],
        meta: &FileMeta,
        expected: Expected<'_>,
    ) -> Result<(), WriteError> {
        self.inner.restore_expected(path, bytes, meta, expected)
    }
    fn file_meta(&self, path: &str) -> Result<Option<FileMeta>, WriteError> {
        self.inner.file_meta(path)
    }
    fn remove_expected(&mut self, path: &str, expected: Expected<'_>) -> Result<(), WriteError> {
        self.inner.remove_expected(path, expected)
    }
    fn make_directory(&mut self, path: &str, mode: u32) -> Result<(), WriteError> {
        self.inner.make_directory(path, mode)
    }
    fn remove_directory(&mut self, path: &str) -> Result<bool, WriteError> {
        self.inner.remove_directory(path)
    }
    fn remove_stale_temporary_files(&mut self, path: &str) -> Result<usize, WriteError> {
        self.inner.remove_stale_temporary_files(path)
    }
    fn restore_cut_short(&mut self, path: &str) -> Result<bool, WriteError> {
        self.inner.restore_cut_short(path)
    }
    fn write_attribute(
        &mut self,
        path: &str,
        value: &str,
        _limit_s: u32,
    ) -> Result<(), WriteError> {
        self.step("write", path)?;
        let refused = |reason: String| WriteError { doing: "write", path: path.to_owned(), reason };
        devices::attribute(&self.root, &self.habits, path, value).map_err(refused)
    }
    fn write_config(
        &mut self,
        address: PciAddress,
        offset: u16,
        value: u16,
    ) -> Result<(), WriteError> {
        let path = format!("/sys/bus/pci/devices/{address}/config");
        self.step("write", &path)?;
        let refused = |error: io::Error| WriteError {
            doing: "write",
            path: path.clone(),
            reason: error.to_string(),
        };
        devices::config(&at(&self.root, &path), &self.habits, offset, value).map_err(refused)
    }
    fn set_vf(
        &mut self,
        pf: PciAddress,
        interface: &str,
        vf: u16,
        attributes: &VfAttributes,
        _limit_s: u32,
    ) -> Result<(), NicError> {
        let path = format!("{attributes} of VF {vf} of {interface}");
        self.step("set", &path).map_err(killed)?;
        let own = self.root.join(format!("sys/bus/pci/devices/{pf}/net/{interface}"));
        if !own.exists() {
            let reason = "the interface is not there".into();
            return Err(killed(WriteError { doing: "set", path, reason }));
        }
        if self.habits.silent {
            let reason = "the driver was still at it".into();
            let error = WriteError { doing: "set", path, reason };
            return Err(NicError { error, cause: NicCause::NoAnswer });
        }
        nic::set_vf(&self.root, &self.habits, interface, vf, attributes).map_err(|reason| {
            NicError { error: WriteError { doing: "set", path, reason }, cause: NicCause::Driver }
        })
    }
    fn set_eswitch(
        &mut self,
        pf: PciAddress,
        mode: EswitchMode,
        _limit_s: u32,
    ) -> Result<(), NicError> {
        let path = format!("the eswitch of {pf} to {mode}");
        self.step("set", &path).map_err(killed)?;
        nic::set_eswitch(&self.root, pf, mode).map_err(|reason| NicError {
            error: WriteError { doing: "set", path, reason },
            cause: NicCause::Driver,
        })
    }
    fn runs_tools(&self) -> bool {
        true
    }
    fn run_tool(&mut self, argv: &[String], _limit_s: u32) -> ToolOutput {
        match self.fuse.step(&format!("run {}", argv.join(" "))) {
            Ok(()) => self.tools.run(&self.root, &self.fuse, argv),
            Err(error) => {
                ToolOutput { end: ToolEnd::NotStarted(error.to_string()), output: String::new() }
            }
        }
    }
}
