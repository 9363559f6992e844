//! Returns unused heap pages and the program's own code to the kernel before the daemon sleeps. Startup and observations
//! (argument parsing, TOML, TLS) map code in blocks of 64 KiB. Without this the pages would stay for days although a sleeping
//! daemon needs a tenth of them; they were two thirds of its memory.

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::mman::{MmapAdvise, madvise};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use bedplate_host::file;

/// Quiet time on the bus that ends a burst of messages.
const QUIET: Duration = Duration::from_secs(3);
/// Pages are also released during a burst that exceeds this time.
const LONGEST: Duration = Duration::from_secs(60);

/// Releases pages after each burst on the bus; the loop does not see those messages. `message` is notified of each message.
pub(crate) async fn after_bursts(message: Arc<Notify>) {
    loop {
        message.notified().await;
        let end = Instant::now() + LONGEST;
        let burst = async { while timeout(QUIET, message.notified()).await.is_ok() {} };
        // Both quiet and time limit end the burst.
        let _ = timeout_at(end, burst).await;
        release_memory();
    }
}

/// Returns freed memory to the kernel. It lies between used blocks, and the allocator would retain it.
#[cfg(target_env = "gnu")]
fn trim_heap() {
    #[expect(unsafe_code, reason = "no other way to tell the allocator")]
    // SAFETY: it takes a number and touches only unused memory; it may be called at any time (malloc_trim(3)).
    let _ = unsafe { nix::libc::malloc_trim(0) };
}

/// Other allocators return it on their own.
#[cfg(not(target_env = "gnu"))]
fn trim_heap() {}

/// Trims the heap, and unmaps the code of the program and its libraries. The kernel maps it again page by page on use, at the
/// cost of about fifty minor faults.
///
/// Nothing depends on it: if /proc is unreadable or the kernel refuses, the pages stay.
pub(crate) fn release_memory() {
    trim_heap();
    let Ok(maps) = file::text(Path::new("/proc/self/maps")) else { return };
    for (start, length) in maps.lines().filter_map(code) {
        let Some(start) = NonNull::new(std::ptr::without_provenance_mut(start)) else { continue };
        #[expect(unsafe_code, reason = "no other way to tell the kernel")]
        // SAFETY: a mapping that is not writable and is backed by a file holds exactly the file's content. After
        // MADV_DONTNEED a private mapping is filled from the file again (madvise(2)). Relocated data is no such mapping:
        // `code` returns executable mappings only, and they contain no relocations (no DT_TEXTREL; the linker refuses it).
        // The length is the mapping's own, so nothing else is touched.
        let _ = unsafe { madvise(start, length, MmapAdvise::MADV_DONTNEED) };
    }
}

/// Returns start and length in bytes of a code mapping backed by a file, from a line of /proc/self/maps (proc_pid_maps(5)).
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
    fn only_file_backed_code_is_released() {
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

    /// Returns a value in KiB from /proc/self/status.
    fn resident(what: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn heap_holes_are_released() {
        let pieces: Vec<Vec<u8>> = (0..40_000).map(|_| vec![1; 1024]).collect();
        let before = resident("RssAnon:");
        // One of every thousand stays, so that the heap has holes and no free end.
        let kept: Vec<Vec<u8>> = pieces.into_iter().skip(999).step_by(1000).collect();
        release_memory();
        let after = resident("RssAnon:");
        assert!(after + 20_000 < before, "{before} KiB before, {after} KiB after");
        assert!(kept.iter().all(|piece| piece[0] == 1));
    }

    #[test]
    fn program_runs_on_after_code_pages_are_released() {
        // Runs much code that the rest of this test does not use.
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
