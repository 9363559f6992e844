//! Groups of kernels that enable ACS too late.

use super::*;

#[test]
fn merged_groups_are_attributed_to_kernel_release() {
    let explained = |release: &str, group_of: fn(usize) -> u32| {
        let mut facts = lab().facts();
        let Reading::Known(tree) = &mut facts.pci else { panic!() };
        for (index, function) in tree.functions.values_mut().enumerate() {
            function.iommu_group = Reading::Known(group_of(index));
        }
        kernel(&mut facts, release);
        facts.os.kernel = Reading::Known(release.into());
        let resolved = resolve(&direct(), &facts);
        resolved.notes.iter().any(|note| note.text.contains("c41e2fb67e26"))
    };
    assert!(explained("6.12.75", |_| 7));
    assert!(!explained("6.12.74", |_| 7), "another release");
    assert!(!explained("6.12.75", |index| index as u32), "every function by itself");
}
