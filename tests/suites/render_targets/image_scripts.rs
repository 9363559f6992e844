//! Scripts of image builds, run as the builds run them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bedplate_tests::program;

use crate::consumers::{succeeds, write};
use crate::shipped::{Made, made};

#[test]
fn scripts_of_image_builds_apply_the_profile() {
    for target in ["mkosi", "packer"] {
        for Made { what, rendered } in made(target) {
            let directory = tempfile::tempdir().unwrap();
            write(&rendered, directory.path());
            for file in rendered.files.iter().filter(|file| file.mode & 0o100 != 0) {
                let script = directory.path().join(&file.path);
                succeeds(Command::new("sh").arg("-n").arg(script), &what);
            }
        }
    }
}

/// The root directory has no boot loader, so no tool is pending.
#[test]
fn mkosi_script_applies_and_installs_the_profile() {
    let directory = tempfile::tempdir().unwrap();
    let text = "schema = 1\nname = \"numa\"\n[sysctl]\nset = { \"kernel.numa_balancing\" = 0 }\n";
    fs::write(directory.path().join("numa.toml"), text).unwrap();
    let root = directory.path().join("root");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/os-release"), "ID=debian\nVERSION_ID=\"12\"\n").unwrap();
    let mut render = program::bedplate(&[
        "render",
        "mkosi",
        "--profile",
        "numa.toml",
        "--cpu",
        "amd",
        "-o",
        ".",
    ]);
    succeeds(render.current_dir(directory.path()), "render");
    let path = format!(
        "{}:{}",
        program::path().parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    for _ in 0..2 {
        let mut script = Command::new("./mkosi.postinst");
        script.current_dir(directory.path()).env("PATH", &path).env("BUILDROOT", &root);
        succeeds(&mut script, "mkosi.postinst");
        let sysctls = fs::read_to_string(root.join("etc/sysctl.d/zz-bedplate.conf")).unwrap();
        assert!(sysctls.ends_with("kernel.numa_balancing = 0\n"), "{sysctls}");
    }
    let mut check = program::bedplate(&["profile", "check", "root/etc/bedplate/profile.toml"]);
    succeeds(check.current_dir(directory.path()), "profile check");
}

/// Renders for mkosi in a directory, and runs the script on `root` there.
fn build_with_mkosi(directory: &Path, profile: &str) -> Output {
    fs::write(directory.join("p.toml"), profile).unwrap();
    let render = ["render", "mkosi", "--profile", "p.toml", "--cpu", "intel", "-o", "."];
    succeeds(program::bedplate(&render).current_dir(directory), "render");
    let programs = program::path().parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut script = Command::new("./mkosi.postinst");
    script.current_dir(directory).env("PATH", &path).env("BUILDROOT", directory.join("root"));
    script.output().unwrap()
}

#[test]
fn mkosi_build_gets_arguments_and_keeps_its_boot_loader() {
    let directory = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = directory.path().join("root").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("etc/os-release", "ID=debian\nVERSION_ID=\"13\"\n");
    put("etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n");
    put("usr/sbin/update-grub", "");
    put("usr/sbin/update-initramfs", "");
    let profile = "schema = 1\nname = \"p\"\n[cmdline]\nargs = [\"iommu=pt\", \"foo=100%\"]\n\
                   [modules]\nblacklist = [\"nouveau\"]\n";
    let output = build_with_mkosi(directory.path(), profile);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.contains("must still run: update-initramfs -u -k all"), "{stdout}");
    assert!(said.ends_with("still to be run in the image: the tools listed above\n"), "{said}");
    let read = |path: &str| fs::read_to_string(directory.path().join(path)).unwrap();
    let conf = read("mkosi.conf.d/50-bedplate.conf");
    let settings: Vec<&str> = conf.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(settings, ["[Content]", "KernelCommandLine=iommu=pt", "    foo=100%%"]);
    assert_eq!(read("root/etc/default/grub"), "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n");
    assert!(!directory.path().join("root/etc/default/grub.d").exists());
    assert!(read("root/etc/modprobe.d/zz-bedplate.conf").contains("blacklist nouveau"));
}

/// Any other status of `apply` fails the build.
#[test]
fn failed_apply_ends_the_image_build() {
    let directory = tempfile::tempdir().unwrap();
    let profile = "schema = 1\nname = \"p\"\n[sysctl]\nset = { \"kernel.numa_balancing\" = 0 }\n";
    fs::create_dir_all(directory.path().join("root/etc/sysctl.d/zz-bedplate.conf")).unwrap();
    assert!(!build_with_mkosi(directory.path(), profile).status.success());
}

/// Packer builds no boot menu or initrd after the script. A fake bedplate returns the statuses of `apply`.
#[test]
fn packer_build_fails_while_tools_are_pending() {
    let directory = tempfile::tempdir().unwrap();
    let profile = "schema = 1\nname = \"p\"\n[sysctl]\nset = { \"kernel.numa_balancing\" = 0 }\n";
    fs::write(directory.path().join("p.toml"), profile).unwrap();
    let render = ["render", "packer", "--profile", "p.toml", "--cpu", "intel", "-o", "."];
    succeeds(program::bedplate(&render).current_dir(directory.path()), "render");
    let script = fs::read_to_string(directory.path().join("bedplate-provision.sh")).unwrap();
    assert!(script.contains("root=\"/\"\n"), "{script}");
    let stand_in = "bedplate() { return \"$STATUS\"; }\nroot=root\n";
    let script = script.replace("root=\"/\"\n", stand_in);
    for (status, expected) in [("0", 0), ("3", 0), ("4", 4), ("6", 6)] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(directory.path()).env("STATUS", status);
        assert_eq!(shell.status().unwrap().code(), Some(expected), "{status}");
    }
}

#[test]
fn argument_truncated_by_mkosi_is_not_expressible() {
    let directory = tempfile::tempdir().unwrap();
    let profile = "schema = 1\nname = \"p\"\n[cmdline]\nargs = [\"foo=a#b\"]\n";
    fs::write(directory.path().join("p.toml"), profile).unwrap();
    let mut render =
        program::bedplate(&["render", "mkosi", "--profile", "p.toml", "--strict", "-o", "."]);
    let output = render.current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("kernel argument `foo=a#b`"), "{said}");
}

/// Any text is allowed in a profile: no line of it can end the here-document early.
#[test]
fn profile_in_a_script_is_never_a_command() {
    let directory = tempfile::tempdir().unwrap();
    let breakout = "\nBEDPLATE_PROFILE\nBEDPLATE_PROFILE_\n>broken-out\n: <<'X'\n";
    let text = format!(
        "schema = 1\nname = \"numa\"\ndescription = \"\"\"{breakout}\"\"\"\n\
         [sysctl]\nset = {{ \"kernel.numa_balancing\" = {{ value = 0, why = \"\"\"{breakout}\"\"\" }} }}"
    );
    fs::write(directory.path().join("numa.toml"), &text).unwrap();
    let root = directory.path().join("root");
    fs::create_dir_all(root.join("etc")).unwrap();
    let render = ["render", "mkosi", "--profile", "numa.toml", "--cpu", "amd", "-o", "."];
    succeeds(program::bedplate(&render).current_dir(directory.path()), "render");
    let mut script = Command::new("sh");
    // Without a program of that name the script ends after it has written the profile.
    script.arg("mkosi.postinst").current_dir(directory.path()).env("BUILDROOT", &root);
    let _ = script.env("PATH", "/usr/bin:/bin").output().unwrap();
    assert!(!directory.path().join("broken-out").exists());
    let written = fs::read_to_string(root.join("etc/bedplate/profile.toml")).unwrap();
    assert_eq!(written.matches(breakout.trim()).count(), 2, "{written}");
}
