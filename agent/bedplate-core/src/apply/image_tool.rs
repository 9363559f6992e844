//! Detection of tools that cannot work inside an image.

use super::Store;
use bedplate_base::terminal::brief;
use bedplate_host::{HostKind, ToolEnd, ToolOutput};

/// Tools that generate GRUB's menu, each with the program that it runs first to find the device of `/`.
const MENU_TOOLS: [(&str, &str); 3] = [
    ("update-grub", "grub-probe"),
    ("grub-mkconfig", "grub-probe"),
    ("grub2-mkconfig", "grub2-probe"),
];

/// Time limit in seconds.
const LIMIT_S: u32 = 60;

/// Exit statuses of chroot(1) when it could not start the program.
const NOT_STARTED: [i32; 3] = [125, 126, 127];

/// Maximum length of a reason in a report.
const LONGEST: usize = 160;

/// Returns why a tool cannot work in an image: GRUB finds no device behind the image's build directory. `None`: no
/// known obstacle.
pub(crate) fn image_obstacle(store: &mut Store, argv: &[String]) -> Option<String> {
    let program = argv.first()?;
    let (_, probe) = MENU_TOOLS.iter().find(|(tool, _)| tool == program)?;
    if store.reader.kind() != HostKind::Image {
        return None;
    }
    let command = [probe, "--target=device", "/"].map(str::to_owned);
    let ToolOutput { end, output } = store.writer.run_tool(&command, LIMIT_S);
    match end {
        ToolEnd::Exited(0) | ToolEnd::NotStarted(_) => None,
        ToolEnd::Exited(status) if NOT_STARTED.contains(&status) => None,
        end => {
            let last = output.trim().lines().last().unwrap_or_default();
            Some(match last.is_empty() {
                true => format!("{probe}: {end}"),
                false => brief(last, LONGEST),
            })
        }
    }
}
