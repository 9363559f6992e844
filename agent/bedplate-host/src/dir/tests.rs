//! Reach of a directory reader, and its errors.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bedplate-dir-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("root/etc")).unwrap();
        std::fs::write(path.join("secret"), "outside").unwrap();
        Tree(path)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    fn reader(&self) -> DirReader {
        DirReader::image(&self.root()).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn no_link_leaves_an_image() {
    let tree = Tree::new("escape");
    let etc = tree.root().join("etc");
    symlink(tree.0.join("secret"), etc.join("absolute")).unwrap();
    symlink("../../secret", etc.join("dots")).unwrap();
    symlink(&tree.0, etc.join("directory")).unwrap();
    symlink("/proc/self/cwd", etc.join("magic")).unwrap();
    let reader = tree.reader();
    for path in [
        "/etc/absolute",
        "/etc/dots",
        "/etc/directory/secret",
        "/../secret",
        "/etc/magic/Cargo.toml",
    ] {
        let error = reader.read(path).unwrap_err();
        assert!(error.is_absent(), "{path}: {error}");
        assert_eq!(reader.exists(path), Ok(false), "{path}");
        assert!(reader.read_start(path, 4).is_err(), "{path}");
    }
    assert!(reader.list("/etc/directory").unwrap_err().is_absent());
    assert!(reader.link("/etc/directory/x").unwrap_err().is_absent());
    assert_eq!(reader.link("/etc/dots").unwrap(), "../../secret");
}

#[test]
fn absolute_links_resolve_inside_image() {
    let tree = Tree::new("inside");
    std::fs::write(tree.root().join("etc/real"), "inside").unwrap();
    symlink("/etc/real", tree.root().join("etc/link")).unwrap();
    let reader = tree.reader();
    assert_eq!(reader.text("/etc/link").unwrap(), "inside");
    assert_eq!(reader.links("/etc").unwrap(), [("link".to_owned(), "/etc/real".to_owned())]);
    assert_eq!(reader.list("/etc").unwrap(), ["link", "real"]);
    assert!(matches!(reader.link("/etc/real"), Err(ReadError::Failed { .. })));
}

#[test]
fn function_fast_path_follows_no_links_out() {
    let tree = Tree::new("device");
    let real = tree.root().join("sys/devices/pci0000:00/0000:00:01.0");
    std::fs::create_dir_all(&real).unwrap();
    std::fs::create_dir_all(tree.root().join("sys/bus/pci/devices")).unwrap();
    symlink(
        "../../../devices/pci0000:00/0000:00:01.0",
        tree.root().join("sys/bus/pci/devices/0000:00:01.0"),
    )
    .unwrap();
    std::fs::write(real.join("class"), "0x060400\n").unwrap();
    symlink(tree.0.join("secret"), real.join("vendor")).unwrap();
    symlink("class", real.join("alias")).unwrap();
    symlink(tree.0.join("outside"), real.join("net")).unwrap();
    let reader = tree.reader();
    // A function whose real directory is a link out of the image.
    std::fs::create_dir_all(tree.0.join("outside")).unwrap();
    symlink("secret-link", tree.0.join("outside/iommu_group")).unwrap();
    std::fs::write(tree.0.join("outside/class"), "outside").unwrap();
    symlink(tree.0.join("outside"), real.parent().unwrap().join("0000:00:03.0")).unwrap();
    symlink(
        "../../../devices/pci0000:00/0000:00:03.0",
        tree.root().join("sys/bus/pci/devices/0000:00:03.0"),
    )
    .unwrap();
    symlink("../../../../secret", tree.root().join("sys/bus/pci/devices/0000:00:04.0")).unwrap();
    for remembered in [false, true] {
        if remembered {
            assert_eq!(reader.links("/sys/bus/pci/devices").unwrap().len(), 3);
        }
        let device = "/sys/bus/pci/devices/0000:00:01.0";
        assert_eq!(reader.attribute(&format!("{device}/class")).unwrap(), "0x060400");
        assert_eq!(reader.attribute(&format!("{device}/alias")).unwrap(), "0x060400");
        assert_eq!(reader.link(&format!("{device}/alias")).unwrap(), "class");
        assert!(reader.read(&format!("{device}/vendor")).unwrap_err().is_absent());
        assert!(reader.read(&format!("{device}/..")).is_err());
        assert!(reader.read(&format!("{device}/../../../../../secret")).is_err());
        // A missing function must not be read from the previous function's directory.
        assert!(reader.read("/sys/bus/pci/devices/0000:00:02.0/class").unwrap_err().is_absent());
        assert!(reader.read("/sys/bus/pci/devices/0000:00:03.0/class").unwrap_err().is_absent());
        assert!(
            reader.link("/sys/bus/pci/devices/0000:00:03.0/iommu_group").unwrap_err().is_absent()
        );
        assert!(reader.read("/sys/bus/pci/devices/0000:00:04.0/x").unwrap_err().is_absent());
        // A link out of the image in a function's directory, read right after the function itself was reached.
        assert_eq!(reader.attribute(&format!("{device}/class")).unwrap(), "0x060400");
        assert!(reader.link(&format!("{device}/net/iommu_group")).unwrap_err().is_absent());
    }
}

#[test]
fn image_at_root_directory_hides_kernel_trees() {
    let reader = DirReader::image(Path::new("/")).unwrap();
    assert!(reader.foreign_mounts().contains(&"/proc"), "{:?}", reader.foreign_mounts());
    assert!(reader.read("/proc/cpuinfo").unwrap_err().is_absent());
    // Also through a link into it.
    let tree = Tree::new("foreign");
    symlink("/proc/cmdline", tree.0.join("poison")).unwrap();
    let poison = tree.0.join("poison");
    assert!(reader.read(poison.to_str().unwrap()).unwrap_err().is_absent());
    assert!(DirReader::live().read("/proc/cpuinfo").is_ok());
}

#[test]
fn pipes_do_not_block_and_directories_are_rejected() {
    let tree = Tree::new("pipe");
    let pipe = tree.root().join("etc/pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let reader = tree.reader();
    assert!(matches!(reader.read("/etc/pipe"), Err(ReadError::Failed { .. })));
    assert!(matches!(reader.read("/etc"), Err(ReadError::Failed { .. })));
    assert!(reader.list("/etc/pipe").unwrap_err().is_absent());
}

#[test]
fn read_start_is_limited_and_large_file_rejected() {
    let tree = Tree::new("large");
    std::fs::write(tree.root().join("etc/long"), vec![b'x'; 200_000]).unwrap();
    std::fs::File::create(tree.root().join("etc/huge"))
        .unwrap()
        .set_len(LARGEST as u64 + 1)
        .unwrap();
    let reader = tree.reader();
    assert_eq!(reader.read_start("/etc/long", 10).unwrap().len(), 10);
    assert_eq!(reader.read("/etc/long").unwrap().len(), 200_000);
    assert!(matches!(reader.read("/etc/huge"), Err(ReadError::Failed { .. })));
    assert_eq!(reader.read_start("/etc/huge", 10).unwrap().len(), 10);
}

#[test]
fn config_reads_count_touched_dwords() {
    let tree = Tree::new("config");
    let device = tree.root().join("sys/bus/pci/devices/0000:00:01.0");
    std::fs::create_dir_all(&device).unwrap();
    std::fs::write(device.join("config"), (0..64).collect::<Vec<u8>>()).unwrap();
    let reader = tree.reader();
    let config = reader.config("00:01.0".parse().unwrap()).unwrap();
    let mut two = [0; 2];
    assert_eq!(config.read(0x06, &mut two).unwrap(), 2);
    assert_eq!(two, [6, 7]);
    assert_eq!(reader.cost().config_dwords, 1);
    let mut eight = [0; 8];
    assert_eq!(config.read(0x3c, &mut eight).unwrap(), 4);
    assert_eq!(config.read(0x40, &mut eight).unwrap(), 0);
    assert_eq!(reader.cost().config_dwords, 2);
}

#[test]
fn missing_root_error_names_directory() {
    let error = DirReader::image(Path::new("/nonexistent/image")).err().unwrap();
    assert!(error.to_string().contains("/nonexistent/image"));
}

#[test]
fn header_block_comes_from_a_block_device() {
    let tree = Tree::new("header");
    let file = tree.root().join("etc/file");
    std::fs::write(&file, "x".repeat(512 << 10)).unwrap();
    assert!(tree.reader().grub_header_block("/etc/file").unwrap_err().is_absent(), "an image");
    let live = DirReader::live();
    assert!(live.grub_header_block("/dev/none").unwrap_err().is_absent());
    for other in [file.to_str().unwrap(), "/dev", "/dev/null", "none", ""] {
        assert!(live.grub_header_block(other).is_err(), "{other}");
    }
}
