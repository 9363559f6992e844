//! The next boot entry.

use super::*;

/// A forced request overrides the entry, and no other veto.
#[test]
fn unsound_entry_vetoes_unless_forced() {
    let settings = settings(RebootPolicy::Schedule, &[]);
    let reasons = || vec!["/boot/grub/grub.cfg is empty".to_owned()];
    for entry in
        [NextBoot::Unknown { reasons: reasons() }, NextBoot::Unsound { reasons: reasons() }]
    {
        for asked in [None, Some(request())] {
            let record = Record { asked, ..Record::default() };
            let situation = Situation { entry: &entry, ..free(&settings, &record) };
            let RebootState::Waiting { why, .. } = decide(&situation) else { panic!("no wait") };
            assert_eq!(why[0].waits_for, WaitsFor::BootEntry);
            assert!(why[0].text.ends_with(": /boot/grub/grub.cfg is empty"), "{why:?}");
            let request = record.asked.as_ref().map(|asked| asked.since);
            let scheduled = ScheduledShutdown::Ours { at: now(), request };
            let ours = Situation { scheduled, ..situation };
            assert!(matches!(decide(&ours), RebootState::Cancelling { .. }));
        }
        let record =
            Record { asked: Some(RebootRequest { force: true, ..request() }), ..Record::default() };
        let forced = Situation { entry: &entry, ..free(&settings, &record) };
        assert!(matches!(decide(&forced), RebootState::Scheduling { .. }));
        let busy = [Veto::new(WaitsFor::Devices, "busy")];
        let busy = Situation { vetoes: &busy, ..forced };
        assert!(matches!(decide(&busy), RebootState::Waiting { .. }));
    }
}

/// Without the entry it is unknown whether a change is pending.
#[test]
fn cancelled_reboot_names_the_missing_entry() {
    let settings = settings(RebootPolicy::Schedule, &[]);
    let record = Record::default();
    let entry = NextBoot::Unknown { reasons: vec!["/boot/grub/grub.cfg is empty".to_owned()] };
    for planned in [false, true] {
        let scheduled = ScheduledShutdown::Ours { at: now(), request: None };
        let situation = Situation {
            need: RebootNeed::None,
            planned,
            scheduled,
            entry: &entry,
            ..free(&settings, &record)
        };
        let RebootState::Cancelling { why } = decide(&situation) else { panic!("it stays") };
        assert!(why[0].ends_with(": /boot/grub/grub.cfg is empty"), "{why:?}");
    }
}
