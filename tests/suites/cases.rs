//! Each directory in `tests/data/cases` is a case: a host, described (`host.toml`, see `bedplate_testhosts`) or recorded
//! (`host.bp`), a profile (`profile.toml`, or the name of a shipped profile in `profile`), optionally a `ledger.json`, and
//! the expected output of `bedplate plan`: `plan.txt` and `plan.diff`, or `error.txt`.
//!
//! `BLESS=1 cargo test -p bedplate-tests --test cases` rewrites the expected files.
//!
//! `tests/data/profiles` has a directory for each shipped profile, with fake hosts for which that profile is the best.

use std::path::Path;

use bedplate::report::{diff, style, text};
use bedplate_core::documents as json;
use bedplate_core::engine::profile_source::{best_shipped, listed};
use bedplate_core::engine::{self, PreparedPlan};
use bedplate_core::kind;
use bedplate_core::ledger::{Author, FileState, Ledger, PendingTool, UndoTool};
use bedplate_core::plan::{Action, Blocker, IommuPlan, Plan, ToolUndo};
use bedplate_core::profile::{LayerText, LoadedProfile, load, render_all, shipped};
use bedplate_core::setting::{SettingChange as _, WriteAttribute};
use bedplate_facts::{Depth, Facts, observe};
use bedplate_host::Reader;
use bedplate_host::snapshot::Snapshot;
use bedplate_testhosts::HostSpec;
use bedplate_tests::expected;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let directories = bedplate_tests::case::directories("cases");
    assert!(directories.len() >= 60, "tests/data/cases has only {} cases", directories.len());
    let cases = directories
        .into_iter()
        .map(|(name, directory)| Trial::test(name, move || case(&directory).map_err(Failed::from)));
    let with_hosts = bedplate_tests::case::directories("profiles").into_iter();
    for (name, _) in with_hosts {
        assert!(
            shipped().iter().any(|shipped| shipped.name == name),
            "tests/data/profiles/{name} has no profile"
        );
    }
    // `vfio` is the best profile for no host; operators select it by name.
    let profiles = shipped().iter().filter(|shipped| shipped.name != "vfio").map(|shipped| {
        let best = move || is_best_for_its_hosts(shipped.name).map_err(Failed::from);
        Trial::test(format!("profile-{}", shipped.name), best)
    });
    libtest_mimic::run(&arguments, cases.chain(profiles).collect()).exit();
}

/// Checks that a shipped profile is the best for its own hosts, and that no other profile fits them except a more general
/// one.
fn is_best_for_its_hosts(name: &str) -> Result<(), String> {
    let directory = bedplate_tests::data("profiles").join(name);
    let hosts = std::fs::read_dir(&directory)
        .map_err(|error| format!("{}, with hosts for it: {error}", directory.display()))?;
    // The generic profile of the CPU, and Grace's, which lacks Data Direct.
    let may_fit_too =
        |other: &str| other.starts_with("generic-") || (name, other) == ("gb300", "grace");
    let mut seen = 0;
    for host in hosts {
        let path = host.map_err(|error| error.to_string())?.path();
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let spec = HostSpec::from_toml(&text).map_err(|error| error.to_string())?;
        let facts = observe(&spec.build(), Depth::Plan);
        let best = best_shipped(&facts).map_err(|error| error.to_string())?;
        if best != name {
            return Err(format!("{best} is better for {}", path.display()));
        }
        for other in listed(&facts) {
            let fits = other.judged.fails.is_empty();
            if other.best != (other.name == name)
                || (fits && !other.best && !may_fit_too(other.name))
            {
                return Err(format!("{} fits {}: {:?}", other.name, path.display(), other.judged));
            }
        }
        seen += 1;
    }
    if seen == 0 { Err(format!("no host in {}", directory.display())) } else { Ok(()) }
}

fn read(directory: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(directory.join(name)).ok()
}

fn case(directory: &Path) -> Result<(), String> {
    let host = bedplate_tests::case::host(directory)?;
    let loaded = match profile(directory)? {
        Ok(loaded) => loaded,
        Err(rendered) => {
            expect_absent(directory, &["plan.txt", "plan.diff"])?;
            return expect(directory, "error.txt", &rendered);
        }
    };
    let PreparedPlan { plan, facts, .. } = planned(&loaded, &host)?;
    invariants(&loaded, &host, &plan, &facts)?;
    let label = facts.label();
    let mut shown = plain(&text::plan(&plan, &label, text::Detail { verbose: true, only: &[] }));
    if !loaded.lints.is_empty() {
        shown = format!("{}\n{shown}", render_all(&loaded.lints, false).trim_end());
    }
    expect_absent(directory, &["error.txt"])?;
    expect(directory, "plan.txt", &shown)?;
    expect(directory, "plan.diff", &plain(&diff::plan(&plan, &[])))
}

/// Returns the merged profile, or its diagnostics.
fn profile(directory: &Path) -> Result<Result<LoadedProfile, String>, String> {
    let layers: Vec<(String, String)> = match read(directory, "profile") {
        Some(name) => {
            let name = name.trim();
            let found = shipped().iter().find(|shipped| shipped.name == name);
            let found = found.ok_or_else(|| format!("no shipped profile is called {name}"))?;
            vec![(found.path(), found.text.to_owned())]
        }
        None => vec![(
            "profile.toml".into(),
            read(directory, "profile.toml").ok_or("there is no profile")?,
        )],
    };
    let over = read(directory, "layer.toml").map(|text| ("layer.toml".to_owned(), text));
    let layers: Vec<(String, String)> = layers.into_iter().chain(over).collect();
    let texts: Vec<LayerText> =
        layers.iter().map(|(path, text)| LayerText { path, text }).collect();
    Ok(load(&texts, shipped()).map_err(|errors| errors.render(false)))
}

fn planned(loaded: &LoadedProfile, host: &dyn Reader) -> Result<PreparedPlan, String> {
    engine::prepare_loaded(host, loaded.clone()).map_err(|error| error.to_string())
}

/// Checks the properties that hold for every plan.
fn invariants(
    loaded: &LoadedProfile,
    host: &Snapshot,
    plan: &Plan,
    facts: &Facts,
) -> Result<(), String> {
    if planned(loaded, host)?.plan != *plan {
        return Err("the same host gave another plan".into());
    }
    let label = facts.label();
    let document = json::plan(plan, &label).map_err(|error| error.to_string())?;
    let value = serde_json::from_str(&document).map_err(|error| error.to_string())?;
    if let Some(error) = validator().iter_errors(&value).next() {
        return Err(format!("plan --json breaks its schema at {}: {error}", error.instance_path()));
    }
    let mut written = plan.clone();
    // `plan --json` does not contain the fields that only the ledger uses.
    written.body.pending_until_boot.clear();
    written.body.settled_tools.clear();
    written.body.orphans.clear();
    written.body.overridden.clear();
    written.body.iommu = IommuPlan::default();
    let read_back: Plan = serde_json::from_str(&document).map_err(|error| error.to_string())?;
    if read_back != written {
        return Err(format!("the plan that was read back differs: {read_back:#?}"));
    }
    let replayed = Snapshot::from_text(&host.to_text()).map_err(|error| error.to_string())?;
    let PreparedPlan { plan: again, facts, .. } = planned(loaded, &replayed)?;
    if json::plan(&again, &facts.label()).map_err(|error| error.to_string())? != document {
        return Err("the plan of the written and reread snapshot differs".into());
    }
    let mut ids: Vec<&str> = plan.body.changes.iter().map(|change| change.id.as_str()).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("two changes share an id: {ids:?}"));
    }
    if let Some(what) = kind::outside_write_scope(&ledger_of(plan)) {
        return Err(format!("a kind's row does not own what its change does: {what}"));
    }
    // The daemon masks possible secrets in messages. A masked fix could not be followed, so no fix may contain one.
    for Blocker { fix, .. } in &plan.body.blockers {
        let masked = bedplate_base::mask::mask_message(fix);
        if masked != *fix {
            return Err(format!("masking destroys a fix: {fix}\n{masked}"));
        }
    }
    match plan.body.changes.iter().find(|change| change.items.is_empty()) {
        Some(change) => Err(format!("change {} says nothing", change.id)),
        None => Ok(()),
    }
}

/// Returns the ledger that an interruption at the end of the plan would leave.
fn ledger_of(plan: &Plan) -> Ledger {
    let mut ledger = Ledger::default();
    for (change, action) in
        plan.body.changes.iter().flat_map(|change| change.actions.iter().map(move |a| (change, a)))
    {
        let (kind, author) = (change.kind, Author { kind: change.kind, change: &change.id });
        match action {
            Action::ReplaceFile { path, .. } => {
                ledger.begin_file(path, author, &FileState::Absent, None, &[]);
                let above = path.rsplit_once('/').map(|(above, _)| above.to_owned());
                ledger.directories.extend(above);
            }
            Action::RunTool { argv, purpose, touches, undo, limit_s } => {
                let (argv, purpose) = (argv.clone(), purpose.clone());
                // Unified kernel images are rebuilt, not saved.
                for path in touches.iter().filter(|path| !path.ends_with(".efi")) {
                    ledger.begin_tool_file(path, author, (&FileState::Absent, true), None);
                }
                if let ToolUndo::Run { argv } = undo {
                    let (kind, argv, purpose) = (kind, argv.clone(), purpose.clone());
                    ledger.begin_undo(UndoTool { kind, argv, purpose, limit_s: *limit_s });
                }
                ledger.owe(PendingTool { begun: true, ..PendingTool::new(kind, &argv, &purpose) });
            }
            Action::WriteAttribute(action) => {
                ledger.begin_setting(action, kind, "boot", &action.before);
            }
            Action::SetConfigBits(action) => {
                ledger.begin_setting(action, kind, "boot", &action.before());
            }
            Action::BindVfs { pf, limit_s, .. } => {
                let path = format!("/sys/bus/pci/devices/{pf}/driver_override");
                let (before, after) = (String::new(), "x".to_owned());
                let action = WriteAttribute { path, before, after, limit_s: *limit_s };
                ledger.begin_setting(&action, kind, "boot", &action.before);
            }
            Action::SetVf(action) => ledger.begin_setting(action, kind, "boot", &action.before),
            Action::SetEswitch(action) => {
                ledger.begin_setting(action, kind, "boot", &action.before);
            }
            Action::LoadModule { .. } | Action::UnloadModule { .. } | Action::Verify(_) => {}
        }
    }
    ledger
}

/// Compiled once: this is the slowest part of a case.
fn validator() -> &'static jsonschema::Validator {
    static VALIDATOR: std::sync::OnceLock<jsonschema::Validator> = std::sync::OnceLock::new();
    VALIDATOR.get_or_init(|| {
        let schema = serde_json::from_str(json::PLAN_SCHEMA).expect("a schema is JSON");
        jsonschema::validator_for(&schema).expect("it is a JSON Schema")
    })
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(&style::terminal(text)).to_string()
}

fn expect(directory: &Path, name: &str, actual: &str) -> Result<(), String> {
    expected::file(&directory.join(name), actual, "cases")
}

fn expect_absent(directory: &Path, names: &[&str]) -> Result<(), String> {
    for name in names {
        if expected::is_blessing() {
            let _ = std::fs::remove_file(directory.join(name));
        } else if directory.join(name).exists() {
            return Err(format!("{name} should not be there"));
        }
    }
    Ok(())
}
