//! The GRUB files, read by the real grub-mkconfig and a real shell, and read back by the rules of GRUB and the kernel. The
//! two readers here are independent of the crate's own, so that they can disagree with it.

mod render_cases;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use bedplate_render::{GrubFamily, Options, RenderResult};
use bedplate_tests::fixtures::tool;
use render_cases::{Case, cases};

/// Files of cloud images before bedplate: a drop-in replaces the main file's value.
const MAIN_FILE: &str = "GRUB_DEFAULT=0\nGRUB_TIMEOUT=5\nGRUB_DISTRIBUTOR=Debian\n\
    GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"net.ifnames=0\"\n";
const CLOUD_DROP_IN: &str = "GRUB_CMDLINE_LINUX_DEFAULT=\"console=tty1 console=ttyS0\"\n";

/// Kernel arguments as the kernel reads them: name and value.
type Arguments = Vec<(String, Option<String>)>;

fn render(case: &Case, family: GrubFamily) -> RenderResult {
    render_cases::render("grub", case, &Options { grub_family: family, ..Options::default() })
}

/// Returns the desired arguments of a case as the kernel would read them, with all `pci=` in one.
fn wanted(case: &Case) -> Arguments {
    let mut all: Arguments = Vec::new();
    for wanted in &case.desired.cmdline.set {
        let (name, value) = run_case(&kernel_arguments(wanted.token.as_str()));
        match all.iter_mut().find(|(earlier, _)| name == "pci" && earlier == "pci") {
            Some((_, Some(list))) => *list = format!("{list},{}", value.unwrap()),
            _ => all.push((name, value)),
        }
    }
    all
}

fn run_case(arguments: &Arguments) -> (String, Option<String>) {
    assert_eq!(arguments.len(), 1, "{arguments:?}");
    arguments[0].clone()
}

/// Parses a line by the kernel's rules (`next_arg`): blanks outside double quotes separate arguments; quotes around a value
/// or a whole argument are stripped.
fn kernel_arguments(line: &str) -> Arguments {
    let mut arguments = Vec::new();
    let mut quoted = false;
    for raw in line.split(|c: char| {
        quoted ^= c == '"';
        c.is_ascii_whitespace() && !quoted
    }) {
        let body = match raw.strip_prefix('"') {
            Some(inner) => inner.strip_suffix('"').unwrap_or(inner),
            None => raw,
        };
        let unquoted = |value: &str| match value.strip_prefix('"') {
            Some(inner) => inner.strip_suffix('"').unwrap_or(inner).to_owned(),
            None => value.to_owned(),
        };
        match body.split_once('=') {
            _ if body.is_empty() => {}
            Some((name, value)) => arguments.push((name.to_owned(), Some(unquoted(value)))),
            None => arguments.push((body.to_owned(), None)),
        }
    }
    arguments
}

/// Parses the words of a command in GRUB's script language, and returns the line that its `linux` command passes on
/// (`grub_create_loader_cmdline`).
///
/// # Panics
///
/// On anything but plain words, e.g. a command separator or a variable.
fn grub_line(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let open = word.get_or_insert_default();
        match c {
            ' ' | '\t' => words.extend(word.take().filter(|word| !word.is_empty())),
            '\\' => open.extend(chars.next()),
            '\'' => open.extend(chars.by_ref().take_while(|c| *c != '\'')),
            '"' => loop {
                match chars.next().expect("an open quote in grub.cfg") {
                    '"' => break,
                    '\\' => {
                        let escaped = chars.next().unwrap();
                        open.extend(
                            (!"\\\"$".contains(escaped))
                                .then_some('\\')
                                .into_iter()
                                .chain([escaped]),
                        );
                    }
                    '$' => panic!("a variable in {text:?}"),
                    plain => open.push(plain),
                }
            },
            ';' | '&' | '|' | '<' | '>' | '{' | '}' | '$' | '*' | '?' | '#' => {
                panic!("unquoted {c:?} in {text:?}")
            }
            plain => open.push(plain),
        }
    }
    words.extend(word.filter(|word| !word.is_empty()));
    let hand_on = |word: &String| {
        let escaped: String = word
            .chars()
            .flat_map(|c| matches!(c, '\\' | '\'' | '"').then_some('\\').into_iter().chain([c]))
            .collect();
        if word.contains(' ') { format!("\"{escaped}\"") } else { escaped }
    };
    words.iter().map(hand_on).collect::<Vec<_>>().join(" ")
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Installs a copy of the distribution's grub-mkconfig and its Linux generator that uses `root` instead of `/`. Only paths
/// are changed; fake disk probes report an ext4 on a partition.
fn install_mkconfig(root: &Path) {
    let (mkconfig, dash) = (tool("grub-mkconfig"), tool("dash"));
    let generator = Path::new("/etc/grub.d/10_linux");
    let at = |path: &str| root.join(path);
    let root_text = root.to_str().unwrap();
    let shell = |text: String| text.replacen("#! /bin/sh", &format!("#!{}", dash.display()), 1);
    let main = fs::read_to_string(mkconfig).unwrap();
    let main = main
        .replace("sysconfdir=\"/etc\"", &format!("sysconfdir=\"{root_text}/etc\""))
        .replace("${sbindir}/grub-probe", &format!("{root_text}/bin/grub-probe"));
    write(&at("bin/grub-mkconfig"), &shell(main), 0o755);
    let linux = fs::read_to_string(generator)
        .unwrap()
        .replace("/boot/vmlinuz-*", &format!("{root_text}/boot/vmlinuz-*"));
    write(&at("etc/grub.d/10_linux"), &shell(linux), 0o755);
    let probe = "#!/bin/sh\ncase \"$*\" in\n*target=device*) echo /dev/vda1 ;;\n*target=fs_uuid*) echo 1234 ;;\n\
        *target=partuuid*) echo 5678 ;;\n*target=fs*) echo ext2 ;;\n*target=partmap*) echo gpt ;;\n\
        *hint*) echo hd0,gpt1 ;;\nesac\n";
    write(&at("bin/grub-probe"), probe, 0o755);
    write(&at("bin/grub-mkrelpath"), "#!/bin/sh\necho /boot\n", 0o755);
    write(&at("boot/vmlinuz-6.12.1-amd64"), "not a kernel\n", 0o644);
    write(&at("boot/initrd.img-6.12.1-amd64"), "not an initrd\n", 0o644);
    write(&at("etc/default/grub"), MAIN_FILE, 0o644);
    write(&at("etc/default/grub.d/50-cloudimg-settings.cfg"), CLOUD_DROP_IN, 0o644);
}

/// Runs grub-mkconfig over a case's files. Returns grub.cfg.
fn mkconfig(case: &Case) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    install_mkconfig(root);
    for file in render(case, GrubFamily::Debian).files {
        write(&root.join(&file.path), &file.text, file.mode);
    }
    // EUID: the script insists on being root, which nothing here needs.
    let output = Command::new(root.join("bin/grub-mkconfig"))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("EUID", "0")
        .env("LC_ALL", "C")
        .env("grub_mkrelpath", root.join("bin/grub-mkrelpath"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", case.name);
    let file = root.join("grub.cfg");
    fs::write(&file, &output.stdout).unwrap();
    let checked = Command::new(tool("grub-script-check")).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{}: {said}", case.name);
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the kernel arguments of every menu entry: (whether it is a recovery entry, the arguments after `root=… ro`).
fn entries(grub_cfg: &str) -> Vec<(bool, Arguments)> {
    let mut recovery = false;
    let mut found = Vec::new();
    for line in grub_cfg.lines().map(str::trim) {
        if line.starts_with("menuentry ") {
            recovery = line.contains("recovery mode");
        }
        if let Some(rest) = line.strip_prefix("linux\t") {
            let arguments = kernel_arguments(&grub_line(rest));
            let ro = arguments.iter().position(|(name, _)| name == "ro").unwrap();
            found.push((recovery, arguments[ro + 1..].to_vec()));
        }
    }
    found
}

#[test]
#[cfg_attr(
    not(all(has = "dash", has = "grub-mkconfig", has = "grub-script-check")),
    ignore = "needs dash, grub-mkconfig and grub-script-check"
)]
fn grub_mkconfig_appends_the_desired_arguments() {
    for case in cases() {
        let grub_cfg = mkconfig(&case);
        let entries = entries(&grub_cfg);
        assert_eq!(
            entries.iter().map(|(recovery, _)| *recovery).collect::<Vec<_>>(),
            [false, false, true]
        );
        for (recovery, arguments) in entries {
            let before = match recovery {
                true => "net.ifnames=0",
                false => "net.ifnames=0 console=tty1 console=ttyS0",
            };
            let mut expected = kernel_arguments(before);
            match recovery {
                // Recovery entries start a bare system.
                true => expected.insert(0, ("single".to_owned(), None)),
                false => expected.extend(wanted(&case)),
            }
            assert_eq!(arguments, expected, "{}\n{grub_cfg}", case.name);
        }
    }
}

/// Returns the arguments of a BLS entry or of `GRUB_CMDLINE_LINUX` as the kernel reads them after GRUB.
fn through_grub(words: &str) -> Arguments {
    kernel_arguments(&grub_line(words))
}

/// Returns the desired arguments, except those that the RHEL form reports as not expressible.
fn carried(case: &Case, rendered: &RenderResult) -> Arguments {
    let lost = |token: &str| {
        rendered.inexpressible.iter().any(|item| item.what == format!("kernel argument `{token}`"))
    };
    let mut kept =
        Case { name: case.name, profile: case.profile.clone(), desired: case.desired.clone() };
    kept.desired.cmdline.set.retain(|wanted| !lost(wanted.token.as_str()));
    wanted(&kept)
}

#[test]
fn rhel_script_passes_the_desired_arguments_to_grubby() {
    for case in cases() {
        let rendered = render(&case, GrubFamily::Rhel);
        let expected = carried(&case, &rendered);
        let Some(script) = rendered.file("bedplate-grubby.sh") else {
            assert_eq!(expected, [], "{}", case.name);
            continue;
        };
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        write(&at("grubby"), "#!/bin/sh\nprintf '%s\\n' \"$@\"\n", 0o755);
        write(&at("script.sh"), &script.text, script.mode);
        let path = format!("{}:/usr/bin:/bin", scratch.path().display());
        let output = Command::new(at("script.sh")).env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", case.name);
        let said = String::from_utf8(output.stdout).unwrap();
        let options: Vec<&str> = said.lines().collect();
        assert_eq!(options.first(), Some(&"--update-kernel=ALL"));
        assert_eq!(options.last(), Some(&"--no-etc-grub-update"));
        let args =
            options.iter().find_map(|option| option.strip_prefix("--args=")).unwrap_or_default();
        assert_eq!(through_grub(args), expected, "{}", case.name);
    }
}

#[test]
fn line_for_etc_default_grub_survives_sourcing() {
    for case in cases() {
        let rendered = render(&case, GrubFamily::Rhel);
        let expected = carried(&case, &rendered);
        let Some(append) = rendered.file("default-grub.append") else {
            assert_eq!(expected, [], "{}", case.name);
            continue;
        };
        let script =
            format!("set -eu\n{MAIN_FILE}{}printf %s \"$GRUB_CMDLINE_LINUX\"\n", append.text);
        let output = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", case.name);
        let words = String::from_utf8(output.stdout).unwrap();
        let mut all = kernel_arguments("net.ifnames=0");
        all.extend(expected);
        assert_eq!(through_grub(&words), all, "{}", case.name);
    }
}

#[test]
fn readers_reject_an_unquoted_list() {
    let unquoted = std::panic::catch_unwind(|| grub_line("/vmlinuz pci=config_acs=a;b"));
    assert!(unquoted.is_err());
    assert_eq!(grub_line("a=\"b c\" 'd e' f\\ g \"x\\$y\""), "\"a=b c\" \"d e\" \"f g\" x$y");
    assert_eq!(
        kernel_arguments("\"a=b c\" d=\"e f\" g"),
        [
            ("a".to_owned(), Some("b c".to_owned())),
            ("d".to_owned(), Some("e f".to_owned())),
            ("g".to_owned(), None),
        ]
    );
}
