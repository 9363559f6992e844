//! Power cuts while `apply` edits boot entries on a real vfat. One run is recorded write by write and then cut after
//! each write: every state of the disk is checked from outside, and bedplate in the guest finishes each. Three runs are
//! cut for real, by killing QEMU.

mod disk;
mod replay;

use std::thread::sleep;
use std::time::{Duration, Instant};

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario, fail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::disk::{Disk, Entry};
use self::replay::{DAMAGE, Texts};
use super::guest::{check, same};

pub const SCENARIOS: &[Scenario] = &[("fat::power_cuts", power_cuts)];

/// Kernels with edited entries.
const KERNELS: [&str; 2] = ["6.8.5-301.fc40.x86_64", "6.8.9-300.fc40.x86_64"];
/// Long enough that the directory exceeds one sector with the temporary file and the copy.
const MACHINE: &str = "6a4d3b2c1f0e4d5c8b7a990011223344";
/// Number of the recorded run.
const RECORDED: u32 = 2;
/// Moments of the real cuts, in tenths of the writes of the recorded run.
const PARTS: [usize; 3] = [3, 5, 8];

fn power_cuts(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    let disk = Disk::make(node.dir(), &entries())?;
    image(&node)?;
    let arguments = disk.arguments();
    node.with(&arguments.each_ref().map(String::as_str));
    start(&node, &disk)?;
    let (log, start, texts) = recorded(&node, &disk)?;

    node.step("every state of the disk, from outside");
    let (tried, faults) = replay::every_cut(&disk.as_made(), &log, start, &texts)?;
    eprintln!("cuts looked at from outside: {tried}, {} with faults", faults.len());
    check!(faults.is_empty(), "{} of {tried} states:\n{}", faults.len(), faults.join("\n"));

    node.step("every write, finished by bedplate");
    replayed(&node, &log, start)?;

    let writes = log.len() - start;
    for (round, part) in (RECORDED + 1..).zip(PARTS) {
        cut(&node, &disk, round, writes * part / 10)?;
    }
    Ok(())
}

/// Two kernels, and the rescue entry, which nothing edits. Longer than a cluster.
fn entries() -> Vec<(String, String)> {
    let units: String =
        (0..24).map(|unit| format!(" systemd.mask=unit-{unit:02}.service")).collect();
    let text = |title: &str, kernel: &str| {
        format!(
            "title Fedora Linux ({title})\nversion {kernel}\nlinux /vmlinuz-{kernel}\n\
             initrd /initramfs-{kernel}.img\noptions root=LABEL=root ro{units}\ngrub_class fedora\n"
        )
    };
    let rescue = format!("0-rescue-{MACHINE}");
    let entry = |kernel: &&str| (format!("{MACHINE}-{kernel}.conf"), text(kernel, kernel));
    let mut entries: Vec<_> = KERNELS.iter().map(entry).collect();
    entries.push((format!("{MACHINE}-0-rescue.conf"), text("rescue", &rescue)));
    entries
}

/// Makes an image root in the guest; its entries will be on the vfat.
fn image(node: &Node) -> Result<()> {
    node.put("/srv/image/etc/os-release", "ID=fedora\nVERSION_ID=40\nPRETTY_NAME=\"Fedora 40\"\n")?;
    node.ok("mkdir -p /srv/image/boot/loader /srv/image/var/lib && chmod 755 /srv /srv/image")?;
    for round in 1..=RECORDED + PARTS.len() as u32 {
        let profile =
            format!("schema = 1\nname = \"fat\"\n[cmdline]\nargs = [\"hugepages={round}\"]\n");
        node.put(&format!("/srv/round-{round}.toml"), profile)?;
    }
    node.put("/srv/fat", include_str!("fat/guest.sh"))?;
    node.ok("sync")?;
    Ok(())
}

/// Powers on with the disk, and mounts it.
fn start(node: &Node, disk: &Disk) -> Result<()> {
    node.power_cut()?;
    disk.fresh_log()?;
    node.boot()?;
    node.ok("sh /srv/fat mount")?;
    Ok(())
}

/// Records an uninterrupted run: the log, its start in the log, and the entries before and after.
fn recorded(node: &Node, disk: &Disk) -> Result<(Vec<Entry>, usize, Texts)> {
    node.expect(0, "bedplate apply --root /srv/image --profile /srv/round-1.toml --yes")?;
    node.ok(&format!(
        "sh /srv/fat expect {RECORDED}; cat /dev/disk/by-id/virtio-entries >/dev/shm/state"
    ))?;
    let start = disk.logged()?.len();
    node.step("apply, every write of which is written down");
    let said = node.ok(&format!("sh /srv/fat begin {RECORDED}"))?;
    check!(said.ends_with("apply 0"), "apply: {said}");
    let log = disk.logged()?;
    check!(
        node.ok("cat /srv/ledger/ledger.json")?.contains("\"unfinished\""),
        "no ledger of a run under way"
    );
    let text = |directory: &str, name: &str| {
        node.get(&format!("/srv/{directory}/{name}"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut files = Vec::new();
    for (name, _) in entries() {
        let (before, after) = (text("before", &name)?, text("after", &name)?);
        same!(before != after, !name.contains("rescue"), "whether {name} is edited");
        files.push((name, before, after));
    }
    Ok((log, start, Texts { files }))
}

/// In the guest: replays the disk after each write, and lets bedplate finish.
fn replayed(node: &Node, log: &[Entry], start: usize) -> Result<()> {
    let end = log.last().map_or(0, |entry| entry.at + (entry.data.len() / disk::SECTOR) as u64);
    let bytes = usize::try_from(end)? * disk::SECTOR;
    let whole = std::fs::read(node.dir().join("entries.log"))?;
    node.put("/dev/shm/log", &whole[..bytes])?;
    node.ok("umount /srv/image/boot/loader")?;
    let (mut seen, mut copies) = ([0; 3], 0);
    let nothing = Entry { sector: 0, data: Vec::new(), at: 0 };
    let writes = log[start..].iter().filter(|entry| !entry.is_flush());
    let mut copy_before = false;
    for (number, entry) in std::iter::once(&nothing).chain(writes).enumerate() {
        let count = entry.data.len() / disk::SECTOR;
        let command =
            format!("sh /srv/fat replay {RECORDED} {} {} {count}", entry.at, entry.sector);
        let said = node.run(&command)?.stdout;
        finished(&said, 0).map_err(|fault| format!("after write {number}: {fault}\n{said}"))?;
        let all = |state: &str| said.lines().filter(|line| line.starts_with(state)).count();
        // The rescue entry counts as new.
        seen[all("cut new") - 1] += 1;
        let copy = all("copy ") > 0;
        if copy && !copy_before {
            let said = node.run(&format!("sh /srv/fat repaired {RECORDED}"))?.stdout;
            finished(&said, 1).map_err(|fault| format!("emptied at {number}: {fault}\n{said}"))?;
            copies += 1;
        }
        copy_before = copy;
    }
    eprintln!("cuts in the guest, by the number of entries that had been edited: {seen:?}");
    check!(seen[0] > 1 && seen[1] > 1 && seen[2] > 1, "cuts before, between and after: {seen:?}");
    same!(copies, KERNELS.len(), "entries that were emptied beside their copies");
    let errors = node.run("dmesg | grep -i 'FAT-fs.*error'")?.stdout;
    check!(errors.is_empty(), "Linux found errors: {errors}");
    Ok(())
}

/// Checks the output of `guest.sh finish` after any cut, or after a repair emptied this number of entries.
fn finished(said: &str, emptied: usize) -> Result<()> {
    let lines = |start: &str| said.lines().filter(|line| line.starts_with(start)).count();
    same!(lines("cut torn"), emptied, "torn entries");
    same!(
        lines("cut old") + lines("cut new") + emptied,
        KERNELS.len() + 1,
        "entries that are there"
    );
    // The rescue entry is the same before and after.
    same!(lines("end new"), KERNELS.len() + 1, "entries after the next apply");
    same!(lines("end "), KERNELS.len() + 1, "files after the next apply");
    check!(said.contains("\nplan 2\n") || said.contains("\nplan 0\n"), "bedplate plan fails");
    check!(said.contains("\napply 0\n") && said.contains("\nagain 0"), "it is not finished");
    let damage = DAMAGE.iter().find(|damage| said.contains(**damage));
    check!(damage.is_none(), "fsck.fat: {damage:?}");
    Ok(())
}

/// Cuts the power after this number of writes; the next run finishes the state that the guest boots to.
fn cut(node: &Node, disk: &Disk, round: u32, writes: usize) -> Result<()> {
    if node.run("mountpoint -q /srv/image/boot/loader")?.status != 0 {
        // The replayed states belong to another ledger.
        node.ok("sh /srv/fat mount && bedplate apply --root /srv/image --profile /srv/round-2.toml --yes")?;
    }
    node.ok(&format!("sh /srv/fat expect {round}"))?;
    let before = disk.logged()?.len();
    node.step(&format!("cut for real, {writes} writes into apply"));
    node.ok(&format!(
        "setsid bedplate apply --root /srv/image --profile /srv/round-{round}.toml --yes </dev/null >/dev/null 2>&1 &"
    ))?;
    let end = Instant::now() + Duration::from_secs(120);
    while disk.logged()?.len() < before + writes {
        if Instant::now() > end {
            return fail(format!(
                "{} of {writes} writes in two minutes",
                disk.logged()?.len() - before
            ));
        }
        sleep(Duration::from_millis(5));
    }
    let pid = node.pid().and_then(|pid| i32::try_from(pid).ok()).ok_or("QEMU does not run")?;
    // Not `quit`, which writes pending data.
    kill(Pid::from_raw(pid), Signal::SIGKILL)?;
    let written = disk.logged()?.len() - before;
    start(node, disk)?;
    let said = node.ok(&format!("sh /srv/fat finish {round}"))?;
    finished(&said, 0).map_err(|fault| format!("cut after {written} writes: {fault}\n{said}"))?;
    let edited = said.lines().filter(|line| line.starts_with("cut new")).count();
    eprintln!("cut for real after {written} writes: {} of 2 entries edited", edited - 1);
    Ok(())
}
