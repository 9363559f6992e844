//! Log output of the daemon: to the journal with fields and message ids that its catalog explains (`journalctl -x`), or as
//! text if stderr is not the journal. One table of messages; the catalog in systemd/ has one entry for each.

use std::path::Path;

use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::observation::Difference;
use bedplate_base::terminal::one_line;
use bedplate_core::plan::Item;
use bedplate_host::file;

/// A type of message. Its id never changes: programs and the catalog refer to it (journald: MESSAGE_ID).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// 128 bits, in hexadecimal.
    pub id: &'static str,
    level: Level,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Info,
    Warning,
    Error,
}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident $level:ident $id:literal;)*) => {
        $($(#[$doc])* pub const $name: Message = Message { id: $id, level: Level::$level };)*
        /// Every message.
        pub const MESSAGES: &[Message] = &[$($name),*];
    };
}

messages! {
    /// The host matches the profile.
    CONVERGED Info "b7b4761e94dc4426974b05ab54bbba1d";
    /// A setting differs from the profile.
    DRIFT Warning "1eeb8193cd4a45049b0bb3aeeacd15af";
    /// A change was applied.
    DONE Info "cfd430d0038542f8a88968592a4e3528";
    /// A change failed.
    FAILED Error "bc983823642049bfbb11899ad1712159";
    /// An error outside the changes: the daemon observes, stores or reports less than it should.
    IMPAIRED Error "e3cbe730db5848c0a66646996961c1f7";
    /// Another program or an operator keeps reverting a change.
    CONFLICT Error "60823d6c7df04d89880a3c9264e99a03";
    /// An operator paused enforcement.
    PAUSED Warning "16b31505794844c5ab87ee3c53979774";
    /// An operator resumed enforcement.
    RELEASED Info "e55d2029f45f4207ac30100003b10a60";
    /// Operator action is required.
    BLOCKED Warning "78420a2966d743359c5869884c0f4ebc";
    /// A value could not be read: whether the host matches the profile is unknown.
    UNREAD Warning "4e76316987ce4903bacd10821d19b5b4";
    /// A check of `bedplate verify` no longer passes.
    CHECK Warning "9cf7bc85e4d54e049142368819ede1a3";
    /// The check passes again.
    CHECK_PASSED Info "281cbdee5d0547699347d1bc629079e0";
    /// The profile is unusable, or the host cannot be observed.
    UNUSABLE Error "066b72f8c1a8418f989c892be6409883";
    /// The bus is connected again.
    CONNECTED Info "9c3ad0a6b3f24c0c8d3f4f5f0f6f2f51";
    /// The operator has installed no profile.
    NO_PROFILE Warning "5d0c1fa34a1c4f0c9e2b7c64d0a3b8e1";
    /// A change takes effect only at the next boot.
    REBOOT_NEEDED Warning "49fdda36c64a4b7899d84f11b13fcf78";
    /// A manual reboot has been due for days.
    REBOOT_MANUAL Warning "7a8ce45c5bbe4532a4b4a9f1213cdcab";
    /// A reboot is scheduled.
    REBOOT_SCHEDULED Warning "d45d437b23c44c6495b448573cc1cdd2";
    /// bedplate cancelled its own scheduled reboot.
    REBOOT_CANCELLED_BY_AGENT Warning "1ede2787d2ce45dda411c5d58cf6fa29";
    /// An operator or another program cancelled bedplate's scheduled reboot.
    REBOOT_CANCELLED Warning "b1b6f6fd2e8a4a0a9b9d3c5c0e7d9a44";
    /// A reboot is blocked.
    REBOOT_WAITS Info "827e7f4673c04e03be6203e7e35f3353";
    /// A reboot did not happen, or its armed method could not be disarmed.
    REBOOT_FAILED Error "70502a541e514471942c5246534e225f";
    /// Reboot that this boot follows.
    REBOOT_CAUSE Info "0f0cbbfb02ff48b9b4644dccb657b3b7";
    /// Reboots did not bring the change into effect.
    ATTEMPTS_EXHAUSTED Error "a977b8833be54dbf8e8fd51eb52c8d44";
    /// State of the reboot lock.
    LOCK Info "ea8e04687ae549f181559d5991bd6c24";
    /// A slot of the reboot lock is not released yet.
    LOCK_KEPT Warning "1e6412d56c034fdb8a265dd4a0c0e47c";
    /// Waiting units were started although the host has not converged.
    READY_LATE Error "e6541d2f034f4668988e056a56e827c8";
    /// The boot continued although not all settings were restored.
    BOOT_LATE Error "3538a758af10425cbc24e74967ee88cb";
}

/// Sends logs to the journal if stderr is connected to it, else to stderr as text.
pub fn start() {
    let registry = tracing_subscriber::registry().with(LevelFilter::INFO);
    let journal = std::env::var_os("JOURNAL_STREAM").and_then(|_| tracing_journald::layer().ok());
    // journald determines the unit of a sender when it receives the message, and fails if the sender has exited by then.
    // `journalctl -u` also uses this field if root set it (systemd.journal-fields(7)).
    let cgroups = file::text(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let unit = unit(&cgroups).map(|unit| ("OBJECT_SYSTEMD_UNIT", unit));
    match journal {
        // BEDPLATE_KIND, not F_BEDPLATE_KIND: the names are documented.
        Some(journal) => {
            registry.with(journal.with_field_prefix(None).with_custom_fields(unit)).init();
        }
        None => registry.with(text(std::io::stderr)).init(),
    }
}

/// Returns the systemd unit of a process with these control groups (`/proc/PID/cgroup`): the first part below the
/// slices, in systemd's hierarchy.
fn unit(cgroups: &str) -> Option<&str> {
    let mut paths = cgroups.lines().filter_map(|line| {
        line.strip_prefix("0::").or_else(|| line.split_once(":name=systemd:").map(|(_, path)| path))
    });
    paths
        .find_map(|path| path.split('/').find(|part| !part.is_empty() && !part.ends_with(".slice")))
}

/// Returns the layer that writes human-readable lines.
fn text<S, W>(writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_target(false)
        .without_time()
        .with_ansi(false)
        // Fields are for programs; the message contains the same data as text.
        .fmt_fields(debug_fn(|writer, field, value| match field.name() {
            "message" => writer.write_str(&one_line(&format!("{value:?}"))),
            _ => Ok(()),
        }))
}

/// Logs a message without fields of a change.
pub fn log_message(message: Message, text: &str) {
    let (id, text) = (message.id, one_line(text));
    match message.level {
        Level::Info => tracing::info!(message_id = id, "{text}"),
        Level::Warning => tracing::warn!(message_id = id, "{text}"),
        Level::Error => tracing::error!(message_id = id, "{text}"),
    }
}

/// Logs one message for each value of a change.
pub(crate) fn say_of(message: Message, plan: &str, change: &Difference, text: &str) {
    let nothing =
        Item { subject: change.subject.clone(), before: None, after: None, why: Vec::new() };
    let items =
        if change.items.is_empty() { std::slice::from_ref(&nothing) } else { &change.items };
    for item in items {
        let (id, kind, subject) = (message.id, change.kind.name(), item.subject.as_str());
        let before = item.before.as_deref().unwrap_or("");
        let after = item.after.as_deref().unwrap_or("");
        let shown =
            |value: &str| if value.is_empty() { "absent".to_owned() } else { value.to_owned() };
        let line =
            format!("{text}: {} {subject}: {} → {}", change.subject, shown(before), shown(after));
        let line = one_line(&line);
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    message_id = id,
                    bedplate_kind = kind,
                    bedplate_subject = subject,
                    bedplate_before = before,
                    bedplate_after = after,
                    bedplate_plan = plan,
                    "{line}"
                )
            };
        }
        match message.level {
            Level::Info => log!(info),
            Level::Warning => log!(warn),
            Level::Error => log!(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// `journalctl -x` explains every message, and the catalog has no unused entry.
    #[test]
    fn catalog_has_exactly_one_entry_per_message() {
        let catalog = include_str!("../systemd/catalog/bedplate.catalog");
        let mut entries: Vec<&str> =
            catalog.lines().filter_map(|line| line.strip_prefix("-- ")).collect();
        let mut ids: Vec<&str> = MESSAGES.iter().map(|message| message.id).collect();
        entries.sort_unstable();
        ids.sort_unstable();
        assert_eq!(entries, ids);
        for entry in catalog.split("\n-- ").skip(1) {
            let mut lines = entry.lines().skip(1);
            let subject = lines.find(|line| line.starts_with("Subject: ")).unwrap();
            assert!(subject.len() > 12, "{entry}");
            assert!(entry.lines().filter(|line| !line.is_empty()).count() >= 4, "{entry}");
        }
    }

    /// stderr may be a terminal, and messages quote texts of the host.
    #[test]
    fn messages_contain_no_control_characters() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&written);
        let layer = text(move || Sink(Arc::clone(&sink)));
        let registry = tracing_subscriber::registry().with(layer);
        let evil = "x\x1b[2J\u{9b}31m\u{202e}\r\nERROR forged";
        let item =
            Item { subject: evil.into(), before: Some(evil.into()), after: None, why: Vec::new() };
        let change = Difference {
            id: "acs/x".into(),
            kind: bedplate_core::plan::KindId::Acs,
            subject: evil.into(),
            effect: bedplate_core::plan::Effect::Now,
            live: true,
            modules: false,
            items: vec![item],
        };
        tracing::subscriber::with_default(registry, || {
            log_message(BLOCKED, evil);
            say_of(DRIFT, "p", &change, evil);
            tracing::info!("{evil}");
        });
        let shown = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(
            !shown.contains(|c| bedplate_base::terminal::is_control(c) && c != '\n'),
            "{shown:?}"
        );
    }

    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn unit_is_parsed_from_cgroups() {
        let boot = Some("bedplate-boot.service");
        assert_eq!(unit("0::/system.slice/bedplate-boot.service\n"), boot);
        assert_eq!(unit("0::/system.slice/system-x.slice/bedplate-boot.service/worker\n"), boot);
        let hybrid = "2:cpu,cpuacct:/x\n1:name=systemd:/system.slice/bedplate-boot.service\n0::/\n";
        assert_eq!(unit(hybrid), boot);
        assert_eq!(unit("0::/\n"), None);
        assert_eq!(unit(""), None);
    }

    #[test]
    fn message_ids_are_32_hex_digits() {
        for message in MESSAGES {
            assert!(
                message.id.len() == 32 && message.id.bytes().all(|b| b.is_ascii_hexdigit()),
                "{}",
                message.id
            );
        }
    }
}
