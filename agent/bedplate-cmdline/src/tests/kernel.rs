//! A second, independent implementation of the kernel's parser, byte by byte like the original, to compare with the
//! module under test. Uses none of its code.

/// One `(param, val)` as passed on by `parse_args`.
pub(crate) type Arg = (Vec<u8>, Option<Vec<u8>>);

fn isspace(b: u8) -> bool {
    b == b' ' || (9..=13).contains(&b) || b == 0xA0
}

/// `next_arg`: works on a NUL-terminated buffer with indices, as the C does with pointers.
fn next_arg(buffer: &mut [u8], start: usize) -> (Arg, usize) {
    let mut args = start;
    let mut equals = 0usize;
    let mut in_quote = false;
    let mut quoted = false;
    if buffer[args] == b'"' {
        args += 1;
        in_quote = true;
        quoted = true;
    }
    let mut i = 0usize;
    while buffer[args + i] != 0 {
        let b = buffer[args + i];
        if isspace(b) && !in_quote {
            break;
        }
        if equals == 0 && b == b'=' {
            equals = i;
        }
        if b == b'"' {
            in_quote = !in_quote;
        }
        i += 1;
    }
    let end_was_nul = buffer[args + i] == 0;
    let mut val = None;
    if equals != 0 {
        buffer[args + equals] = 0;
        let mut at = args + equals + 1;
        if buffer[at] == b'"' {
            at += 1;
            if buffer[args + i - 1] == b'"' {
                buffer[args + i - 1] = 0;
            }
        }
        val = Some(at);
    }
    if quoted && buffer[args + i - 1] == b'"' {
        buffer[args + i - 1] = 0;
    }
    let mut next = args + i;
    if !end_was_nul {
        buffer[args + i] = 0;
        next += 1;
    }
    let text = |from: usize| {
        let mut to = from;
        while buffer[to] != 0 {
            to += 1;
        }
        buffer[from..to].to_vec()
    };
    let arg = (text(args), val.map(text));
    while buffer[next] != 0 && isspace(buffer[next]) {
        next += 1;
    }
    (arg, next)
}

/// `parse_args`: all arguments up to a bare `--`, and the text after it.
pub(crate) fn parse_args(line: &str) -> (Vec<Arg>, Option<String>) {
    let mut buffer = line.as_bytes().to_vec();
    buffer.push(0);
    // The value pointer is one past the line's end if the value starts with the last quote.
    buffer.push(0);
    let mut at = 0;
    while buffer[at] != 0 && isspace(buffer[at]) {
        at += 1;
    }
    let mut all = Vec::new();
    while buffer[at] != 0 {
        let (arg, next) = next_arg(&mut buffer, at);
        at = next;
        if arg.1.is_none() && arg.0 == b"--" {
            let end = buffer.len() - 2;
            return (
                all,
                Some(String::from_utf8(buffer[at..end].to_vec()).expect("cut at ASCII blanks")),
            );
        }
        all.push(arg);
    }
    (all, None)
}

/// `parameq`.
pub(crate) fn same_name(a: &[u8], b: &[u8]) -> bool {
    let dash = |b: u8| if b == b'-' { b'_' } else { b };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| dash(*a) == dash(*b))
}

/// Settings made by `pci_setup`, for the suboptions that the tests use.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct PciState {
    pub realloc: Option<bool>,
    pub flags: Vec<String>,
    pub bus_config: Option<String>,
    pub disable_acs_redir: Option<String>,
    pub config_acs: Option<String>,
    pub resource_alignment: Option<String>,
    pub unknown: Vec<String>,
}

/// `pci_setup` over every `pci=` of a line.
pub(crate) fn pci_state(line: &str) -> PciState {
    let mut state = PciState::default();
    for (name, value) in parse_args(line).0 {
        if !same_name(&name, b"pci") {
            continue;
        }
        let value = String::from_utf8(value.unwrap_or_default()).expect("test lines are text");
        for option in value.split(',') {
            pci_option(&mut state, option);
        }
    }
    state.flags.sort();
    state.flags.dedup();
    state
}

fn pci_option(state: &mut PciState, option: &str) {
    if option.is_empty() {
    } else if let Some(value) = option.strip_prefix("realloc=") {
        if value.starts_with("off") {
            state.realloc = Some(false);
        } else if value.starts_with("on") {
            state.realloc = Some(true);
        }
    } else if option.starts_with("realloc") {
        state.realloc = Some(true);
    } else if let Some(value) = option.strip_prefix("disable_acs_redir=") {
        state.disable_acs_redir = Some(value.to_owned());
    } else if let Some(value) = option.strip_prefix("config_acs=") {
        state.config_acs = Some(value.to_owned());
    } else if let Some(value) = option.strip_prefix("resource_alignment=") {
        state.resource_alignment = Some(value.to_owned());
    } else if let Some(mode) = ["tune_off", "safe", "perf", "peer2peer"]
        .iter()
        .find(|m| option.starts_with(&format!("pcie_bus_{m}")))
    {
        state.bus_config = Some((*mode).to_owned());
    } else if let Some(flag) = ["noats", "noari"].iter().find(|flag| option.starts_with(**flag)) {
        state.flags.push((*flag).to_owned());
    } else if ["nomsi", "noaer", "assign-busses", "nocrs"].contains(&option) {
        state.flags.push(option.to_owned());
    } else {
        state.unknown.push(option.to_owned());
    }
}

/// The passthrough default that the line sets on x86: `iommu_setup` and `iommu_set_def_domain_type` in textual order.
pub(crate) fn passthrough(line: &str) -> Option<bool> {
    let mut state = None;
    for (name, value) in parse_args(line).0 {
        let value = String::from_utf8(value.unwrap_or_default()).expect("test lines are text");
        if same_name(&name, b"iommu") {
            for option in value.split(',') {
                if option.starts_with("usedac") {
                    break;
                }
                if option.starts_with("pt") {
                    state = Some(true);
                }
                if option.starts_with("nopt") {
                    state = Some(false);
                }
            }
        } else if same_name(&name, b"iommu.passthrough") {
            match value.as_bytes() {
                [b'y' | b'Y' | b'1', ..] | [b'o' | b'O', b'n' | b'N', ..] => state = Some(true),
                [b'n' | b'N' | b'0', ..] | [b'o' | b'O', b'f' | b'F', ..] => state = Some(false),
                _ => {}
            }
        }
    }
    state
}
