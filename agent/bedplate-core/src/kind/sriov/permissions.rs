//! Permission check for VF attributes. VFs are created by writes to sysfs, which the daemon's unit allows; their attributes
//! need a capability that the unit lacks as shipped. Checked before any write: otherwise every run would create VFs and
//! destroy them again because their attributes cannot be set.

use super::Pf;
use super::attributes::Stop;
use bedplate_host::HostKind;
use bedplate_host::capability::{self, NET_ADMIN, STATUS};

/// Path of the drop-in as installed by packages and `install.sh`.
const DROP_IN: &str = "/usr/share/bedplate/systemd/bedplate-worker@.service.d/vf-attributes.conf";

impl Pf<'_> {
    pub(super) fn may_set(&self) -> Result<(), Stop> {
        if self.context.facts.host != HostKind::Live {
            return Ok(());
        }
        let status = self.context.reader.text(STATUS);
        let status = status.map_err(|error| Stop::Unknown(error.to_string()))?;
        match capability::in_effect(&status, NET_ADMIN) {
            Some(true) => Ok(()),
            // An unprivileged user's plan is never applied.
            Some(false) if !capability::is_root(&status) => Ok(()),
            Some(false) => Err(Stop::Blocked {
                reason: "setting VF attributes needs CAP_NET_ADMIN, which this process lacks"
                    .to_owned(),
                fix: format!(
                    "grant it to the daemon's units: `for unit in observer worker loader; do \
                     d=/etc/systemd/system/bedplate-$unit@.service.d; mkdir -p $d && cp {DROP_IN} $d/; done`, then run \
                     `systemctl daemon-reload` and `bedplate reconcile`; or run `bedplate apply` as root"
                ),
            }),
            None => Err(Stop::Unknown(format!(
                "{STATUS} does not show whether this process has CAP_NET_ADMIN"
            ))),
        }
    }
}
