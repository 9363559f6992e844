//! Prefix of a kernel message.

/// Whether `before` is a prefix that the kernel writes. It is empty, or consists of parts of one or two words, each
/// followed by a colon (`nvidia 0000:18:00.0: `, `pcieport 0000:17:01.0: pciehp: Slot(12): `). Text that users choose
/// (names of programs and files) does not match: a process id in brackets follows a program's name.
pub fn is_prefix(before: &str) -> bool {
    let before = before.strip_prefix("[Firmware Bug]: ").unwrap_or(before);
    let is_part = |part: &str| {
        let of_kernel = |c: char| c.is_ascii_alphanumeric() || "_-.:()#".contains(c);
        let words: Vec<&str> = part.split(' ').collect();
        words.len() <= 2 && words.iter().all(|word| !word.is_empty() && word.chars().all(of_kernel))
    };
    before.is_empty()
        || before.strip_suffix(": ").is_some_and(|parts| parts.split(": ").all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_chosen_text_is_not_a_prefix() {
        for own in [
            "",
            "nvidia 0000:18:00.0: ",
            "pcieport 0000:17:01.0: pciehp: Slot(12): ",
            "mlx5_core 0000:19:00.0: mlx5_health_try_recover:350:(pid 7): ",
            "NVRM: GPU 0000:18:00.0: ",
            "[Firmware Bug]: ",
            "DMAR: dmar0: ",
            "arm-smmu-v3 arm-smmu-v3.0.auto: ",
        ] {
            assert!(is_prefix(own), "{own}");
        }
        for foreign in [
            "python3[26666]: segfault at 0 ip 00 error 4 in ",
            "python3[26666]: segfault at 0 ip 00 error 4 in 0000:18:00.0: ",
            "0000:18:00.0: a[7]: segfault at 0 error 4 in ",
            "traps: x[7] general protection fault ip:0 error:0 in 0000:18:00.0: ",
            "overlayfs: failed to resolve '/",
            "overlayfs: failed to resolve '/nvidia 0000:18:00.0: ",
            "amdgpu 0000:18:00.0: amdgpu:  in process x pid 7: ",
            "audit: type=1400 audit(1.2:3): apparmor=\"DENIED\" name=\"/nvidia 0000:18:00.0: ",
            "x",
        ] {
            assert!(!is_prefix(foreign), "{foreign}");
        }
    }
}
