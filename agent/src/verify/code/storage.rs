//! GPUDirect Storage.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::Words;

/// A finding about GPUDirect Storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum StorageCode {
    /// cuFile may take no other way, and has none.
    CufileWouldFail,
}

impl Words for StorageCode {
    fn says(&self) -> Cow<'static, str> {
        match self {
            StorageCode::CufileWouldFail => "cuFile is to fail where it finds no direct way, and there is none: no nvidia_fs, no P2PDMA mode".into(),
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            StorageCode::CufileWouldFail => "`modprobe nvidia_fs`, or `\"use_pci_p2pdma\": true` in properties of /etc/cufile.json".into(),
        }
    }
}
