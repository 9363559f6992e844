//! Host → facts → profile → plan: the only module that combines them.

use std::borrow::Cow;

use super::lints::{LintVerdict, stop_for};
use super::omitted_kinds::{leave_out, note_owed};
use super::profile_source::{self, Choice, ChosenProfile, OwnerCheck};
use super::{EngineError, Outcome, assume_cpu, observe, plan};
use crate::desired::Desired;
use crate::kind;
use crate::ledger::{self, Ledger, LedgerError, PendingTool};
use crate::orphans;
use crate::plan::allowed_lints::AllowedLint;
use crate::plan::{Change, KindId, Note, Plan, SettledTool, Unknown};
use crate::profile::LoadedProfile;
use bedplate_base::{CpuVendor, ReadError, Reading};
use bedplate_facts::{Depth, Facts};
use bedplate_host::{HostKind, Reader, fat_backup};

/// Input of planning.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Profile to use.
    pub choice: Choice<'a>,
    /// CPU vendor to assume if the host's is not known.
    pub cpu: Option<CpuVendor>,
    /// Whether to keep only changes that act on the running machine and need no boot.
    pub live_only: bool,
    /// Error-level lints to allow, in addition to those that the profile allows.
    pub allowed: &'a [AllowedLint],
    /// Whether a ledger that only root may read is an error: applying needs the ledger, a dry run needs no privileges.
    pub needs_ledger: bool,
    /// Options for image roots.
    pub image: ImageRequest<'a>,
}

/// Options for image roots.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImageRequest<'a> {
    /// Resource types that the image build handles: the plan omits them.
    pub without: &'a [KindId],
    /// Pending tools that have run, each by its command or by the name of its program.
    pub ran: &'a [String],
}

impl ImageRequest<'_> {
    /// No options.
    pub const NONE: Self = ImageRequest { without: &[], ran: &[] };
}

impl<'a> Request<'a> {
    /// Returns the request for a dry run with this profile, on the host as it is.
    pub const fn dry_run(choice: Choice<'a>) -> Self {
        Request {
            choice,
            cpu: None,
            live_only: false,
            allowed: &[],
            needs_ledger: false,
            image: ImageRequest::NONE,
        }
    }

    /// Returns the required ownership of the profile: to apply, only the caller or root may be able to write it; a dry run
    /// may read any.
    fn owner_check(&self) -> OwnerCheck {
        if self.needs_ledger { OwnerCheck::Require } else { OwnerCheck::Skip }
    }
}

/// A plan, with its inputs.
#[derive(Debug)]
pub struct PreparedPlan {
    /// Facts about the host.
    pub facts: Facts,
    /// The profile.
    pub loaded: LoadedProfile,
    /// Files of the host that the profile was read from.
    pub profile_files: Vec<String>,
    /// Desired state of this host.
    pub desired: Desired,
    /// Record of bedplate's earlier changes.
    pub ledger: Ledger,
    /// Changes from the present to the desired state.
    pub plan: Plan,
    /// Lints that block the plan, each with its location.
    pub stopping: Vec<String>,
    /// Resource types that the image build handles.
    pub without: Vec<KindId>,
}

impl PreparedPlan {
    /// Checks that the profile may be applied at all.
    ///
    /// # Errors
    /// [`EngineError::Lints`].
    pub fn may_be_applied(&self) -> Result<(), EngineError> {
        stop_for(&self.stopping)
    }
}

/// Chooses the profile for a host with these facts. Sets an unknown CPU vendor in `facts` to the one that the request
/// or the profile names.
///
/// # Errors
/// [`EngineError::Profile`], [`EngineError::NoProfile`].
pub fn choose(
    reader: &dyn Reader,
    facts: &mut Facts,
    request: &Request<'_>,
) -> Result<ChosenProfile, EngineError> {
    if let Some(vendor) = request.cpu {
        facts.cpu.vendor = Reading::Known(vendor);
    }
    let chosen = profile_source::choose(request.choice, request.owner_check(), reader, facts)?;
    let chosen = chosen.ok_or(EngineError::NoProfile)?;
    assume_cpu(facts, &chosen.loaded.profile);
    Ok(chosen)
}

/// Observes the host, chooses the profile and plans.
///
/// # Errors
/// [`EngineError`].
pub fn prepare(reader: &dyn Reader, request: &Request<'_>) -> Result<PreparedPlan, EngineError> {
    prepare_at(reader, request, Depth::Plan)
}

/// Like `prepare`, from facts of this depth; the plan is the same from [`Depth::Plan`] on.
///
/// # Errors
/// [`EngineError`].
pub fn prepare_at(
    reader: &dyn Reader,
    request: &Request<'_>,
    depth: Depth,
) -> Result<PreparedPlan, EngineError> {
    let mut facts = observe(reader, depth);
    let chosen = choose(reader, &mut facts, request)?;
    planned(reader, facts, chosen, request)
}

/// Like `prepare`, with a profile that is already loaded.
///
/// # Errors
/// [`EngineError::Ledger`].
pub fn prepare_loaded(
    reader: &dyn Reader,
    loaded: LoadedProfile,
) -> Result<PreparedPlan, EngineError> {
    let mut facts = observe(reader, Depth::Plan);
    assume_cpu(&mut facts, &loaded.profile);
    let chosen = ChosenProfile { loaded, files: Vec::new() };
    let request = Request { needs_ledger: true, ..Request::dry_run(Choice::HostOnly) };
    planned(reader, facts, chosen, &request)
}

/// Plans for a profile that was chosen with these facts.
///
/// # Errors
/// [`EngineError::Ledger`].
pub(super) fn planned(
    reader: &dyn Reader,
    facts: Facts,
    chosen: ChosenProfile,
    request: &Request<'_>,
) -> Result<PreparedPlan, EngineError> {
    let (ledger, unknown) = ledger(reader, request.needs_ledger)?;
    let ChosenProfile { loaded, files } = chosen;
    // Without the ledger, every file of bedplate's own would look like an orphan.
    let orphans = match unknown {
        None => orphans::orphans(reader, &ledger, &|| &facts),
        Some(_) => Vec::new(),
    };
    let mut as_paid = Cow::Borrowed(&ledger);
    // It is not known whether the tools that read rendered files in an image have run since.
    for orphan in orphans.iter().filter(|_| facts.host == HostKind::Image) {
        if let Ok(Some(tool)) = &orphan.reader {
            as_paid.to_mut().owe(PendingTool::new(orphan.kind, &tool.argv, &tool.purpose));
        }
    }
    let (paid, not_owed) = mark_tools_run(&as_paid, request.image.ran)?;
    for tool in &paid {
        as_paid.to_mut().remove_pending_tool(tool.kind, &tool.argv);
    }
    let Outcome { mut plan, desired } = plan(&loaded.profile, &facts, reader, &as_paid);
    plan.body.settled_tools.extend(paid);
    plan.body.notes.extend(orphans.iter().map(orphans::note));
    plan.body.orphans = orphans;
    plan.body.unknowns.extend(unknown);
    plan.body.notes.extend(put_back_first(reader, &ledger));
    let judged = LintVerdict::new(&loaded, request.allowed);
    let stopping = judged.stopping();
    judged.report(&mut plan.body);
    if request.live_only {
        plan.body.changes.retain(Change::is_live);
    }
    leave_out(&mut plan.body, request.image.without);
    plan.body.notes.extend(not_owed);
    note_owed(&mut plan.body, &ledger, facts.host);
    let without = request.image.without.to_vec();
    Ok(PreparedPlan {
        facts,
        loaded,
        profile_files: files,
        desired,
        ledger,
        plan,
        stopping,
        without,
    })
}

/// Returns the pending tools named by `--ran`, and notes about tools that are not pending now. The host's own files
/// take precedence: a boot menu without the arguments is still planned for.
///
/// # Errors
/// [`EngineError::NotOwed`].
pub(super) fn mark_tools_run(
    ledger: &Ledger,
    named: &[String],
) -> Result<(Vec<SettledTool>, Vec<Note>), EngineError> {
    let (mut paid, mut notes) = (Vec::new(), Vec::new());
    for tool in named {
        let is_named = |argv: &[String]| {
            let program = argv.first().and_then(|path| path.rsplit('/').next());
            argv.join(" ") == *tool || program == Some(tool)
        };
        let owed = ledger.owed.iter().filter(|owed| is_named(&owed.argv));
        let of_kind =
            owed.map(|owed| SettledTool { kind: owed.kind, argv: owed.argv.clone(), after: None });
        let before = paid.len();
        paid.extend(of_kind);
        if paid.len() > before {
            continue;
        }
        let Some(kind) = kind::kind_of_tool(tool) else {
            let owed = ledger.owed.iter().map(|owed| owed.argv.join(" ")).collect();
            return Err(EngineError::NotOwed { tool: tool.clone(), owed });
        };
        notes.push(kind.note(tool.clone(), "not pending"));
    }
    Ok((paid, notes))
}

/// Returns notes about files that `apply` restores before it plans: a plan made before that, with an empty boot entry,
/// will change.
fn put_back_first(reader: &dyn Reader, ledger: &Ledger) -> Vec<Note> {
    let is_gone = |path: &str| match reader.read(path) {
        Ok(bytes) => bytes.is_empty(),
        Err(error) => error.is_absent(),
    };
    let note = |path: &str| {
        let copy = fat_backup::path(path);
        let record = ledger.files.get(path)?;
        let kind = record.kind;
        let text = format!(
            "lost to a power cut during its replacement; `apply` and `revert` first restore it from {copy}, then plan \
             again"
        );
        let is_there = reader.exists(&copy) == Ok(true);
        (is_there && is_gone(path)).then(|| kind.note(path.to_owned(), text))
    };
    ledger.unfinished().filter_map(note).collect()
}

/// Loads the host's ledger, and rejects one with actions outside the resource types' write scope.
///
/// # Errors
/// [`LedgerError`].
pub(super) fn trusted(reader: &dyn Reader) -> Result<Ledger, LedgerError> {
    let ledger = Ledger::load(reader)?;
    match kind::outside_write_scope(&ledger) {
        Some(what) => Err(LedgerError::Foreign { path: reader.display_path(ledger::LEDGER), what }),
        None => Ok(ledger),
    }
}

/// Loads the ledger. If only a plan is needed, a ledger that is root-only or writable by other users counts as unknown,
/// not as an error.
fn ledger(reader: &dyn Reader, needed: bool) -> Result<(Ledger, Option<Unknown>), LedgerError> {
    match trusted(reader) {
        Err(LedgerError::Unreadable(
            error @ (ReadError::Denied { .. } | ReadError::Untrusted { .. }),
        )) if !needed => {
            let subject = "bedplate's record of its changes".to_owned();
            let unknown = KindId::Host.unknown(subject, error.to_string());
            Ok((Ledger::default(), Some(unknown)))
        }
        loaded => loaded.map(|ledger| (ledger, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::snapshot::{Node, Snapshot};
    use bedplate_testhosts as demo;

    /// The daemon plans from the facts that the checks need; `bedplate plan` reads fewer.
    #[test]
    fn plan_is_the_same_from_thorough_facts() {
        let choice = Choice::HostOrShipped;
        let request = Request::dry_run(choice);
        for name in demo::names() {
            let host = demo::snapshot(name).unwrap();
            let plan = |depth| prepare_at(&host, &request, depth).unwrap().plan;
            assert_eq!(plan(Depth::Plan), plan(Depth::Thorough), "{name}");
        }
    }

    /// The unrecorded file is empty for an unknown reason; the file with content was replaced in full.
    #[test]
    fn plan_names_files_restored_first() {
        let mut host = Snapshot::new(false);
        let record = r#"{"kind":"cmdline","original":{"state":"absent"},"ours":[],
            "unfinished":{"change":"cmdline/x","before":{"state":"absent"}}}"#;
        let ledger = format!(
            r#"{{"version":2,"owed":[],"owned":{{}},"files":{{"/e/empty.conf":{record},"/e/whole.conf":{record}}}}}"#
        );
        for (name, text) in [("empty", ""), ("whole", "title New\n"), ("foreign", "")] {
            host.insert(&format!("/e/{name}.conf"), Node::File(text.into()));
            host.insert(&format!("/e/.{name}.conf.bedplate-old"), Node::File("title Old\n".into()));
        }
        let ledger = Ledger::parse(ledger.as_bytes(), "ledger.json").unwrap();
        let notes = put_back_first(&host, &ledger);
        let named: Vec<&str> = notes.iter().map(|note| note.subject.as_str()).collect();
        assert_eq!(named, ["/e/empty.conf"]);
        assert!(notes[0].text.contains("/e/.empty.conf.bedplate-old"), "{}", notes[0].text);
    }
}
