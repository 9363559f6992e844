//! The Ansible role and the cloud-init snippet, checked by the real programs; bedplate checks the profiles in both.

use std::path::Path;
use std::process::Command;

use bedplate_tests::{fixtures, program};

use super::{shipped, yaml};

/// Checks that a profile is valid.
fn checked(directory: &Path, profile: &str) {
    let file = directory.join("profile.toml");
    std::fs::write(&file, profile).expect("ours");
    program::stdout(&["profile", "check", &file.display().to_string()]);
}

#[test]
#[cfg_attr(not(has = "ansible-playbook"), ignore = "needs ansible-playbook")]
fn role_is_valid() {
    let ansible = fixtures::tool("ansible-playbook");
    let directory = tempfile::tempdir().expect("a directory");
    let play = directory.path().join("play.yml");
    std::fs::write(&play, "- hosts: localhost\n  gather_facts: false\n  roles: [bedplate]\n")
        .expect("ours");
    let done = Command::new(ansible)
        .args(["--syntax-check", "-i", "localhost,"])
        .arg(&play)
        .env("ANSIBLE_ROLES_PATH", shipped("ansible"))
        .env("ANSIBLE_HOME", directory.path())
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && !said.contains("ERROR"), "{said}");
    let defaults = yaml("ansible/bedplate/defaults/main.yml");
    checked(directory.path(), defaults["bedplate_profile"].as_str().expect("a profile"));
    let tasks = yaml("ansible/bedplate/tasks/main.yml");
    let copy = "ansible.builtin.copy";
    let profile =
        tasks.as_array().expect("tasks").iter().find(|task| task["name"] == "Install the profile");
    let copied = &profile.expect("there is one")[copy];
    assert_eq!(copied["validate"], "/usr/bin/bedplate profile check %s");
    assert_eq!(copied["mode"], "0644");
}

#[test]
#[cfg_attr(not(has = "cloud-init"), ignore = "needs cloud-init")]
fn user_data_is_valid() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = yaml("cloud-init/bedplate.yaml");
    checked(directory.path(), data["write_files"][0]["content"].as_str().expect("a profile"));
    let cloud_init = fixtures::tool("cloud-init");
    let done = Command::new(cloud_init)
        .args(["schema", "--config-file"])
        .arg(shipped("cloud-init/bedplate.yaml"))
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && said.contains("Valid"), "{said} {done:?}");
}
