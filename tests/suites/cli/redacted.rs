//! Secrets in every type of file that a snapshot reads, and in some that it does not read. The snapshot contains no
//! secret, and its plan equals the host's.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bedplate_testhosts as demo;
use bedplate_testhosts::HostSpec;

use super::session::Session;

/// Files with their secrets marked by `«»`.
pub const PLANTED: &[(&str, &str)] = &[
    (
        "proc/cmdline",
        "BOOT_IMAGE=/boot/vmlinuz-6.8.0-45-generic root=/dev/mapper/«vg-hunter01» ro iommu=pt password=«hunter02» rd.luks.key=/«hunter03»:UUID=«6a4d3b2c-1f0e-4d5c-8b7a-990011223344» ip=«10.20.30.40»::«10.20.30.1»:255.255.255.0:«hunter04»:eth0:none BOOTIF=01-«aa-bb-cc-dd-ee-01» ifname=eth9:«aa:bb:cc:dd:ee:02» pin=«4711» ds=nocloud;s=http://me:«hunter05»@«hunter06»/seed systemd.set_credential=x:«hunter07» systemd.machine_id=«5f3c0a9e7b1d4c2e8a6f0b3d2c1e4f51» nfsaddr=«10.20.30.44» gw «10.20.30.45» ver=«1.2.hunter11x» token=«c2VjcmV0MTIzNDU2Nzg5MA»== \"dyndbg=file «hunter08» +p\" «hunter09» -- --key «hunter10»\n",
    ),
    (
        "etc/default/grub",
        "# «hunter11»\nGRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"rd.luks.key=/«hunter03» foo=«hunter12» api.token=«deadbeefcafe0123»\"\nGRUB_CMDLINE_LINUX_DEFAULT='quiet password=«hunter02»' # «hunter13»\nMY_TOKEN=«hunter14»\nexport HTTP_PROXY=http://me:«hunter15»@proxy/\n«hunter16» --flag «hunter17»\nGRUB_PASSWORD='«hunter18»\n",
    ),
    ("etc/default/grub.d/50-site.cfg", "SITE=\"$(cat /etc/«hunter19»)\"\nX=`«hunter20»`\n"),
    (
        "boot/grub/grub.cfg",
        "# «hunter21»\nset superusers=\"«hunter22»\"\npassword_pbkdf2 «hunter22» grub.pbkdf2.sha512.10000.«AB12CD34EF56AB12CD34EF56»\npassword «hunter22» «hunter23»\nmenuentry '«hunter24»' --id '«hunter25»' {\n\tlinux /boot/vmlinuz-6.8.0-45-generic root=/dev/mapper/«vg-hunter01» password=«hunter02» foo=«hunter12»\n\tinitrd /boot/«hunter26».img\n}\n",
    ),
    (
        "boot/grub/grubenv",
        "# GRUB Environment Block\nsaved_entry=«hunter24»\nkernelopts=root=/dev/«hunter27» password=«hunter02»\n####",
    ),
    (
        "boot/loader/entries/5f3c0a9e7b1d4c2e8a6f0b3d2c1e4f51-6.8.0.conf",
        "title «hunter28»\nmachine-id «5f3c0a9e7b1d4c2e8a6f0b3d2c1e4f51»\nlinux /vmlinuz-6.8.0\noptions root=UUID=«6A4D3B2C-1F0E-4D5C-8B7A-990011223355» «hunter29» rd.luks.name=«hunter30»\n# «hunter31»\n",
    ),
    ("etc/kernel/cmdline", "# «hunter32»\nrd.luks.key=«hunter33»\n"),
    ("etc/kernel/install.conf", "layout=bls\nsecret=«hunter34»\n"),
    (
        "etc/modprobe.d/site.conf",
        "# «hunter35»\noptions foo key=«hunter36» level=3\noptions bar name=\"«hunter37» «hunter38»\"\ninstall baz /bin/sh -c 'curl -H «hunter39»'\noptions x \\\n a=«hunter40»\n«hunter41»\n",
    ),
    ("etc/modules-load.d/site.conf", "# «hunter42»\nloop key=«hunter43»\n"),
    (
        "etc/sysctl.d/10-site.conf",
        "; «hunter44»\nkernel.core_pattern = |/bin/x --token «hunter45»\nnet.ipv6.conf.all.stable_secret = «fd00:hunter46»\nvm.swappiness = 10\n«hunter47»\n",
    ),
    ("etc/sysctl.conf", "kernel.domainname=«hunter48»\n"),
    ("etc/systemd/network/wg0.netdev", "[WireGuard]\nPrivateKey=«hunter49»\n"),
    (
        "etc/systemd/network/a.link",
        "[Match]\nMACAddress=«aa:bb:cc:dd:ee:03»\n[Link]\nDescription=«hunter50»\n[SR-IOV]\n",
    ),
    ("etc/systemd/network/b.network", "[Network]\nDNS=«hunter51»\n"),
    (
        "etc/bedplate/profile.toml",
        "schema = 1\nname = \"site\"\ndescription = \"«hunter52»\"\n# «hunter53»\n[cmdline]\nargs = [\"iommu=pt\", \"foo=«hunter12»\", { arg = \"quiet\", why = \"«hunter54»\", source = \"«hunter55»\" }]\nabsent = [\"password\"]\n[modules]\ngpudirect = \"none\"\noptions = { loop = { max_part = \"«hunter56»\" } }\n[sysctl]\nset = { \"kernel.domainname\" = \"«hunter57»\" }\n[reboot]\npolicy = \"schedule\"\nbusy_command = [\"/usr/«hunter58»\", \"--token\", \"«hunter59»\"]\ncommand = [\"/usr/sbin/x\", \"«hunter60»\"]\nfleetlock = { url = \"http://me:«hunter61»@«hunter62».example/«hunter63»\", group = \"«hunter64»\" }\nidle_holders = [\"«hunter65»\"]\n[verify.severity]\n\"pcie.link-width\" = { level = \"ignore\", reason = \"«hunter76»\" }\n\"pcie.mrrs\" = { level = \"ignore\", reason = \"«hunter77» «hunter78»\" }\n",
    ),
    ("etc/bedplate/profile.d/notes.txt", "«hunter66»\n"),
    ("var/lib/bedplate/daemon/reboot.json", "{\"asked\":\"«hunter67»\"}\n"),
    ("var/lib/bedplate/hold.json", "{\"why\":\"«hunter68»\"}\n"),
    ("etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\nSUPPORT_TOKEN=«hunter69»\n"),
    ("sys/module/foo/parameters/api_key", "«hunter70»\n"),
    ("sys/module/foo/parameters/peer", "«aabb.ccdd.ee04»\n"),
    ("sys/module/foo/initstate", "live\n"),
    (
        "boot/config-6.8.0-45-generic",
        "CONFIG_CMDLINE=\"password=«hunter71»\"\nCONFIG_SYSTEM_TRUSTED_KEYS=\"«hunter72»\"\n",
    ),
    ("proc/modules", "loop 40960 0 - Live 0x«ffffffffc0a81234»\n"),
    ("proc/cpuinfo", "processor : 0\nvendor_id : GenuineIntel\nflags : lm\nserial : «hunter73»\n"),
    ("etc/nccl.conf", "NCCL_TOPO_FILE=/srv/«hunter79»/t.xml\n"),
    ("srv/hunter79/t.xml", "<system version=\"1\"/>\n"),
    ("usr/lib/bootc/kargs.d/10.toml", "# «hunter74»\nkargs = [\"password=«hunter75»\"]\n"),
    ("sys/class/net/enxaabbccddee05/flags", "0x1003\n"),
    ("sys/class/net/enP5p1s0np0-AABBCCDDEE06/flags", "0x1003\n"),
];

/// Secrets in the names of files.
pub const NAMES: [&str; 3] = ["aabbccddee05", "aabbccddee06", "5f3c0a9e7b1d4c2e8a6f0b3d2c1e4f51"];

/// The marked secrets of a text, in lower case.
pub fn marked(text: &str) -> impl Iterator<Item = String> {
    let secret = text.split('«').skip(1).map(|rest| rest.split('»').next().expect("closed"));
    secret.map(str::to_lowercase)
}

fn plant(session: &Session) -> (std::path::PathBuf, Vec<String>) {
    let root = session.path("host");
    let spec = HostSpec::from_toml("machine = \"plain\"").expect("a description");
    demo::write_tree(&spec.build(), &root).expect("a host");
    let mut secrets: Vec<String> = NAMES.map(str::to_owned).into();
    for (path, text) in PLANTED {
        secrets.extend(marked(text));
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("ours");
        let _ = std::fs::remove_file(&file);
        std::fs::write(file, text.replace(['«', '»'], "")).expect("ours");
    }
    secrets.sort();
    secrets.dedup();
    (root, secrets)
}

pub fn found<'a>(secrets: &'a [String], text: &str) -> Vec<&'a String> {
    let text = text.to_lowercase();
    secrets.iter().filter(|secret| text.contains(secret.as_str())).collect()
}

#[test]
fn no_planted_secret_is_in_a_snapshot() {
    let session = Session::new();
    let (root, secrets) = plant(&session);
    assert!(secrets.len() >= 54, "only {} secrets", secrets.len());
    let root = root.display().to_string();
    let output = session.run(&["snapshot", "--root", &root, "-o", "x.bp", "--show-redactions"]);
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(session.path("x.bp")).expect("it was written");
    let none: [&String; 0] = [];
    assert_eq!(found(&secrets, &text), none);
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(found(&secrets, &said), none);
    for line in ["/proc/cmdline: ", "/etc/systemd/network/wg0.netdev: content omitted"] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    // The data that a snapshot exists for is in it.
    for kept in ["iommu=pt", "password=m", "vm.swappiness = 10", "level=3", "[SR-IOV]"] {
        assert!(text.contains(kept), "{kept} is not in\n{text}");
    }
}

#[test]
fn with_identifiers_retains_only_identifiers() {
    let session = Session::new();
    let (root, secrets) = plant(&session);
    let root = root.display().to_string();
    let output = session.run(&["snapshot", "--root", &root, "-o", "-", "--with-identifiers"]);
    let text = String::from_utf8(output.stdout).expect("text").to_lowercase();
    for identifier in ["aa-bb-cc-dd-ee-01", "6a4d3b2c-1f0e-4d5c-8b7a-990011223355", "aabbccddee05"]
    {
        assert!(text.contains(identifier), "{identifier}");
    }
    let words: Vec<_> =
        found(&secrets, &text).into_iter().filter(|one| one.contains("hunter")).collect();
    assert!(words.is_empty(), "{words:?}");
    assert!(!text.contains("deadbeefcafe0123"), "a token has the form of an identifier");
}

#[test]
fn snapshot_is_a_new_file_for_its_owner_only() {
    let session = Session::new();
    session.image("image");
    let args = ["snapshot", "--root", "image", "-o", "x.bp"];
    assert_eq!(session.status(&args), 0);
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&session.path("x.bp")), 0o600);
    let again = session.run(&args);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("select another file with -o"), "{said}");
    // Nor through a link, existing target or not.
    session.file("victim", "mine");
    for (link, target) in [("link.bp", "victim"), ("dangling.bp", "nothing")] {
        std::os::unix::fs::symlink(target, session.path(link)).expect("ours");
        assert_eq!(session.status(&["snapshot", "--root", "image", "-o", link]), 1, "{link}");
    }
    assert_eq!(std::fs::read_to_string(session.path("victim")).expect("ours"), "mine");
    assert!(!session.path("nothing").exists());
}

#[test]
fn plan_of_the_snapshot_equals_that_of_the_host() {
    let session = Session::new();
    let (root, _) = plant(&session);
    // A host that can be planned for. If the configuration cannot be parsed, the plan is the same and has less detail.
    std::fs::write(
        root.join("etc/default/grub"),
        "# x\nGRUB_CMDLINE_LINUX=\"foo=hunter12 password=hunter02\"\n",
    )
    .expect("ours");
    let root = root.display().to_string();
    assert_eq!(session.status(&["snapshot", "--root", &root, "-o", "x.bp"]), 0);
    let plan = |args: &[&str]| {
        let output = session.run(&[&["plan", "--cpu", "intel", "--json"], args].concat());
        let text = String::from_utf8(output.stdout).expect("text");
        let plan: bedplate_core::plan::Plan = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let words =
            ["hunter54", "hunter55"].map(|word| format!("why = \"{word}\"")).join("\n[x]\n");
        let words = bedplate_daemon::public::OperatorWords::gather_from([words.as_str()]);
        bedplate_daemon::public::plan(&plan, &words)
    };
    let (host, recording) = (plan(&["--root", &root]), plan(&["--snapshot", "x.bp"]));
    let seen = |plan: &bedplate_core::plan::Plan| {
        let items = plan.body.changes.iter().flat_map(|change| &change.items);
        items
            .map(|item| format!("{}: {:?} {:?}", item.subject, item.before, item.after))
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(&host), seen(&recording));
    assert!(seen(&host).iter().any(|item| item.contains("password")), "{:?}", seen(&host));
    let whole = |plan: &bedplate_core::plan::Plan| {
        (
            plan.reboot,
            plan.body.blockers.clone(),
            plan.body.unknowns.clone(),
            plan.body.changes.len(),
        )
    };
    assert_eq!(whole(&host), whole(&recording));
}
