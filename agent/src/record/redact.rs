//! What a snapshot must not carry: passwords, keys, hardware addresses, gateways, machine ids. Replaced the same way every
//! time, so that the same host gives the same snapshot. Pure.

use std::collections::BTreeMap;

use crate::facts::vpd;
use crate::host::snapshot::{Node, Snapshot};
use crate::host::{HostKind, Reader as _};

/// What stands where a secret was.
const REDACTED: &str = "REDACTED";

/// Parts of a name whose value is a secret (`luks_passphrase=`, `systemd.set_credential=`, `GRUB2_PASSWORD=`).
const SECRET_NAMES: [&str; 8] =
    ["passw", "passphrase", "secret", "token", "credential", "apikey", "api_key", "machine_id"];

/// Takes the secrets out of a snapshot.
pub fn snapshot(snapshot: Snapshot) -> Snapshot {
    let names = identities(&snapshot);
    let mut serials = Serials::default();
    let running = snapshot.kind() != HostKind::Image;
    let mut clean = Snapshot::new(running);
    for (path, node) in snapshot.nodes() {
        let node = match node {
            Node::File(bytes) if path.ends_with("/vpd") => Node::File(serials.mask(bytes)),
            Node::File(bytes) => Node::File(file(path, bytes, &names)),
            Node::Start(bytes) => Node::Start(file(path, bytes, &names)),
            Node::Link(text) => Node::Link(replace(text, &names)),
            Node::Dir(Some(entries)) => {
                let mut entries: Vec<String> =
                    entries.iter().map(|entry| replace(entry, &names)).collect();
                entries.sort_unstable();
                Node::Dir(Some(entries))
            }
            other => other.clone(),
        };
        clean.insert(&replace(path, &names), node);
    }
    clean
}

/// Keywords of Vital Product Data that name a product, not a piece (PCI 3.0, appendix I; `VA`, `V0`: NVIDIA's).
const OF_A_PRODUCT: [&[u8; 2]; 4] = [b"PN", b"EC", b"VA", b"V0"];

/// Serial numbers met so far. Each becomes a number of its own, so that what bears the same serial still does.
#[derive(Default)]
struct Serials(BTreeMap<Vec<u8>, usize>);

impl Serials {
    /// Vital Product Data in which every value that may name a piece has been replaced, by one of the same length. The checksum
    /// no longer fits; nothing here reads it.
    fn mask(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut clean = bytes.to_vec();
        for (keyword, place) in vpd::keywords(bytes) {
            if OF_A_PRODUCT.contains(&&keyword) {
                continue;
            }
            // Too short for a serial number (the checksum is one byte): not worth a number, which would not fit.
            if place.len() < 4 {
                clean[place].fill(b'0');
                continue;
            }
            let next = self.0.len();
            let number = *self.0.entry(bytes[place.clone()].to_vec()).or_insert(next);
            let digits = format!("{number:0length$}", length = place.len());
            let from = digits.len() - place.len();
            clean[place].copy_from_slice(&digits.as_bytes()[from..]);
        }
        clean
    }
}

/// Machine ids and hardware addresses that are part of names: found in paths, replaced everywhere.
/// A boot entry is called `<machine id>-<kernel>.conf`, an interface `enx<address>`.
fn identities(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (path, _) in snapshot.nodes() {
        let name = path.rsplit('/').next().unwrap_or_default();
        for (prefix, length) in [("", 32), ("enx", 12)] {
            let Some(id) = name.strip_prefix(prefix).and_then(|rest| rest.get(..length)) else {
                continue;
            };
            let ends = name[prefix.len() + length..]
                .chars()
                .next()
                .is_none_or(|next| !next.is_ascii_alphanumeric());
            if ends && id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                let next = names.len();
                names
                    .entry(format!("{prefix}{id}"))
                    .or_insert_with(|| format!("{prefix}{next:0length$}"));
            }
        }
    }
    names
}

fn replace(text: &str, names: &BTreeMap<String, String>) -> String {
    names.iter().fold(text.to_owned(), |text, (name, other)| text.replace(name, other))
}

fn file(path: &str, bytes: &[u8], names: &BTreeMap<String, String>) -> Vec<u8> {
    // Parameters of modules: the file's name is the parameter's.
    if path.contains("/parameters/") && is_secret(path.rsplit('/').next().unwrap_or_default()) {
        return REDACTED.as_bytes().to_vec();
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
    // Masked when they were recorded, and so that derived addresses can still be told from others.
    if path.starts_with(crate::host::recorded::ANSWERS) {
        return replace(text, names).into_bytes();
    }
    let text = text_of(&needed(path, &replace(text, names)));
    // An environment block keeps its size.
    if path.ends_with("/grubenv") { resized(&text, bytes.len()) } else { text }.into_bytes()
}

/// Of large indexes only what bedplate looks for: file names of modules, and the symbol that nvidia_peermem needs.
fn needed(path: &str, text: &str) -> String {
    let keep = |line: &str| -> Option<String> {
        if path.ends_with("/modules.dep") {
            return Some(format!("{}:\n", line.split(':').next()?));
        }
        line.contains(crate::facts::gpu::PEER_SYMBOL).then(|| format!("{line}\n"))
    };
    if path.ends_with("/modules.dep") || path.ends_with("/modules.symbols") {
        return text.lines().filter_map(keep).collect();
    }
    match path {
        "/proc/net/route" => default_routes(text, 1, 2),
        "/proc/net/ipv6_route" => default_routes(text, 0, 4),
        _ => text.to_owned(),
    }
}

/// Of a routing table the default routes, without their gateways: which networks a host is in is nobody's business.
fn default_routes(text: &str, destination: usize, gateway: usize) -> String {
    let keep = |line: &str| -> Option<String> {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let is_heading = words.first().is_some_and(|word| word == "Iface");
        if !is_heading {
            words.get(destination).filter(|to| to.bytes().all(|digit| digit == b'0'))?;
            let gateway = words.get_mut(gateway)?;
            *gateway = "0".repeat(gateway.len());
        }
        Some(words.join(" ") + "\n")
    };
    text.lines().filter_map(keep).collect()
}

fn resized(text: &str, length: usize) -> String {
    let body = text.trim_end_matches('#');
    if body.len() > length { text.to_owned() } else { format!("{body:#<length$}") }
}

fn text_of(text: &str) -> String {
    text.split_inclusive('\n').map(line).collect()
}

fn line(line: &str) -> String {
    // GRUB: `password user word`, `password_pbkdf2 user hash`.
    let words: Vec<&str> = line.split_whitespace().collect();
    if let [command @ ("password" | "password_pbkdf2"), user, _, ..] = words[..] {
        let indent = &line[..line.len() - line.trim_start().len()];
        return format!("{indent}{command} {user} {REDACTED}\n");
    }
    hardware_addresses(&secrets(line))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// `name=value` with a telling name loses its value, `scheme://user:word@` its user and word.
fn secrets(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_whitespace()).map_or(rest.len(), |at| at.max(1));
        let (word, after) = rest.split_at(end);
        clean += &secret_word(word, after, &mut rest);
    }
    clean
}

/// One word; a quoted value may reach beyond its blanks, to the closing quote.
fn secret_word<'a>(word: &str, after: &'a str, rest: &mut &'a str) -> String {
    *rest = after;
    if let Some((name, value)) = word.split_once('=')
        && is_secret(name.rsplit(['"', '\'', ' ', ',', ';']).next().unwrap_or(name))
        && !value.is_empty()
    {
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        if let Some(quote) = quote
            && !value[1..].contains(quote)
        {
            *rest = after.split_once(quote).map_or("", |(_, rest)| rest);
        }
        // A quote that closes a value around the whole token stays.
        let close = quote
            .is_none()
            .then(|| value.chars().last().filter(|c| matches!(c, '"' | '\'')))
            .flatten();
        let close = close.map(String::from).unwrap_or_default();
        return format!("{name}={REDACTED}{close}");
    }
    match word.split_once("://") {
        Some((scheme, place)) if place.split('/').next().is_some_and(|host| host.contains('@')) => {
            let host = place.split_once('@').map_or(place, |(_, host)| host);
            format!("{scheme}://{REDACTED}@{host}")
        }
        _ => word.to_owned(),
    }
}

/// Six or more pairs of hexadecimal digits with the same separator become zeros.
fn hardware_addresses(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut clean = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let word_before = at > 0 && bytes[at - 1].is_ascii_alphanumeric();
        let pairs = if word_before { 0 } else { pairs_from(&bytes[at..]) };
        if pairs >= 6 {
            for digit in
                clean[at..at + pairs * 3 - 1].iter_mut().filter(|byte| byte.is_ascii_hexdigit())
            {
                *digit = b'0';
            }
        }
        at += (pairs * 3).max(1);
    }
    // Only ASCII was written over ASCII.
    String::from_utf8(clean).unwrap_or_else(|_| text.to_owned())
}

/// How many pairs follow each other from here; 0 if the last one runs on into a word.
fn pairs_from(bytes: &[u8]) -> usize {
    let separator = match bytes.get(2) {
        Some(b':') => b':',
        Some(b'-') => b'-',
        _ => return 0,
    };
    let mut pairs = 0;
    loop {
        let rest = &bytes[pairs * 3..];
        if rest.len() < 2 || !rest[..2].iter().all(u8::is_ascii_hexdigit) {
            return 0;
        }
        pairs += 1;
        match rest.get(2) {
            Some(next) if *next == separator => {}
            Some(next) if next.is_ascii_alphanumeric() => return 0,
            _ => return pairs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_lose_their_values() {
        for (given, clean) in [
            (
                "password_pbkdf2 root grub.pbkdf2.sha512.10000.AB\n",
                "password_pbkdf2 root REDACTED\n",
            ),
            ("GRUB2_PASSWORD=grub.pbkdf2.sha512.x\n", "GRUB2_PASSWORD=REDACTED\n"),
            (
                "root=/dev/sda ro luks_passphrase=hunter2 quiet",
                "root=/dev/sda ro luks_passphrase=REDACTED quiet",
            ),
            ("GRUB_CMDLINE_LINUX=\"a api-token=x\"", "GRUB_CMDLINE_LINUX=\"a api-token=REDACTED\""),
            ("x PASSWORD=\"two words\" y", "x PASSWORD=REDACTED y"),
            (
                "ds=nocloud;s=http://me:word@10.0.0.1/seed ro",
                "ds=nocloud;s=http://REDACTED@10.0.0.1/seed ro",
            ),
            ("systemd.machine_id=0123", "systemd.machine_id=REDACTED"),
        ] {
            assert_eq!(line(given), clean);
        }
    }

    #[test]
    fn hardware_addresses_become_zeros_and_pci_addresses_stay() {
        for (given, clean) in [
            ("BOOTIF=01-aa-bb-cc-dd-ee-ff ro", "BOOTIF=00-00-00-00-00-00-00 ro"),
            ("MACAddress=52:54:00:12:34:56\n", "MACAddress=00:00:00:00:00:00\n"),
            ("ifname=eth0:52:54:00:12:34:56", "ifname=eth0:00:00:00:00:00:00"),
        ] {
            assert_eq!(hardware_addresses(given), clean);
        }
        for kept in [
            "pci=config_acs=xx000x0@0000:17:00.0;xx000x0@0000:18:00.0",
            "6.8.0-45-generic",
            "fe80::1",
        ] {
            assert_eq!(hardware_addresses(kept), kept);
        }
    }

    #[test]
    fn serial_numbers_are_masked_and_still_pair() {
        let path = |bus: &str| format!("/sys/devices/pci0000:00/{bus}/vpd");
        let mut given = Snapshot::new(true);
        for (bus, serial, uuid) in
            [("0000:01:00.0", "MT2334", "1e6b4fdf"), ("0008:03:00.0", "MT2335", "1e6b4fdf")]
        {
            given.insert(&path(bus), Node::File(crate::demo::vpd("ConnectX", serial, uuid)));
        }
        let clean = snapshot(given);
        let read = |bus: &str| vpd::parse(&clean.read(&path(bus)).unwrap()).unwrap();
        let (nic, dma) = (read("0000:01:00.0"), read("0008:03:00.0"));
        assert_eq!(nic.adapter, dma.adapter);
        assert_ne!(nic.board, dma.board);
        for bus in ["0000:01:00.0", "0008:03:00.0"] {
            let text = String::from_utf8_lossy(&clean.read(&path(bus)).unwrap()).into_owned();
            for secret in ["MT2334", "MT2335", "1e6b4fdf"] {
                assert!(!text.contains(secret), "{text}");
            }
            assert!(text.contains("900-9X86E"), "what the product is stays: {text}");
        }
        assert_eq!(snapshot(clean.clone()), clean, "masked once is masked for good");
    }

    #[test]
    fn ordinary_text_is_untouched() {
        let text = "GRUB_CMDLINE_LINUX=\"iommu=pt pci=realloc\"\n\n\tlinux /vmlinuz root=UUID=6a4d3b2c-1f0e-4d5c-8b7a-990011223344 ro\r\n";
        assert_eq!(text_of(text), text);
    }

    #[test]
    fn machine_ids_are_replaced_in_names_and_texts_alike() {
        let id = "5f3c0a9e7b1d4c2e8a6f0b3d2c1e4f50";
        let mut given = Snapshot::new(true);
        let entry = format!("{id}-6.8.0.conf");
        given.insert("/boot/loader/entries", Node::Dir(Some(vec![entry.clone()])));
        given.insert(
            &format!("/boot/loader/entries/{entry}"),
            Node::File(format!("linux /{id}/linux\n").into()),
        );
        given.insert(
            "/boot/grub2/grubenv",
            Node::File(format!("saved_entry={id}-6.8.0\n####").into()),
        );
        given.insert(
            "/sys/class/net/enx001122334455",
            Node::Link("../../x/net/enx001122334455".into()),
        );
        let clean = snapshot(given);
        let text = clean.to_text();
        assert!(!text.contains(id) && !text.contains("001122334455"), "{text}");
        assert!(
            clean.node(&format!("/boot/loader/entries/{:032}-6.8.0.conf", 0)).is_some(),
            "{text}"
        );
        assert!(text.contains(&format!("saved_entry={:032}-6.8.0", 0)), "{text}");
    }
}
