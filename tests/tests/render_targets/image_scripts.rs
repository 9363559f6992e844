//! Scripts of image builds, as the builds run them.

use std::fs;
use std::process::Command;

use bedplate_tests::program;

use crate::consumers::{succeeds, write};
use crate::shipped::{Made, made};

#[test]
fn scripts_of_image_builds_apply_the_profile() {
    for target in ["mkosi", "packer"] {
        for Made { what, rendered } in made(target) {
            let directory = tempfile::tempdir().unwrap();
            write(&rendered, directory.path());
            let script = directory.path().join(&rendered.files[0].path);
            succeeds(Command::new("sh").arg("-n").arg(script), &what);
        }
    }
}

/// What the script leaves in a root directory that has no boot loader, and so no tools that are owed.
#[test]
fn the_script_for_mkosi_leaves_the_profile_and_what_it_asks_for() {
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

/// Whatever stands in a profile is text: no line of it ends the text early.
#[test]
fn the_profile_in_a_script_is_never_a_command() {
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
    // Without a program of that name it ends after the profile was written.
    script.arg("mkosi.postinst").current_dir(directory.path()).env("BUILDROOT", &root);
    let _ = script.env("PATH", "/usr/bin:/bin").output().unwrap();
    assert!(!directory.path().join("broken-out").exists());
    let written = fs::read_to_string(root.join("etc/bedplate/profile.toml")).unwrap();
    assert_eq!(written.matches(breakout.trim()).count(), 2, "{written}");
}
