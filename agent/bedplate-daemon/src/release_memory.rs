//! Gives pages of the heap that hold nothing and of the program's own code back before the daemon sleeps. What a start and an observation need of it (argument
//! parsing, TOML, TLS) is mapped by then, 64 KiB around every place that ran, and would stay for days although a sleeping
//! daemon needs a tenth of it. Two thirds of what it held were such pages.

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::mman::{MmapAdvise, madvise};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use bedplate_host::file;

/// Quiet on the bus that ends a burst of messages.
const QUIET: Duration = Duration::from_secs(3);
/// A burst that goes on longer gives pages back, too.
const LONGEST: Duration = Duration::from_secs(60);

/// Gives pages back after each burst on the bus, of which the loop hears nothing. `message`: one has arrived.
pub(crate) async fn after_bursts(message: Arc<Notify>) {
    loop {
        message.notified().await;
        let end = Instant::now() + LONGEST;
        let burst = async { while timeout(QUIET, message.notified()).await.is_ok() {} };
        // Both ends are ends.
        let _ = timeout_at(end, burst).await;
        release_memory();
    }
}

/// Returns what was freed to the kernel: it lies between what is in use, and the allocator would keep it.
#[cfg(target_env = "gnu")]
fn trim_heap() {
    #[expect(unsafe_code, reason = "no other way to tell the allocator")]
    // SAFETY: it takes a number and touches only what nothing uses; it may be called at any time (malloc_trim(3)).
    let _ = unsafe { nix::libc::malloc_trim(0) };
}

/// Other allocators return it by themselves.
#[cfg(not(target_env = "gnu"))]
fn trim_heap() {}

/// Trims the heap, and unmaps the code of the program and its libraries. The kernel maps again, page by page, what runs next; that costs some
/// fifty minor faults.
///
/// Nothing depends on it: where /proc is not readable, or the kernel refuses, the pages stay.
pub(crate) fn release_memory() {
    trim_heap();
    let Ok(maps) = file::text(Path::new("/proc/self/maps")) else { return };
    for (start, length) in maps.lines().filter_map(code) {
        let Some(start) = NonNull::new(std::ptr::without_provenance_mut(start)) else { continue };
        #[expect(unsafe_code, reason = "no other way to tell the kernel")]
        // SAFETY: a mapping that is not writable and comes from a file holds just what the file holds, and after
        // MADV_DONTNEED a private mapping is filled from the file again (madvise(2)). Relocated data is no such mapping:
        // `code` takes executable ones only, and there are no relocations in them (no DT_TEXTREL; the linker refuses it).
        // The length is the mapping's own, so nothing else is touched.
        let _ = unsafe { madvise(start, length, MmapAdvise::MADV_DONTNEED) };
    }
}

/// Start and length in bytes of a mapping of code from a file, from a line of /proc/self/maps (proc_pid_maps(5)).
fn code(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    // Offset, device, inode, path: `[vdso]` has no file.
    let from_file = fields.nth(3)?.starts_with('/');
    if permissions != "r-xp" || !from_file {
        return None;
    }
    let start = usize::from_str_radix(start, 16).ok()?;
    Some((start, usize::from_str_radix(end, 16).ok()?.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_from_files_is_given_back() {
        let line = "55d0c4a00000-55d0c4a01000 r-xp 00193000 fe:00 1316 /usr/bin/bedplate";
        assert_eq!(code(line), Some((0x55d0_c4a0_0000, 0x1000)));
        for other in [
            "55d0c4b00000-55d0c4b22000 r--p 00920000 fe:00 1316 /usr/bin/bedplate",
            "55d0c4b22000-55d0c4b23000 rw-p 00942000 fe:00 1316 /usr/bin/bedplate",
            "7ffd1c1f2000-7ffd1c1f4000 r-xp 00000000 00:00 0 [vdso]",
            "7f0000000000-7f0000001000 r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(code(other), None, "{other}");
        }
    }

    /// KiB, of a line of /proc/self/status.
    fn resident(what: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn freed_heap_between_used_pieces_goes_back() {
        let pieces: Vec<Vec<u8>> = (0..40_000).map(|_| vec![1; 1024]).collect();
        let before = resident("RssAnon:");
        // Each last of a thousand stays, so that the heap has holes and no free end.
        let kept: Vec<Vec<u8>> = pieces.into_iter().skip(999).step_by(1000).collect();
        release_memory();
        let after = resident("RssAnon:");
        assert!(after + 20_000 < before, "{before} KiB before, {after} KiB after");
        assert!(kept.iter().all(|piece| piece[0] == 1));
    }

    #[test]
    fn pages_go_and_the_program_goes_on() {
        // A lot of code that the rest of this test has no use for.
        assert!(
            bedplate_testhosts::snapshot("hgx").is_some()
                && bedplate_core::profile::schema().is_object()
        );
        let before = resident("RssFile:");
        release_memory();
        let after = resident("RssFile:");
        assert!(after < before, "{before} KiB before, {after} KiB after");
    }
}
