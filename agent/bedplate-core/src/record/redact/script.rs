//! Meaningful words of scripts and boot entries: keywords, commands, options, and keys. They are never secret.

/// Words of scripts and entries that parsers evaluate.
#[rustfmt::skip]
pub(super) const SCRIPT: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in",
    "function", "test", "source", "eval", "export", "readonly", "declare", "typeset", "local", "unset",
    "alias", "set", "shift", "read", "printf", "echo", "true", "false", "trap", "exit", "return", "command",
    "builtin", "exec", "cat", "menuentry", "submenu", "linux", "linuxefi", "linux16", "initrd", "initrdefi",
    "initrd16", "insmod", "search", "load_env", "save_env", "load_video", "blscfg", "bls_import",
    "configfile", "normal", "increment", "decrement", "regexp", "probe", "set_background_image",
    "terminal_input", "terminal_output", "loadfont", "recordfail", "gfxmode", "savedefault",
    "extract_entries_source", "fwsetup", "uefi-firmware", "--class", "--id", "--unrestricted", "--users",
    "--hotkey", "--source", "--set", "--file", "--fs-uuid", "--no-floppy", "--label", "-f", "-s", "-d", "-n",
    "-z", "-e", "-r", "title", "version", "machine-id", "options", "id", "sort-key", "architecture", "efi",
    "devicetree", "grub_users", "grub_hotkey", "grub_arg", "grub_class", "default", "timeout", "editor",
    "console-mode", "auto-entries", "saved", "@saved", "kargs", "match-architectures", "x86_64", "aarch64",
    "gzio", "part_gpt", "part_msdos", "ext2", "xfs", "btrfs", "fat", "gnu-linux", "os", "boot", "dev", "bin",
    "etc", "user.cfg", "custom.cfg", "grubenv", "password", "password_pbkdf2", "pre", "post", "install",
    "remove", "blacklist", "softdep", "tuned_params", "kernelopts", "layout", "bls", "uki", "grub", "dracut",
    "ukify", "LOADER_TYPE", "grub2", "grub2-efi", "systemd-boot", "-", "--", "@", ".", "..", "root", "ro",
    "feature_menuentry_id", "--is-supported", "halt", "poweroff", "reboot", "chainloader", "rmmod", "superusers",
    "timeout_style", "grub.d", "*.cfg", ".snapshots", "grub-snapshot.cfg", "extra_cmdline", "env_block", "512+1",
];
