//! Sysfs attributes, and the size of /dev/shm.

use super::setting::Writable;
use super::{StepError, Store};
use crate::kind::hugepages;
use crate::setting::{SettingValue, WriteAttribute, to_write};
use bedplate_host::SHM;

impl Writable for WriteAttribute {
    fn describe(&self) -> String {
        match self.path.as_str() {
            SHM => format!("remount {SHM} with size={}", self.after),
            path => format!("write {:?} to {path}", self.after),
        }
    }

    fn diff(&self) -> String {
        format!("-{path}: {}\n+{path}: {}\n", self.before, self.after, path = self.path)
    }

    /// The kernel provides as many huge pages as it can. Programs can use those.
    fn keeps_part(&self) -> bool {
        hugepages::adds_pages(self)
    }

    fn read(&self, store: &Store) -> Result<String, StepError> {
        store.attribute(&self.path)
    }

    fn write(&self, store: &mut Store, value: &String) -> Result<(), StepError> {
        if let Some(pf) = self.counts_vfs_of() {
            store.expect_answers(pf)?;
        }
        store.write_attribute(&self.path, to_write(value), self.limit_s)?;
        let now = self.read(store)?;
        match value.differing(&now) {
            None => Ok(()),
            Some(wanted) if self.keeps_part() => Err(StepError::new(format!(
                "{}: the kernel provided {now} of {wanted} pages; they stay",
                self.path
            ))),
            Some(written) => {
                Err(StepError::new(format!("{}: wrote {written:?}, read back {now:?}", self.path)))
            }
        }
    }
}
