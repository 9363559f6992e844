//! The I/O Remapping Table (IORT), with which the firmware of 64-bit Arm hosts describes SMMUs. The table also
//! describes interrupt controllers and root complexes, so it does not by itself prove that there is an SMMU. Pure.
//!
//! Layout: Arm DEN 0049 "IO Remapping Table"; Linux include/acpi/actbl2.h.

/// Path of the table; only root can read it.
pub const PATH: &str = "/sys/firmware/acpi/tables/IORT";

const SIGNATURE: &[u8] = b"IORT";
/// Position of the table's length.
const LENGTH: usize = 4;
/// Position of the number of nodes.
const NODE_COUNT: usize = 36;
/// Position of the offset of the first node.
const FIRST_NODE: usize = 40;
/// Length of the table without nodes.
const HEADER: usize = 48;
/// Length of the common part of a node, which starts with the type (one byte) and the length of the node (two bytes).
const NODE: u16 = 16;
/// Node types of an SMMU of version 1 or 2, and of version 3.
const SMMUS: [u8; 2] = [3, 4];

/// Whether the table describes an SMMU. `None`: the table is truncated or malformed.
pub fn describes_smmu(table: &[u8]) -> Option<bool> {
    Some(node_types(table)?.iter().any(|kind| SMMUS.contains(kind)))
}

/// Returns the part of the table that snapshots record: the types of its nodes. Empty if the table is malformed.
pub fn recorded(table: &[u8]) -> Vec<u8> {
    node_types(table).map(|types| with_nodes(&types)).unwrap_or_default()
}

/// Builds a table with nodes of these types, without their data.
pub fn with_nodes(types: &[u8]) -> Vec<u8> {
    let nodes = types.iter().flat_map(|kind| {
        let mut node = vec![0; usize::from(NODE)];
        node[0] = *kind;
        node[1..3].copy_from_slice(&NODE.to_le_bytes());
        node
    });
    let mut table: Vec<u8> = std::iter::repeat_n(0, HEADER).chain(nodes).collect();
    let length = table.len();
    table[..LENGTH].copy_from_slice(SIGNATURE);
    for (at, number) in [(LENGTH, length), (NODE_COUNT, types.len()), (FIRST_NODE, HEADER)] {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        table[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    table
}

/// Returns the types of all nodes. `None`: the table is truncated or malformed.
fn node_types(table: &[u8]) -> Option<Vec<u8>> {
    let number = |at: usize| {
        let bytes = table.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    if !table.starts_with(SIGNATURE) || number(LENGTH)? > table.len() {
        return None;
    }
    let mut at = number(FIRST_NODE).filter(|first| *first >= HEADER)?;
    let mut types = Vec::new();
    for _ in 0..number(NODE_COUNT)? {
        let rest = table.get(at..)?;
        let [kind, low, high, ..] = rest else { return None };
        let length = u16::from_le_bytes([*low, *high]);
        if length < NODE || usize::from(length) > rest.len() {
            return None;
        }
        types.push(*kind);
        at += usize::from(length);
    }
    Some(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_smmu_nodes_describe_an_smmu() {
        for (types, expected) in [
            (&[][..], false),
            (&[0, 2], false),
            (&[0, 1, 2, 5, 6], false),
            (&[0, 4, 2], true),
            (&[2, 3], true),
        ] {
            let table = with_nodes(types);
            assert_eq!(describes_smmu(&table), Some(expected), "{types:?}");
            assert_eq!(recorded(&table), table, "{types:?}");
        }
    }

    #[test]
    fn nodes_with_data_are_skipped_by_length() {
        let mut table = with_nodes(&[0, 4]);
        // 8 bytes of data between the nodes.
        table[HEADER + 1] += 8;
        drop(table.splice(HEADER + 16..HEADER + 16, [3; 8]));
        table[LENGTH] += 8;
        assert_eq!(node_types(&table), Some(vec![0, 4]));
        assert_eq!(recorded(&table), with_nodes(&[0, 4]));
    }

    #[test]
    fn malformed_table_is_unknown() {
        let good = with_nodes(&[0, 4, 2]);
        for end in 0..good.len() {
            assert_eq!(describes_smmu(&good[..end]), None, "{end}");
        }
        let changed = |at: usize, value: u8| {
            let mut table = good.clone();
            table[at] = value;
            table
        };
        let (node_length, beyond) = (HEADER + 1, 0xff);
        for bad in [
            changed(0, b'X'),
            changed(node_length, 0),
            changed(node_length, beyond),
            changed(NODE_COUNT, 4),
            changed(FIRST_NODE, 0),
            changed(FIRST_NODE, beyond),
        ] {
            assert_eq!(describes_smmu(&bad), None, "{bad:02x?}");
            assert!(recorded(&bad).is_empty(), "{bad:02x?}");
        }
    }
}
