use super::*;

/// Returns the redacted text of a file.
fn kept(path: &str, text: &str) -> String {
    let mut given = Snapshot::new(true);
    given.insert(path, Node::File(text.into()));
    match snapshot(&given, false).0.node(path) {
        Some(Node::File(bytes)) => String::from_utf8(bytes.clone()).unwrap(),
        other => format!("{other:?}"),
    }
}

#[test]
fn command_lines_keep_names_and_harmless_values() {
    for (given, clean) in [
        (
            "iommu=pt pci=realloc,config_acs=xx@0000:17:00.0;0@0000:18:00.0 quiet",
            "iommu=pt pci=realloc,config_acs=xx@0000:17:00.0;0@0000:18:00.0 quiet",
        ),
        (
            "root=/dev/sda ro luks_passphrase=hunter2 quiet",
            "root=/dev/m_1 ro luks_passphrase=m_2____ quiet",
        ),
        ("x=\"two words\" y=two words", "x=\"m_1 m_2__\" y=m_1 m_2__"),
        ("hunter2 -- --token hunter2", "m_1____ -- m_2____ m_1____"),
        ("token=c2VjcmV0Cg== c2VjcmV0Cg==", "token=masked_1____ masked_2__=="),
        ("root=live:CDLABEL=x boot=live", "root=live:masked_1_ boot=live"),
        ("pin=4711 hugepages=4711", "pin=m_1_ hugepages=4711"),
        ("ip=10.1.2.3::10.1.2.1:255.255.255.0", "ip=masked_1________________________"),
        ("BOOTIF=01-aa-bb-cc-dd-ee-ff", "BOOTIF=00-00-00-00-00-00-01"),
        (
            "root=UUID=6a4d3b2c-1f0e-4d5c-8b7a-990011223344",
            "root=UUID=00000000-0000-0000-0000-000000000001",
        ),
    ] {
        assert_eq!(kept("/proc/cmdline", given), clean);
        assert_eq!(kept("/proc/cmdline", clean), clean, "masked once is masked for good");
    }
}

#[test]
fn header_block_and_snapshot_menu_stay_readable() {
    let at = bedplate_host::snapshot_paths::GRUB_HEADER_BLOCK;
    let json = |text: &str| serde_json::to_string(text).unwrap();
    let block = "# GRUB Environment Block\n##token=hunter2\nnext_entry=1>2\ntoken=hunter2\n####";
    let clean = json("# GRUB Environment Block\n#\nnext_entry=1>2\ntoken=m_1____\n####");
    assert_eq!(kept(at, &json(block)), clean);
    assert_eq!(kept(at, &clean), clean, "masked once is masked for good");
    let named = "# GRUB Environment Block\nenv_block=512+1\n####";
    assert_eq!(kept("/boot/grub2/grubenv", named), named);
    let menu = "if [ -z \"$extra_cmdline\" ]; then\n  submenu  \"m_1\" {\n    \
                source \"/.snapshots/2/grub-snapshot.cfg\"\n  }\nfi\n";
    assert_eq!(kept("/.snapshots/grub-snapshot.cfg", menu), menu);
    let caller = "if [ -f \"/.snapshots/grub-snapshot.cfg\" ]; then\n  source \"/.snapshots/grub-snapshot.cfg\"\nfi\n";
    assert_eq!(kept("/boot/grub2/grub.cfg", caller), caller);
}

#[test]
fn linux_script_keeps_only_its_marks() {
    let script = "token=hunter2\n\tGRUB_ENABLE_BLSCFG=\"true\"\nif [ \"x${GRUB_UPDATE_BLS_CMDLINE}\" = \"xyes\" ]; then\n\
                  if [ \"x${GRUB_GRUBENV_UPDATE}\" = \"xyes\" ]; then\n";
    let clean = "GRUB_ENABLE_BLSCFG=\"true\"\nGRUB_UPDATE_BLS_CMDLINE\nGRUB_GRUBENV_UPDATE\n";
    assert_eq!(kept("/etc/grub.d/10_linux", script), clean);
    assert_eq!(kept("/etc/grub.d/10_linux", clean), clean, "masked once is masked for good");
}

/// The kernel limits the length of lines, and planning near the limit depends on every byte.
#[test]
fn masked_command_line_keeps_its_length() {
    let words: Vec<String> =
        (1..=40).map(|n| format!("key{n}={} pw={n:04}", "secret".repeat(n % 9 + 1))).collect();
    let line = words.join(" ");
    let clean = kept("/proc/cmdline", &line);
    assert_eq!(clean.len(), line.len(), "{clean}");
    assert!(!clean.contains("secret") && !clean.contains("0040"), "{clean}");
    assert_eq!(kept("/proc/cmdline", &clean), clean, "masked once is masked for good");
    // There is no shorter mask.
    assert_eq!(kept("/proc/cmdline", "x=ab"), "x=m_1");
}

#[test]
fn only_relevant_kernel_log_lines_stay() {
    let line = |text: &str| format!("{{\"ms\":1,\"text\":{}}}", serde_json::json!(text));
    let log = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|text| line(text)).collect();
        format!("{{\"whole\":true,\"lines\":[{}]}}", lines.join(","))
    };
    let given = log(&[
        "Kernel command line: token=hunter2",
        "audit: user hunter2",
        "Unknown kernel command line parameters \"splash key=hunter2 x=4711\", will be passed",
        "Malformed early option 'token'",
        "PCI: Unknown option `reallok'",
        "NVRM: Xid (PCI:0000:18:00): 119, pid=1, name=hunter2",
    ]);
    let clean = log(&[
        "Unknown kernel command line parameters \"splash key=m_1____ x=m_2_\"",
        "Malformed early option 'token'",
        "PCI: Unknown option `reallok'",
        "NVRM: Xid (PCI:0000:18:00.0): 119",
    ]);
    let path = bedplate_host::snapshot_paths::KERNEL_LOG;
    assert_eq!(kept(path, &given), clean);
    assert_eq!(kept(path, &clean), clean, "masked once is masked for good");
    assert_eq!(kept(path, "hunter2"), "Some(Present)");
}

#[test]
fn equal_values_get_equal_masks_in_all_files() {
    let mut given = Snapshot::new(true);
    let files = [
        (
            "/etc/default/grub",
            "# hunter2\nGRUB_CMDLINE_LINUX=\"foo=hunter2 bar='a b'\"\nX='hunter2'\n",
        ),
        (
            "/boot/grub/grub.cfg",
            "menuentry 'hunter2' {\n\tlinux /vmlinuz-6.8.0-45-generic foo=hunter2\n}\n",
        ),
        ("/etc/kernel/cmdline", "foo=hunter2\n"),
    ];
    files.iter().for_each(|(path, text)| given.insert(path, Node::File((*text).into())));
    let (clean, redactions) = snapshot(&given, false);
    let text = |path: &str| clean.text(path).unwrap();
    let mask = text("/etc/kernel/cmdline").trim().to_owned();
    assert_eq!(text("/etc/default/grub").lines().next(), Some("#"));
    assert!(text("/etc/default/grub").contains(&format!("GRUB_CMDLINE_LINUX=\"{mask} bar='")));
    let line = format!("linux /vmlinuz-6.8.0-45-generic {mask}\n");
    assert!(text("/boot/grub/grub.cfg").contains(&line), "{}", text("/boot/grub/grub.cfg"));
    let said = redactions.to_string();
    assert!(
        said.contains("/etc/kernel/cmdline: 1 value masked") && !said.contains("hunter2"),
        "{said}"
    );
}

/// The plan depends on whether grub-mkconfig made the menu, and whether it is complete.
#[test]
fn marks_of_generated_sections_are_kept() {
    let text = "### BEGIN /etc/grub.d/41_hunter2 ###\ntrue # hunter2\n### END /etc/grub.d/41_hunter2 ###\n";
    let clean = "### BEGIN /etc/grub.d/\ntrue #\n### END /etc/grub.d/\n";
    assert_eq!(kept("/boot/grub2/grub.cfg", text), clean);
    assert_eq!(kept("/boot/grub2/grub.cfg", clean), clean, "masked once is masked for good");
}

/// The plan depends on the loop.
#[test]
fn loop_over_drop_ins_is_kept() {
    let text = "for x in /etc/default/grub.d/*.cfg ; do\n  if [ -e \"${x}\" ]; then\n    . \"${x}\"\n  fi\ndone\n";
    assert_eq!(kept("/etc/default/grub", text), text);
    for text in ["for hunter2 in a b; do\n", "X=\"for hunter2 in /etc/default/grub.d/x\"\n"] {
        assert!(!kept("/etc/default/grub", text).contains("hunter2"), "{text}");
    }
}

#[test]
fn unused_files_lose_their_content() {
    for path in [
        "/etc/systemd/network/wg0.netdev",
        "/etc/bedplate/notes",
        "/var/lib/bedplate/daemon/reboot.json",
        "/etc/shadow",
    ] {
        assert_eq!(kept(path, "[WireGuard]\nPrivateKey=hunter2\n"), "Some(Present)", "{path}");
    }
    let link = "[Match]\nMACAddress=52:54:00:12:34:56\n[Link]\nSR-IOVVirtualFunctions=8\n";
    assert_eq!(kept("/etc/systemd/network/a.link", link), "SR-IOVVirtualFunctions=8\n");
}

#[test]
fn gids_keep_their_type_and_numeric_guids_are_masked() {
    let port = "/sys/devices/pci0000:00/infiniband/mlx5_0/ports/1/gids";
    for (given, clean) in [
        ("0000:0000:0000:0000:0000:0000:0000:0000", "0000:0000:0000:0000:0000:0000:0000:0000"),
        ("fe80:0000:0000:0000:9e63:c0ff:fe00:0013", "fe80:0000:0000:0000:0000:0000:0000:0001"),
        ("0000:0000:0000:0000:0000:ffff:0a01:0203", "0000:0000:0000:0000:0000:ffff:0000:0001"),
        ("2001:0db8:0000:0000:9e63:c0ff:fe00:0013", "0000:0000:0000:0000:0000:0000:0000:0001"),
    ] {
        let path = format!("{port}/0");
        assert_eq!(kept(&path, given), clean);
        assert_eq!(kept(&path, clean), clean, "masked once is masked for good");
    }
    let guid = "/sys/devices/pci0000:00/infiniband/mlx5_0/node_guid";
    assert_eq!(kept(guid, "5000:1234:0012:3456"), "0000:0000:0000:0001");
    assert_eq!(kept(guid, "0000:0000:0000:0000"), "0000:0000:0000:0000");
}

#[test]
fn units_and_limits_keep_only_memory_settings() {
    let unit = "[Unit]\nDescription=hunter2\n[Service]\nEnvironment=TOKEN=hunter2\nLimitMEMLOCK=infinity\n";
    let clean = "[Unit]\n[Service]\nLimitMEMLOCK=infinity\n";
    assert_eq!(kept("/usr/lib/systemd/system/slurmd.service", unit), clean);
    let limits = "hunter2 - memlock unlimited\n* - memlock unlimited # hunter2\n* soft nofile 1\n";
    assert_eq!(kept("/etc/security/limits.d/a.conf", limits), "* - memlock unlimited\n");
    let running = "Max cpu time    9 9 seconds\nMax locked memory  8388608 8388608 bytes\n";
    assert_eq!(kept("/proc/812/limits", running), "Max locked memory  8388608 8388608 bytes\n");
    let mounts = "hunter2:/home /home nfs4 rw,addr=192.0.2.1 0 0\nshm /dev/shm tmpfs rw,uid=7,size=65536k 0 0\n";
    assert_eq!(kept("/proc/mounts", mounts), "tmpfs /dev/shm tmpfs rw,size=65536k 0 0\n");
}

#[test]
fn cufile_json_keeps_its_lines_types_and_checked_names() {
    let given = "{ // hunter2\n \"logging\": { \"level\": 2, \"dir\": \"/home/hunter2\" },\n \"hunter2\": hunter2\n}";
    let clean = "{           \n \"logging\": { \"level\": 2, \"dir\": \"masked_1\" },\n \"masked_2\": masked_2\n}";
    assert_eq!(kept("/etc/cufile.json", given), clean);
    assert_eq!(kept("/etc/cufile.json", clean), clean, "masked once is masked for good");
}

#[test]
fn identifiers_stay_on_request() {
    let mut given = Snapshot::new(true);
    let line =
        "BOOTIF=01-aa-bb-cc-dd-ee-ff root=UUID=6a4d3b2c-1f0e-4d5c-8b7a-990011223344 token=hunter2";
    given.insert("/proc/cmdline", Node::File(line.into()));
    let (clean, _) = snapshot(&given, true);
    assert_eq!(clean.text("/proc/cmdline").unwrap(), line.replace("hunter2", "m_1____"));
}

#[test]
fn masked_serial_numbers_still_pair() {
    let path = |bus: &str| format!("/sys/devices/pci0000:00/{bus}/vpd");
    let mut given = Snapshot::new(true);
    for (bus, serial, uuid) in
        [("0000:01:00.0", "MT2334", "1e6b4fdf"), ("0008:03:00.0", "MT2335", "1e6b4fdf")]
    {
        given.insert(&path(bus), Node::File(bedplate_testhosts::vpd("ConnectX", serial, uuid)));
    }
    let (clean, _) = snapshot(&given, false);
    let read = |bus: &str| vpd::parse(&clean.read(&path(bus)).unwrap()).unwrap();
    let (nic, dma) = (read("0000:01:00.0"), read("0008:03:00.0"));
    assert_eq!(nic.adapter, dma.adapter);
    assert_ne!(nic.board, dma.board);
    for bus in ["0000:01:00.0", "0008:03:00.0"] {
        let text = String::from_utf8_lossy(&clean.read(&path(bus)).unwrap()).into_owned();
        for secret in ["MT2334", "MT2335", "1e6b4fdf"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(text.contains("900-9X86E"), "what the product is stays: {text}");
    }
    assert_eq!(snapshot(&clean, false).0, clean, "masked once is masked for good");
}

#[test]
fn machine_ids_are_replaced_in_names_and_texts() {
    let id = "5f3c0a9e7b1d4c2e8a6f0b3d2c1e4f50";
    let mut given = Snapshot::new(true);
    let entry = format!("{id}-6.8.0.conf");
    given.insert("/boot/loader/entries", Node::Dir(Some(vec![entry.clone()])));
    given.insert(
        &format!("/boot/loader/entries/{entry}"),
        Node::File(format!("linux /{id}/linux\n").into()),
    );
    given.insert("/boot/grub2/grubenv", Node::File(format!("saved_entry={id}-6.8.0\n####").into()));
    given
        .insert("/sys/class/net/enx001122334455", Node::Link("../../x/net/enx001122334455".into()));
    let (clean, _) = snapshot(&given, false);
    let text = clean.to_text();
    assert!(!text.contains(id) && !text.contains("001122334455"), "{text}");
    assert!(clean.node(&format!("/boot/loader/entries/{:032}-6.8.0.conf", 1)).is_some(), "{text}");
    assert!(text.contains(&format!("saved_entry={:032}-6.8.0", 1)), "{text}");
}
