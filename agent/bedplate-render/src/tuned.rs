//! Target `tuned`: a TuneD profile with `[bootloader]`, `[modules]` and `[sysctl]`.

use bedplate_core::image_config::{ImageConfig, Setting};

use super::agent;
use super::common::{Unsupported, kernel_arguments, preamble};
use super::vf_rules::vfs;
use super::{Options, OutFile, RenderError, RenderResult, Target};

const PROFILE: &str = "bedplate/tuned.conf";

const MANGLED: Unsupported = Unsupported {
    why: "TuneD passes it to GRUB in a variable, which cannot carry special characters",
    instead: "render target grub for the arguments",
};
const ABSENT: Unsupported = Unsupported {
    why: "TuneD removes only arguments that it added",
    instead: "remove it from the boot loader's configuration, or run `bedplate apply --root` on the image",
};
const SETTINGS: Unsupported = Unsupported {
    why: "TuneD has no plugin for it, or cannot hold the value",
    instead: "render target grub as well, and use its files below etc/",
};

pub(crate) const TARGET: Target = Target::new(
    "tuned",
    "TuneD profile with kernel arguments, module options and sysctls",
    &[PROFILE],
    render,
);

fn render(build: &ImageConfig, options: &Options) -> Result<RenderResult, RenderError> {
    let mut rendered = RenderResult::default();
    let (arguments, lost): (Vec<_>, Vec<_>) = kernel_arguments(build, options.arch)?
        .into_iter()
        .partition(|token| survives(token.as_str()));
    rendered.inexpressible.extend(lost.iter().map(|token| MANGLED.argument(token)));
    rendered.notes.extend(ABSENT.not_removed(build.absent_tokens()));
    rendered.inexpressible.extend(SETTINGS.settings(build, carried));

    let mut sections = String::new();
    let line: Vec<&str> = arguments.iter().map(|token| token.as_str()).collect();
    if !line.is_empty() {
        sections.push_str(&format!("\n[bootloader]\ncmdline_bedplate=+{}\n", line.join(" ")));
        rendered.notes.push(
            "the arguments take effect at the next boot; hosts where TuneD does not write boot entries (systemd-boot, \
            ostree images) do not get them"
                .to_owned(),
        );
    }
    // TuneD's own profiles set a governor at every boot, which overrides the argument.
    let governor = build.arguments.iter().find_map(|argument| {
        argument.token.as_str().strip_prefix("cpufreq.default_governor=").map(str::to_owned)
    });
    let governor: Vec<String> =
        governor.map(|name| format!("governor={name}")).into_iter().collect();
    sections.push_str(&section("cpu", &governor));
    sections.push_str(&section("modules", &modules(build)));
    sections.push_str(&section("sysctl", &sysctls(build)));
    if !sections.is_empty() {
        let text = format!(
            "{}\n[main]\nsummary={}\n{sections}",
            preamble(build, "# "),
            "Host settings for GPUDirect RDMA"
        );
        rendered.files.push(OutFile::new(PROFILE, text));
        rendered.notes.push(
            "copy the directory bedplate to /etc/tuned/profiles (older TuneD: /etc/tuned), and activate it with the \
            host's own profile: `tuned-adm profile throughput-performance bedplate`"
                .to_owned(),
        );
    }
    rendered.inexpressible.extend(vfs(build, "render target udev or networkd as well"));
    rendered.inexpressible.extend(agent::of_machine(build));
    rendered.notes.extend(build.notes.iter().cloned());
    Ok(rendered)
}

/// Whether TuneD (variables, comments) and GRUB (separators, quotes) pass the text on unchanged.
fn survives(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.,=:@/+*".contains(c))
}

fn carried(setting: &Setting) -> bool {
    match setting {
        Setting::ModuleOption { value, .. } => survives(value),
        // `>` and `<` in front mean at least and at most.
        Setting::Sysctl { value, .. } => {
            value.chars().all(|c| c == ' ' || survives(&c.to_string()))
        }
        Setting::LoadModule(_) | Setting::BlacklistModule(_) => false,
    }
}

fn section(name: &str, lines: &[String]) -> String {
    match lines.is_empty() {
        true => String::new(),
        false => format!("\n[{name}]\n{}\n", lines.join("\n")),
    }
}

/// One line per module, because TuneD's keys are unique.
fn modules(build: &ImageConfig) -> Vec<String> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for setting in build.settings().filter(|setting| carried(setting)) {
        if let Setting::ModuleOption { module, parameter, value } = setting {
            let option = format!("{parameter}={value}");
            match lines.iter_mut().find(|(name, _)| name == module.as_str()) {
                Some((_, options)) => *options = format!("{options} {option}"),
                None => lines.push((module.to_string(), option)),
            }
        }
    }
    lines.into_iter().map(|(module, options)| format!("{module}={options}")).collect()
}

fn sysctls(build: &ImageConfig) -> Vec<String> {
    let line = |setting: &Setting| match setting {
        Setting::Sysctl { key, value } => Some(format!("{}={value}", dotted(key))),
        _ => None,
    };
    build.settings().filter(|setting| carried(setting)).filter_map(line).collect()
}

/// Converts a key for TuneD, which swaps dots and slashes in every key (tuned/plugins/plugin_sysctl.py); sysctl.d(5)
/// decides by the first separator.
fn dotted(key: &str) -> String {
    if key.find(['.', '/']).is_none_or(|first| key[first..].starts_with('.')) {
        return key.to_owned();
    }
    let exchange = |c| match c {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    key.chars().map(exchange).collect()
}

#[cfg(test)]
mod tests {
    use super::super::common::tests::{arg, build, desired, empty_desired, with_profile};
    use super::*;

    #[test]
    fn profile_has_section_for_each_plugin() {
        let rendered = render(&build(&desired()), &Options::default()).unwrap();
        let text = &rendered.file(PROFILE).unwrap().text;
        let sections = "\n[bootloader]\ncmdline_bedplate=+iommu=pt hugepages=64\n\n[modules]\nib_core=netns_mode=1\n\
                        nvidia_peermem=peerdirect_support=1\n";
        assert!(text.ends_with(sections), "{text}");
        let listed =
            |what: &str| rendered.inexpressible.iter().any(|item| item.what.starts_with(what));
        assert!(
            listed("kernel argument `pci=realloc,config_acs=")
                && listed("module ib_uverbs loaded at boot")
        );
        assert!(listed("blacklist module nouveau"));
        assert!(rendered.notes.iter().any(|note| note.contains("`nomodeset`")));
    }

    #[test]
    fn governor_is_argument_and_setting() {
        let profile = with_profile("[cpu]\ngovernor = \"performance\"\n", &empty_desired());
        let rendered = render(&profile, &Options::default()).unwrap();
        let text = &rendered.file(PROFILE).unwrap().text;
        let sections = "\n[bootloader]\ncmdline_bedplate=+cpufreq.default_governor=performance\n\n[cpu]\n\
                        governor=performance\n";
        assert!(text.ends_with(sections), "{text}");
    }

    #[test]
    fn keys_with_slashes_are_converted_for_tuned() {
        let sections = "[sysctl]\nset = { \"kernel.numa_balancing\" = 0, \"net/ipv4/conf/eth0.100/rp_filter\" = 2 }\n";
        let rendered =
            render(&with_profile(sections, &empty_desired()), &Options::default()).unwrap();
        let text = &rendered.file(PROFILE).unwrap().text;
        assert!(
            text.ends_with(
                "\n[sysctl]\nkernel.numa_balancing=0\nnet.ipv4.conf.eth0/100.rp_filter=2\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn argument_with_dollar_is_not_rendered() {
        let mut desired = empty_desired();
        desired.cmdline.set.push(arg("a=$HOME"));
        assert!(render(&build(&desired), &Options::default()).unwrap().files.is_empty());
    }
}
