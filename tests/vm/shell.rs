//! A shell on a fresh virtual GPU node with bedplate installed: `cargo vm-shell [MACHINE] [-- COMMAND…]`.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bedplate_tests::lab::{Lab, MACHINES, Machine, Node, Result, fail};
use clap::Parser;
use rustix::termios::{self, OptionalActions, SpecialCodeIndex, Termios};

/// Key that leaves the console: Ctrl-], as in telnet.
const LEAVE: u8 = 0x1d;

/// A shell on a fresh virtual GPU node that has booted and has bedplate.
///
/// The node is thrown away at the end. Its console is a serial line: Ctrl-] leaves it.
#[derive(Parser)]
#[command(name = "cargo vm-shell", bin_name = "cargo vm-shell")]
struct Arguments {
    /// Which machine: trixie, bookworm, bios, no-iommu, amd, separate-boot, btrfs, systemd-boot, uki, arm
    #[arg(default_value = "trixie", value_parser = machine)]
    machine: Machine,
    /// Put a file of this machine into the node first (may be repeated)
    #[arg(long, value_name = "FILE:PATH_IN_NODE")]
    put: Vec<String>,
    /// Reboot the node after the command and show what the command says then, too
    #[arg(long, requires = "command")]
    reboot: bool,
    /// Run this command there instead of a shell, and exit as it does
    #[arg(last = true)]
    command: Vec<String>,
}

fn machine(name: &str) -> std::result::Result<Machine, String> {
    Machine::named(name)
        .ok_or_else(|| format!("one of {}", MACHINES.map(|machine| machine.name).join(", ")))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(err) => {
            eprintln!("vm-shell: {err}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<u8> {
    let lab = Lab::open()?;
    let dir = lab.dir().join("run/shell");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let node = lab.node(arguments.machine, &dir)?;
    node.put("/etc/bedplate/profile.toml", include_str!("profile.toml"))?;
    for put in &arguments.put {
        let (file, path) = put
            .split_once(':')
            .ok_or_else(|| format!("--put {put}: no `:` before the path in the node"))?;
        node.put(path, std::fs::read(file).map_err(|err| format!("{file}: {err}"))?)?;
    }
    let status =
        if arguments.command.is_empty() { console(&node)? } else { command(&node, arguments)? };
    drop(node);
    std::fs::remove_dir_all(&dir)?;
    Ok(status)
}

fn command(node: &Node, arguments: &Arguments) -> Result<u8> {
    let line = arguments.command.join(" ");
    let mut status = run_line(node, &line)?;
    if arguments.reboot {
        node.reboot()?;
        status = run_line(node, &line)?;
    }
    Ok(status)
}

fn run_line(node: &Node, line: &str) -> Result<u8> {
    let output = node.run_for(line, Duration::from_secs(3600))?;
    print!("{}", output.stdout);
    eprint!("{}", output.stderr);
    Ok(u8::try_from(output.status).unwrap_or(u8::MAX))
}

/// Connects this terminal to the node's serial console until one of them hangs up or the user leaves.
fn console(node: &Node) -> Result<u8> {
    if !termios::isatty(std::io::stdin()) {
        return fail("a shell needs a terminal; name a command after `--`");
    }
    eprintln!(
        "A fresh {} node. bedplate is in the path, /etc/bedplate/profile.toml is there: try `bedplate plan`.\n\
         Ctrl-] leaves, and the node is gone; `reboot` works and takes 20 s.",
        node.machine.name
    );
    // The login drops earlier input.
    let tty = node.machine.arch.console();
    node.ok(&format!(
        "mkdir -p /var/lib/vm && touch /var/lib/vm/console && systemctl start serial-getty@{tty} && \
         until pgrep -t {tty} -x bash >/run/console; do sleep 0.1; done"
    ))?;
    let line = UnixStream::connect(node.console())?;
    let size = termios::tcgetwinsize(std::io::stdin())?;
    // A serial line has no size, so it is set in the shell once. The empty line makes the shell show its prompt.
    writeln!(
        &line,
        " stty rows {} cols {}; export TERM=xterm-256color; clear",
        size.ws_row, size.ws_col
    )?;
    let terminal = Raw::enter()?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // stdin is polled a few times a second, so that a node that powers off ends the shell.
            loop {
                if over.load(Ordering::Relaxed) || !keys_to(&line).unwrap_or(false) {
                    break;
                }
            }
            let _ = line.shutdown(std::net::Shutdown::Both);
        });
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = (&line).read(&mut chunk) {
            let mut out = std::io::stdout();
            if out.write_all(&chunk[..count]).and_then(|()| out.flush()).is_err() {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    drop(terminal);
    eprintln!();
    Ok(0)
}

/// Forwards typed keys; returns false when the user leaves.
fn keys_to(mut line: &UnixStream) -> Result<bool> {
    let mut keys = [0; 256];
    // Raw mode's timer: returns 0 bytes after a fifth of a second without a key.
    let count = rustix::io::read(std::io::stdin().as_fd(), &mut keys)?;
    if let Some(at) = keys[..count].iter().position(|key| *key == LEAVE) {
        line.write_all(&keys[..at])?;
        return Ok(false);
    }
    line.write_all(&keys[..count])?;
    Ok(true)
}

/// Terminal in raw mode, until dropped.
struct Raw(Termios);

impl Raw {
    fn enter() -> Result<Self> {
        let before = termios::tcgetattr(std::io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 2;
        termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that has disappeared cannot be restored.
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}
