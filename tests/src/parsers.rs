//! All parsers of foreign bytes, by name, with the properties that must hold for any input. One list for the tests that
//! run with every change (`tests/suites/foreign_bytes.rs`) and for the fuzzer (`fuzz/`): a line here is a target there.

use std::sync::LazyLock;

use bedplate::report::nccl_perf;
use bedplate::report::topology::{self, Options, TopologyView};
use bedplate_base::Arch;
use bedplate_cmdline::boot::bls::{self, BlsEntry};
use bedplate_cmdline::boot::grub_files::GrubFiles;
use bedplate_cmdline::boot::grubenv::Grubenv;
use bedplate_cmdline::boot::{grub_cfg, grub_default, grub_quote, kernel_cmdline, uki};
use bedplate_cmdline::{CommandLine, Edit, KernelDefaults, Token};
use bedplate_core::kind;
use bedplate_core::kind::cmdline::diagnosis::{BootObservation, cause};
use bedplate_core::ledger::Ledger;
use bedplate_core::profile::{LayerText, load, shipped};
use bedplate_core::reboot_hold::Hold;
use bedplate_core::restore_policy;
use bedplate_daemon::reboot::fleetlock;
use bedplate_daemon::{events, interface_monitor};
use bedplate_facts::names::Names;
use bedplate_facts::placement::{self, Placement};
use bedplate_facts::{Depth, Facts, observe, vpd};
use bedplate_host::snapshot::{Node, Snapshot};
use bedplate_nccl::topology_file as import;
use bedplate_testhosts as demo;

use crate::whole_host::{base, everything, loaded};

/// A parser that panics if a property is violated.
pub type Parser = fn(&[u8]);

/// All parsers. `tests/data/corpus/NAME/` has seed inputs.
pub const PARSERS: &[(&str, Parser)] = &[
    ("bls", bls),
    ("cmdline", cmdline),
    ("config-space", config_space),
    ("cufile", |bytes| managed("/etc/cufile.json", bytes)),
    ("fleetlock", fleetlock),
    ("grub-cfg", grub_cfg),
    ("grub-default", grub_default),
    ("grub-drop-in", |bytes| _ = grub_default::parse_drop_in(&text(bytes), "GRUB_CMDLINE_LINUX")),
    ("grub-words", grub_words),
    ("grubenv", grubenv),
    ("hold", |bytes| _ = Hold::parse(bytes)),
    ("kernel-cmdline", kernel_cmdline),
    ("kernel-config", |bytes| _ = KernelDefaults::parse(&text(bytes))),
    ("kernel-log", kernel_log),
    ("ledger", ledger),
    ("link-events", |bytes| _ = interface_monitor::changed_links(bytes)),
    ("mdev", |bytes| with_file("/sys/bus/mdev/devices/x/mdev_type/name", bytes)),
    ("modprobe", |bytes| with_file("/etc/modprobe.d/site.conf", bytes)),
    ("modules-load", |bytes| with_file("/etc/modules-load.d/site.conf", bytes)),
    ("nccl-conf", |bytes| managed("/etc/nccl.conf", bytes)),
    ("nccl-job", nccl_job),
    ("nccl-log", nccl_log),
    ("nccl-perf", benchmark),
    ("nccl-topology", topology_file),
    ("netlink", bedplate_host::any_answer),
    ("os-release", |bytes| with_file("/etc/os-release", bytes)),
    ("profile", profile),
    ("restored", restored),
    ("smi-topology", topology_file),
    ("snapshot", snapshot),
    ("sysctl", |bytes| with_file("/etc/sysctl.d/site.conf", bytes)),
    ("sysfs", sysfs),
    ("uevent", |bytes| _ = events::relevant(bytes)),
    ("uki", |bytes| _ = (uki::cmdline(bytes), uki::release(bytes))),
    ("vpd", |bytes| _ = vpd::parse(bytes)),
];

/// Parser with this name.
pub fn named(name: &str) -> Option<Parser> {
    PARSERS.iter().find(|(own, _)| *own == name).map(|(_, parser)| *parser)
}

/// Decodes bytes as files are read: bytes that are not UTF-8 are preserved.
fn text(bytes: &[u8]) -> String {
    bedplate_base::lossless_text::decode(bytes)
}

fn bls(bytes: &[u8]) {
    let text = text(bytes);
    let entry = BlsEntry::parse("one.conf", &text);
    assert_eq!(entry.text(), text, "what was read is written again");
    let _ = (entry.title(), entry.version(), entry.linux(), entry.options());
    let _ = (entry.grub_variables(), entry.systemd_cmdline());
    let _ = entry.grub_cmdline(&|_| Some("ro quiet".to_owned()));
    let _ = entry.grub_cmdline(&|_| None);
    let entries = [entry, BlsEntry::parse("two.conf", &text)];
    let _ = (bls::grub_order(&entries), bls::systemd_order(&entries));
    let _ = bls::systemd_default(&entries, &[&text]);
    let _ = entries[0].edited(&edit(), &|_| None);
    let _ = entries[0].edited(&edit(), &|_| Some(text.clone()));
}

/// A valid ledger only names files of resource types, and no arbitrary program.
fn ledger(bytes: &[u8]) {
    let Ok(ledger) = Ledger::parse(bytes, "ledger.json") else { return };
    if kind::outside_write_scope(&ledger).is_some() {
        return;
    }
    for path in ledger.files.keys().chain(&ledger.directories) {
        assert!(kind::is_own_word(path), "{path}");
    }
    assert!(!ledger.attributes.contains_key("/proc/sys/kernel/core_pattern"));
    for tool in &ledger.owed {
        assert_ne!(tool.argv.first().map(String::as_str), Some("sh"), "{:?}", tool.argv);
    }
}

/// Content restored from the ledger must not contain commands, regardless of its author.
fn restored(bytes: &[u8]) {
    let text = text(bytes);
    // Line continuations are tested elsewhere.
    let begins = |word: &str| {
        !text.contains("\\\n")
            && text.lines().any(|line| line.split_whitespace().next() == Some(word))
    };
    if restore_policy::refusal("/etc/modprobe.d/zz-bedplate.conf", bytes, None).is_none() {
        assert!(!begins("install") && !begins("remove"), "{text}");
    }
    if restore_policy::refusal("/etc/sysctl.d/zz-bedplate.conf", bytes, None).is_none() {
        assert!(!begins("kernel.core_pattern") && !begins("kernel.modprobe"), "{text}");
    }
    // Content may replace itself.
    for path in ["/etc/modprobe.d/x.conf", "/etc/sysctl.d/x.conf", "/etc/default/grub"] {
        assert_eq!(restore_policy::refusal(path, bytes, Some(bytes)), None, "{path}: {text}");
    }
}

fn edit() -> Edit {
    let set = ["iommu=pt", "pci=realloc"].map(Token::from_static);
    let edit =
        Edit::new(Arch::X86_64, set).and_then(|edit| edit.without([Token::from_static("quiet")]));
    edit.expect("arguments")
}

fn cmdline(bytes: &[u8]) {
    let text = text(bytes);
    let line = CommandLine::parse(&text);
    assert_eq!(line.to_string(), text, "what was read is written again");
    let _ = (
        line.check(),
        line.init_arguments(),
        edit().satisfied_by(&line, &KernelDefaults::default()),
    );
    if let Ok(edited) = edit().apply(&line) {
        let again = edit().apply(&edited).expect("it was applied before");
        assert_eq!(again.to_string(), edited.to_string(), "the second time there is nothing to do");
    }
}

fn nccl_log(bytes: &[u8]) {
    let mut reader = bedplate_nccl::log::Reader::default();
    reader.feed(bytes);
    reader.end_file();
    let _ = bedplate_nccl::log::verdict::judge(&reader.finish());
}

/// The verdict on a job is good only if each of its parts is.
fn nccl_job(bytes: &[u8]) {
    use bedplate_nccl::job::FileReport;
    use bedplate_nccl::perf::judge::{Assumptions, Verdict, judge};
    let mut reader = bedplate_nccl::log::Reader::default();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    reader.feed(first);
    reader.end_file();
    reader.feed(second);
    let mut log = reader.finish();
    let judged = bedplate_nccl::log::verdict::judge(&log);
    let links = bedplate_nccl::job::links_of_log(&log, &judged);
    let results = std::mem::take(&mut log.results).into_iter().enumerate();
    let given = Assumptions::default();
    let reports: Vec<_> = results
        .filter(|(_, results)| !results.is_empty())
        .map(|(file, results)| FileReport { file, report: judge(results, &links, &given) })
        .collect();
    let job = bedplate_nccl::job::evaluate(&log, &judged, &reports);
    if job.verdict == Verdict::Good {
        let parts = job.jobs.iter().flat_map(|job| [job.path.verdict, job.completeness.verdict]);
        let parts = parts.chain([job.end.verdict]).chain(job.nodes.iter().map(|node| node.verdict));
        assert!(
            parts.chain(job.results.map(|part| part.verdict)).all(|part| part == Verdict::Good)
        );
    }
}

fn kernel_cmdline(bytes: &[u8]) {
    for reader in [bls::Reader::Grub, bls::Reader::SystemdBoot] {
        let _ = kernel_cmdline::cmdline(&text(bytes), reader);
        let _ = kernel_cmdline::edited(&text(bytes), reader, &edit());
    }
}

fn grub_default(bytes: &[u8]) {
    let text = text(bytes);
    let default = grub_default::parse(&text);
    assert_eq!(default.text(), text, "what was read is written again");
    for variable in ["GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX", "GRUB_DEFAULT"] {
        let _ = grub_default::evaluate(&[&default, &default], variable);
        let _ = default.value(variable, Some("ro"));
    }
}

fn grub_cfg(bytes: &[u8]) {
    let text = text(bytes);
    let _ = grub_cfg::entries(&text, &GrubFiles::default());
    let entry = [BlsEntry::parse("one.conf", "title One\nlinux /vmlinuz\noptions ro\n")];
    // The same text as a second file, as far as it sources that.
    let texts = [("custom.cfg".to_owned(), text.clone())];
    let around =
        GrubFiles { files: &["custom.cfg"], texts: &texts, bls: &entry, ..GrubFiles::default() };
    let _ = grub_cfg::default_entry(&text, &around);
}

fn grub_words(bytes: &[u8]) {
    let text = text(bytes);
    let _ = (grub_quote::split(&text), grub_quote::kernel_line(&text));
    let _ = grub_quote::edit_text(&text, &edit());
}

fn grubenv(bytes: &[u8]) {
    if let Ok(block) = Grubenv::parse(&text(bytes)) {
        assert_eq!(Grubenv::parse(&block.render()), Ok(block), "what is written is read again");
    }
}

/// An imported topology, compared with a host.
fn topology_file(bytes: &[u8]) {
    static HOST: LazyLock<(Facts, Placement)> = LazyLock::new(|| {
        let host = demo::snapshot("grace").expect("a demo");
        let facts = observe(&host, Depth::Thorough);
        let placement = placement::observe(&host, facts.pci.known().expect("a tree"));
        (facts, placement)
    });
    let (facts, placement) = &*HOST;
    let Ok(imported) = import::parse(&String::from_utf8_lossy(bytes)) else { return };
    let names = Names::none(facts);
    let tree = facts.pci.known().expect("a tree");
    let shown = TopologyView::new(facts, tree, placement, &names, Options::default());
    let (text, _) = topology::imported(&shown, &imported, "file", 80);
    assert!(text.len() < 65_536, "{} bytes", text.len());
}

/// The first byte selects the status, the second the content type.
fn fleetlock(bytes: &[u8]) {
    let [status, kind, body @ ..] = bytes else { return };
    let status = 200 + u16::from(*status) * 2;
    let kinds = ["application/json", "text/plain", "text/html", ""];
    let said = fleetlock::understood(status, kinds[usize::from(*kind) % kinds.len()], body);
    if let Err(error) = said {
        let shown = error.to_string();
        assert!(!shown.contains(|c: char| c.is_control()), "{shown:?} steers a terminal");
        assert!(shown.len() < 8192, "{} bytes", shown.len());
    }
}

fn kernel_log(bytes: &[u8]) {
    let line = CommandLine::parse("iommu=pt pci=realloc");
    let text = String::from_utf8_lossy(bytes);
    let seen =
        BootObservation { running: Some(&line), log: Some(&text), ..BootObservation::default() };
    cause(&seen, &edit(), &[]).describe();
    for line in text.lines() {
        let kept = bedplate_facts::kernel_log::redacted_line(line).unwrap_or_default();
        assert!(kept.len() <= line.len() + 64, "{kept} is longer than {line}");
    }
    let mut recogniser = bedplate_core::doctor::Recogniser::default();
    recogniser.feed(bytes);
    recogniser.finish();
}

fn profile(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(errors) = load(&[LayerText { path: "profile.toml", text: &text }], shipped()) {
        let _ = errors.to_string();
    }
}

fn snapshot(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(host) = Snapshot::from_text(&text) {
        let written = host.to_text();
        let again = Snapshot::from_text(&written).expect("it was just written");
        assert_eq!(again.to_text(), written, "what is written is read again");
        everything(&host, &loaded(0));
    }
}

/// A host with one extra file, planned for two boot loaders.
fn with_file(path: &str, bytes: &[u8]) {
    let mut host = base(chosen(bytes, 2));
    host.insert(path, Node::File(bytes.to_vec()));
    everything(&host, &loaded(0));
}

/// A file that the profile manages partly.
fn managed(path: &str, bytes: &[u8]) {
    let text = "schema = 1\nname = \"x\"\n[nccl]\nset = { NCCL_DEBUG = \"WARN\" }\n[cufile]\n\
        set = { \"properties.allow_compat_mode\" = false, \"execution.max_io_threads\" = 8 }\n";
    let layer = LayerText { path: "profile.toml", text };
    let loaded = load(&[layer], shipped()).expect("a profile");
    let mut host = base(0);
    host.insert(path, Node::File(bytes.to_vec()));
    everything(&host, &loaded);
}

/// Index below `of`, derived from the bytes.
fn chosen(bytes: &[u8], of: usize) -> usize {
    bytes.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)))
        % of
}

/// Replaces one attribute of one device by the bytes.
fn sysfs(bytes: &[u8]) {
    let mut host = base(0);
    let is_attribute =
        |(path, node): &(&str, &Node)| path.starts_with("/sys/") && matches!(node, Node::File(_));
    let attributes: Vec<String> =
        host.nodes().filter(is_attribute).map(|(path, _)| path.to_owned()).collect();
    host.insert(&attributes[chosen(bytes, attributes.len())], Node::File(bytes.to_vec()));
    observe(&host, Depth::Thorough);
}

/// Replaces the config space of one function by the bytes.
fn config_space(bytes: &[u8]) {
    let mut host = base(0);
    let is_config = |(_, node): &(&str, &Node)| matches!(node, Node::Config(_));
    let configs: Vec<String> =
        host.nodes().filter(is_config).map(|(path, _)| path.to_owned()).collect();
    if let Some(Node::Config(config)) = host.node_mut(&configs[chosen(bytes, configs.len())]) {
        config.blocks = [(0, bytes.iter().copied().take(4096).collect())].into();
        (config.length, config.rest_is_zero) = (4096, true);
    }
    observe(&host, Depth::Thorough);
}

/// Benchmark results, which are also evaluated and drawn.
fn benchmark(bytes: &[u8]) {
    use bedplate_nccl::perf::hosts::{Host, judge};
    use bedplate_nccl::perf::judge::{Assumptions, Links};
    use bedplate_nccl::perf::limit::{Nic, Port};
    use bedplate_nccl::perf::ranks::{Options, complete};
    let port = Port { name: "mlx5_0/1".to_owned(), rate: Some(400.0), ethernet: false };
    let nics = vec![Nic { ports: vec![port], pcie: None }];
    let links = Links { chosen: nics.clone(), all: nics, ..Links::default() };
    let host = |name: &str, links| Host { name: name.to_owned(), links, ..Host::default() };
    let hosts = [host("a", links), host("b", Links::default())];
    let mut results = bedplate_nccl::perf::read(&text(bytes));
    let options = Options { per_host: Some(1), ..Options::default() };
    let _ = complete(&mut results, &options);
    let report = judge(results, &hosts, &Assumptions::default());
    let shown = nccl_perf::text(&report, "result.txt", 100, true);
    assert!(shown.contains("result.txt"));
    assert!(nccl_perf::svg(&report, "result.txt").starts_with("<svg"));
}
