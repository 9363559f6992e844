//! State of a module in `/sys/module` (kernel/module/main.c, handbook §9). A directory without `initstate` is built-in
//! code; a built-in module without parameters has no directory at all.

use super::Reader;
use bedplate_base::value::ModuleName;
use bedplate_base::{ReadError, Reading};

/// Whether the module is live or built in.
pub fn is_live(reader: &dyn Reader, module: &ModuleName) -> Reading<bool> {
    match reader.attribute(&initstate(module.as_str())) {
        Ok(state) => Reading::Known(state == "live"),
        Err(error) if error.is_absent() => {
            Reading::from_result(reader.exists(&format!("/sys/module/{module}")))
        }
        Err(error) => Reading::unknown(error),
    }
}

/// Whether the module is loaded and can be unloaded; a built-in one cannot.
pub fn is_loaded(reader: &dyn Reader, module: &str) -> Result<bool, ReadError> {
    reader.exists(&initstate(module))
}

fn initstate(module: &str) -> String {
    format!("/sys/module/{module}/initstate")
}
