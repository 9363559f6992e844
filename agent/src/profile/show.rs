//! The merged profile as TOML again: every value, defaults too, in one order. Reading it back gives the same profile.

use std::fmt::Write as _;

use serde::Serialize;

use super::finish::{DEFAULT_LOAD, key_of, quoted};
use super::layer::{Leaf, ParamLayer};
use super::load::Loaded;
use super::model::{Match, Profile, SriovCount, SriovRule, VfDriver};

/// The merged profile as TOML; with `with_origin`, each line says which file and line it comes from.
pub fn show(loaded: &Loaded, with_origin: bool) -> String {
    let profile = &loaded.profile;
    let mut out = Printer { loaded, with_origin, text: String::new() };
    out.line("schema = 1", None);
    out.scalar("name", "name", &profile.name);
    out.scalar("description", "description", &profile.description);
    out.matching(&profile.matching);
    out.section("iommu");
    out.scalar("mode", "iommu.mode", &profile.iommu.mode);
    out.reason(&loaded.layer.iommu);
    out.cmdline();
    out.modules(profile);
    out.section("acs");
    out.scalar("policy", "acs.policy", &profile.acs.policy);
    out.reason(&loaded.layer.acs.policy);
    out.scalar("persistence", "acs.persistence", &profile.acs.persistence);
    out.scalar("root_port", "acs.root_port", &profile.acs.root_port);
    out.section("sriov");
    out.scalar("managed", "sriov.managed", &profile.sriov.managed);
    profile.sriov.rules.iter().for_each(|rule| out.rule(rule));
    out.section("reboot");
    out.scalar("policy", "reboot.policy", &profile.reboot.policy);
    out.scalar("methods", "reboot.methods", &profile.reboot.methods);
    out.scalar("windows", "reboot.windows", &profile.reboot.windows);
    out.scalar("attempts", "reboot.attempts", &profile.reboot.attempts);
    out.scalar("delay", "reboot.delay", &format!("{}s", profile.reboot.delay_s));
    out.scalar("jitter", "reboot.jitter", &format!("{}s", profile.reboot.jitter_s));
    out.scalar(
        "inhibitor_wait",
        "reboot.inhibitor_wait",
        &format!("{}s", profile.reboot.inhibitor_wait_s),
    );
    out.scalar("busy_devices", "reboot.busy_devices", &profile.reboot.busy_devices);
    out.scalar("busy_command", "reboot.busy_command", &profile.reboot.busy_command);
    out.scalar("command", "reboot.command", &profile.reboot.command);
    out.scalar("rtc_wakes", "reboot.rtc_wakes", &profile.reboot.rtc_wakes);
    out.scalar("rehearse", "reboot.rehearse", &profile.reboot.rehearse);
    if let Some(lock) = &profile.reboot.fleetlock {
        out.section("reboot.fleetlock");
        out.scalar("url", "reboot.fleetlock.url", &lock.url);
        out.scalar("group", "reboot.fleetlock.group", &lock.group);
    }
    out.section("agent");
    out.scalar("mode", "agent.mode", &profile.agent.mode);
    out.scalar("interval", "agent.interval", &format!("{}s", profile.agent.interval_s));
    out.scalar("boot_timeout", "agent.boot_timeout", &format!("{}s", profile.agent.boot_timeout_s));
    out.scalar(
        "ready_timeout",
        "agent.ready_timeout",
        &format!("{}s", profile.agent.ready_timeout_s),
    );
    out.text
}

struct Printer<'a> {
    loaded: &'a Loaded,
    with_origin: bool,
    text: String,
}

impl Printer<'_> {
    fn line(&mut self, line: &str, key: Option<&str>) {
        self.text.push_str(line);
        if let Some(key) = key.filter(|_| self.with_origin) {
            match self.loaded.origins.get(key) {
                Some(origin) => _ = write!(self.text, "  # from {}:{}", origin.file, origin.line),
                None => self.text.push_str("  # default"),
            }
        }
        self.text.push('\n');
    }

    fn section(&mut self, name: &str) {
        let _ = write!(self.text, "\n[{name}]\n");
    }

    fn scalar<T: Serialize + ?Sized>(&mut self, name: &str, key: &str, value: &T) {
        self.line(&format!("{name} = {}", toml_text(value)), Some(key));
    }

    fn given<T: Serialize>(&mut self, name: &str, key: &str, value: Option<&T>) {
        if let Some(value) = value {
            self.scalar(name, key, value);
        }
    }

    /// `why` and `source` of a section's value, on lines of their own.
    fn reason<T>(&mut self, leaf: &Option<Leaf<T>>) {
        for (name, text) in leaf.iter().flat_map(reason_pairs) {
            self.line(&format!("{name} = {}", toml_text(text)), None);
        }
    }

    fn matching(&mut self, matching: &Match) {
        if *matching == Match::default() {
            return;
        }
        self.section("match");
        self.given("cpu_vendor", "match.cpu_vendor", matching.cpu_vendor.as_ref());
        self.given("arch", "match.arch", matching.arch.as_ref());
        self.given("sys_vendor", "match.sys_vendor", matching.sys_vendor.as_ref());
        self.given("product_name", "match.product_name", matching.product_name.as_ref());
        for pci in &matching.pci {
            let most = pci.at_most.map(|most| format!(", at_most = {most}")).unwrap_or_default();
            let entry =
                format!("  {{ id = {}, at_least = {}{most} }},", toml_text(&pci.ids), pci.at_least);
            self.open_list("pci", pci == &matching.pci[0]);
            self.line(&entry, Some("match.pci"));
        }
        self.close_list(!matching.pci.is_empty());
    }

    fn open_list(&mut self, name: &str, first: bool) {
        if first {
            let _ = writeln!(self.text, "{name} = [");
        }
    }

    fn close_list(&mut self, opened: bool) {
        if opened {
            self.text.push_str("]\n");
        }
    }

    /// A list whose entries are words, or tables when they have a reason.
    fn list(&mut self, name: &str, entries: Vec<Entry>) {
        if entries.is_empty() {
            return self.line(&format!("{name} = []"), None);
        }
        self.open_list(name, true);
        for entry in &entries {
            self.line(&format!("  {},", entry.text()), Some(&entry.origin));
        }
        self.close_list(true);
    }

    fn cmdline(&mut self) {
        self.section("cmdline");
        let params = || self.loaded.layer.cmdline.values();
        let args = params()
            .flat_map(ParamLayer::set)
            .map(|leaf| arg_entry("cmdline.args", leaf))
            .collect();
        let absent = params()
            .flat_map(ParamLayer::absent)
            .map(|leaf| arg_entry("cmdline.absent", leaf))
            .collect();
        self.list("args", args);
        self.list("absent", absent);
    }

    fn modules(&mut self, profile: &Profile) {
        let modules = &profile.modules;
        let layer = &self.loaded.layer.modules;
        self.section("modules");
        let default = layer.load_default.as_ref().map_or(DEFAULT_LOAD, |leaf| leaf.value);
        self.scalar("load_default", "modules.load_default", &default);
        self.scalar("gpudirect", "modules.gpudirect", &modules.gpudirect);
        let (mut load, mut blacklist, mut unload) = (Vec::new(), Vec::new(), Vec::new());
        for (name, module) in &layer.names.0 {
            if let Some(leaf) = &module.load
                && let Some(loading) = leaf.value
            {
                let mut entry = Entry::new("name", name, key_of("modules.load", name), leaf);
                entry.more.extend(loading.0.map(|when| ("load", toml_text(&when))));
                load.push(entry);
            }
            let lists = [
                ("modules.blacklist", &module.blacklist, &mut blacklist),
                ("modules.unload", &module.unload, &mut unload),
            ];
            for (list, leaf, entries) in lists {
                let Some(leaf) = leaf.as_ref().filter(|leaf| leaf.value) else { continue };
                entries.push(Entry::new("name", name, key_of(list, name), leaf));
            }
        }
        self.list("load", load);
        self.list("blacklist", blacklist);
        self.list("unload", unload);
        for ((module, parameter), leaf) in &layer.options.0 {
            let key = format!("modules.options.{module}.{}", quoted(parameter));
            let entry = Entry::new("value", &leaf.value, key.clone(), leaf);
            self.line(
                &format!("options.{module}.{} = {}", quoted(parameter), entry.text()),
                Some(&key),
            );
        }
    }

    fn rule(&mut self, rule: &SriovRule) {
        let key = key_of("sriov.devices", &rule.name);
        self.text.push_str("\n[[sriov.devices]]\n");
        self.scalar("name", &key, &rule.name);
        let select = &rule.select;
        let conditions: Vec<String> = [
            select.vendor.map(|id| format!("vendor = {}", toml_text(&id))),
            select.device.map(|id| format!("device = {}", toml_text(&id))),
            select.driver.as_ref().map(|driver| format!("driver = {}", toml_text(driver))),
            select.interface.as_ref().map(|name| format!("interface = {}", toml_text(name))),
            select.address.map(|address| format!("address = {}", toml_text(&address))),
            select.numa_node.map(|node| format!("numa_node = {node}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !conditions.is_empty() {
            self.line(&format!("select = {{ {} }}", conditions.join(", ")), None);
        }
        let vfs = match rule.vfs {
            SriovCount::Number(number) => number.to_string(),
            SriovCount::Max => toml_text("max"),
            SriovCount::PerGpu => toml_text("per-gpu"),
        };
        self.line(&format!("vfs = {vfs}"), None);
        let driver = match &rule.vf_driver {
            VfDriver::Auto => "auto",
            VfDriver::None => "none",
            VfDriver::Named(driver) => driver,
        };
        self.line(&format!("vf_driver = {}", toml_text(driver)), None);
        let layer = &self.loaded.layer.sriov.devices;
        self.reason(&layer.get(&rule.name).cloned());
    }
}

/// An entry of a list that is a word, or a table when there is more to say.
struct Entry {
    name: &'static str,
    word: String,
    origin: String,
    more: Vec<(&'static str, String)>,
}

impl Entry {
    fn new<T>(name: &'static str, word: &str, origin: String, leaf: &Leaf<T>) -> Self {
        let more = reason_pairs(leaf).map(|(name, text)| (name, toml_text(text))).collect();
        Entry { name, word: toml_text(word), origin, more }
    }

    fn text(&self) -> String {
        if self.more.is_empty() {
            return self.word.clone();
        }
        let more: String =
            self.more.iter().map(|(name, text)| format!(", {name} = {text}")).collect();
        format!("{{ {} = {}{more} }}", self.name, self.word)
    }
}

fn arg_entry(list: &str, leaf: &Leaf<String>) -> Entry {
    Entry::new("arg", &leaf.value, key_of(list, &leaf.value), leaf)
}

fn reason_pairs<T>(leaf: &Leaf<T>) -> impl Iterator<Item = (&'static str, &str)> {
    let why = leaf.why.as_deref().map(|why| ("why", why));
    why.into_iter().chain(leaf.source.as_deref().map(|source| ("source", source)))
}

/// A value in TOML. The types here are words, numbers, truth values and lists of them, which TOML can always write.
fn toml_text<T: Serialize + ?Sized>(value: &T) -> String {
    toml::Value::try_from(value)
        .map_or_else(|error| format!("# {error}"), |value| value.to_string())
}
