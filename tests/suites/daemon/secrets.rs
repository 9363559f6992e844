//! Secrets in root-only files next to values that bedplate reads, with and without syntax errors. Nothing that the daemon
//! publishes to unprivileged users contains one. Daemon and worker are real.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use super::node::Node;
use super::rig::Rig;

/// Part of every secret.
const MARK: &str = "hunter2";

const PROFILE: &str = r#"schema = 1
name = "node"
description = "hunter2-description"
# hunter2-comment
[iommu]
mode = "passthrough"
[cmdline]
args = ["rd.luks.key=/hunter2-arg", { arg = "quiet", why = "hunter2-why", source = "hunter2-source" }]
absent = ["password", "ip", "rd.luks.options"]
[modules]
gpudirect = "none"
load = ["loop"]
options = { loop = { max_part = "hunter2-option" } }
[sysctl]
set = { "kernel.domainname" = "|/bin/false hunter2-sysctl", "vm.swappiness" = 1 }
[nccl]
set = { NCCL_DEBUG_FILE = "hunter2-file", NCCL_NET = "hunter2-net" }
[cufile]
set = { "site.token" = "hunter2-new-token", "site.kept" = "hunter2-kept" }
[lints]
allow = { amd-iommu-on = "hunter2-reason" }
[agent]
mode = "observe"
[reboot]
policy = "schedule"
busy_command = ["/bin/false", "--token", "hunter2-busy"]
command = ["/bin/false", "hunter2-command"]
fleetlock = { url = "http://127.0.0.1:9/hunter2-path/" }
"#;

const GRUB: &str = r##"# hunter2-comment
GRUB_DEFAULT="hunter2-title>1"
MY_TOKEN='hunter2-variable'
GRUB_CMDLINE_LINUX="ro password=hunter2-token rd.luks.key=/hunter2-key rd.luks.options=hunter2-options iommu=off"
GRUB_CMDLINE_LINUX_DEFAULT="ip=hunter2-ip quiet"
"##;

const GRUB_CFG: &str = r#"set superusers="root"
password_pbkdf2 root grub.pbkdf2.sha512.hunter2-hash
set default="0"
menuentry 'hunter2-title' --class debian --unrestricted $menuentry_id_option 'hunter2-id' {
	linux /boot/vmlinuz-6.1.0-13-amd64 root=UUID=hunter2-root ro password=hunter2-token ip=hunter2-ip iommu=off
	initrd /boot/initrd.img-6.1.0-13-amd64
}
"#;

const BLS: &str = "title hunter2-title\nversion 6.1.0\nlinux (hd0,gpt2)/vmlinuz-6.1.0\ninitrd (hd0,gpt2)/initrd-6.1.0\n\
    # hunter2-comment\noptions root=hunter2-root password=hunter2-token ip=hunter2-ip iommu=off\n";

const NCCL_CONF: &str = "# BEGIN bedplate\n# hunter2-comment\nNCCL_NET=hunter2-old\n# END bedplate\nNCCL_NET=hunter2-theirs\n";

const CUFILE: &str = r#"{"site": {"token": "hunter2-token", "kept": "hunter2-kept"}}"#;

type Files = BTreeMap<&'static str, String>;

fn files(more: &[(&'static str, &str)]) -> Files {
    let mut files: Files = [
        ("etc/bedplate/profile.toml", PROFILE),
        ("etc/default/grub", GRUB),
        ("etc/default/grub.d/50-site.cfg", "SITE=hunter2-drop-in\n"),
        ("boot/grub/grub.cfg", GRUB_CFG),
        ("etc/nccl.conf", NCCL_CONF),
        ("etc/cufile.json", CUFILE),
        (
            "etc/modprobe.d/site.conf",
            "# hunter2\noptions loop max_part=hunter2-modprobe\ninstall x /bin/hunter2\n",
        ),
        (
            "etc/sysctl.d/zzz.conf",
            "# hunter2\nvm.swappiness = hunter2-swappiness\nkernel.core_pattern=hunter2\n",
        ),
    ]
    .map(|(path, text)| (path, text.to_owned()))
    .into();
    files.extend(more.iter().map(|(path, text)| (*path, (*text).to_owned())));
    files
}

/// Texts that every user can read, by their source.
fn public(rig: &Rig) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let asked = async {
        let agent = rig.agent().await?;
        let plan = agent.plan().await;
        let bus = zbus::fdo::PropertiesProxy::builder(&rig.logind)
            .destination("org.bedplate.Agent1")
            .path("/org/bedplate/Agent1")
            .build()
            .await?;
        let name = zbus::names::InterfaceName::try_from("org.bedplate.Agent1")?;
        Ok::<_, zbus::Error>((plan, bus.get_all(name).await?))
    };
    let (plan, properties) = rig.runtime.block_on(asked).expect("it answers");
    found.insert("Plan()".to_owned(), plan.unwrap_or_else(|error| error.to_string()));
    for (name, value) in properties {
        found.insert(name, format!("{:?}", value));
    }
    for file in ["status.json", "bedplate.prom"] {
        found.insert(file.to_owned(), rig.read(&format!("run/bedplate/{file}")));
    }
    let features = "etc/kubernetes/node-feature-discovery/features.d/bedplate";
    found.insert("labels".to_owned(), rig.read(features));
    found.insert("log".to_owned(), rig.read("log"));
    found
}

/// Checks what the daemon publishes about a host with these files (mode 0600): no secret, and all of `expected`, which
/// proves that the files were read.
fn assert_shown(files: &Files, expected: &[&str]) {
    let rig = Rig::new();
    Node::new(&rig);
    std::fs::create_dir_all(rig.path("etc/kubernetes/node-feature-discovery/features.d"))
        .expect("ours");
    for (path, text) in files {
        rig.write(path, text);
        std::fs::set_permissions(rig.path(path), PermissionsExt::from_mode(0o600)).expect("ours");
    }
    let node = Node::new_as_it_is(&rig);
    let _daemon = node.daemon();
    rig.until("it has looked", |status| status.state.name() != "starting");
    let all = public(&rig);
    for (place, text) in &all {
        let at = text.find(MARK).map(|at| text.split_at(at).1.chars().take(60).collect::<String>());
        assert_eq!(at, None, "{place}:\n{text}");
    }
    let all: String = all.into_values().collect();
    for words in expected {
        assert!(all.contains(words), "{words} is not in\n{all}");
    }
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn plan_shows_no_secret() {
    assert_shown(
        &files(&[]),
        &[
            "\"redacted\": true",
            "rd.luks.key=…",
            "options loop max_part",
            "kernel.domainname",
            "NCCL_NET",
            "site.token",
        ],
    );
}

/// Values that are already as requested, next to unmanaged lines for the same name.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn unchanged_values_show_no_secret() {
    let conf = "# BEGIN bedplate\nNCCL_DEBUG_FILE=hunter2-file\nNCCL_NET=hunter2-net\n# END bedplate\nNCCL_NET=hunter2-theirs\n";
    let cufile = r#"{"site": {"token": "hunter2-new-token", "kept": "hunter2-kept"}}"#;
    let files = files(&[("etc/nccl.conf", conf), ("etc/cufile.json", cufile)]);
    assert_shown(&files, &["matches the profile", "run `bedplate plan` as root to see it"]);
}

/// A file that the library could not read.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn invalid_file_shows_no_secret() {
    let cufile =
        r#"{"properties": {"use_pci_p2pdma": "hunter2-value"}, "site": {"token": "hunter2"}}"#;
    assert_shown(&files(&[("etc/cufile.json", cufile)]), &["/etc/cufile.json"]);
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn syntax_errors_show_no_secret() {
    let grub = GRUB.replace("MY_TOKEN='hunter2-variable'", "MY_TOKEN='hunter2-never-closed");
    assert_shown(&files(&[("etc/default/grub", &grub)]), &["/etc/default/grub:3"]);
    let grub = GRUB.replace("MY_TOKEN=", "eval hunter2-eval; MY_TOKEN=`hunter2-run`");
    assert_shown(&files(&[("etc/default/grub", &grub)]), &["/etc/default/grub"]);
    let quote = GRUB.replace("password=hunter2-token", "dyndbg=\\\"hunter2-quote password=x");
    assert_shown(&files(&[("etc/default/grub", &quote)]), &["/etc/default/grub"]);
    let cfg = GRUB_CFG.replace("set default=\"0\"", "set default=\"${hunter2}6hunter2");
    assert_shown(&files(&[("boot/grub/grub.cfg", &cfg)]), &["/boot/grub/grub.cfg"]);
    let cfg = GRUB_CFG.replace("linux /boot/vmlinuz-6.1.0-13-amd64", "linux /boot/hunter2");
    assert_shown(&files(&[("boot/grub/grub.cfg", &cfg)]), &["/etc/default/grub"]);
    let conf = "options loop max_part=\"hunter2\noptions loop hunter2=\\\nhunter2 hunter2";
    assert_shown(&files(&[("etc/modprobe.d/site.conf", conf)]), &["options loop max_part"]);
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn boot_entries_show_no_secret() {
    let host = |entry: &str| {
        let os = "ID=rhel\nVERSION_ID=\"9.4\"\nID_LIKE=fedora\n";
        let cfg = "blscfg\npassword_pbkdf2 root grub.pbkdf2.hunter2\n";
        let mut files = files(&[
            ("etc/os-release", os),
            ("etc/default/grub", &format!("GRUB_ENABLE_BLSCFG=true\n{GRUB}")),
            ("boot/grub2/grub.cfg", cfg),
            ("boot/grub2/grubenv", "# GRUB Environment Block\nsaved_entry=hunter2\n####\n"),
            ("etc/kernel/cmdline", "root=hunter2-root password=hunter2\n"),
        ]);
        files.insert("boot/loader/entries/a.conf", entry.to_owned());
        files.remove("boot/grub/grub.cfg");
        files
    };
    assert_shown(&host(BLS), &["/boot/loader/entries"]);
    let broken = BLS.replace("options root", "options $hunter2 \"root");
    assert_shown(&host(&broken), &["/boot/loader/entries/a.conf"]);
    let twice = BLS.to_owned() + "options hunter2-second\nlinux /hunter2\n";
    assert_shown(&host(&twice), &["/boot/loader/entries/a.conf"]);
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn unusable_profile_shows_no_secret() {
    let broken = |from: &str, to: &str| PROFILE.replace(from, to);
    for (profile, expected) in [
        (broken("[iommu]", "[iommu\nx = hunter2-bare"), "profile.toml:5:"),
        (broken("\"hunter2-busy\"]", "\"hunter2-busy\", hunter2]"), "profile.toml:"),
        (broken("policy = \"schedule\"", "policy = \"hunter2-policy\""), "profile.toml:"),
        (broken("policy = \"schedule\"", "hunter2-key = \"hunter2-value\""), "profile.toml:"),
        (broken("http://127.0.0.1:9/", "ftp://me:hunter2@lock/"), "is not a server URL"),
        (broken("url =", "header = \"hunter2\", url ="), "profile.toml:"),
        (broken("\"rd.luks.key=/hunter2-arg\"", "\"rd.luks.key=\\\"hunter2\""), "profile.toml:"),
        (broken("\"vm.swappiness\" = 1", "\"..hunter2\" = \"hunter2\""), "profile.toml:"),
        (broken("mode = \"observe\"", "mode = 7\ninterval = \"hunter2\""), "profile.toml:"),
        (broken("[lints]", "[lints]\nhunter2 = 1"), "profile.toml:"),
    ] {
        assert_shown(&files(&[("etc/bedplate/profile.toml", &profile)]), &[expected]);
    }
    // A URL of the right scheme with a user and a password. The daemon refuses it when it requests the slot.
    let user = broken("http://127.0.0.1:9/", "http://me:hunter2@127.0.0.1:9/");
    assert_shown(&files(&[("etc/bedplate/profile.toml", &user)]), &["rd.luks.key=…"]);
    let layer = "schema = 1\n[cmdline]\nargs = [\"a=hunter2\", hunter2]\n";
    assert_shown(&files(&[("etc/bedplate/profile.d/x.toml", layer)]), &["profile.d/x.toml:3:"]);
}
