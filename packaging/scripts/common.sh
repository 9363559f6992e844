# Part of the scripts of both packages; packaging/build includes it in each. They enable nothing, and start nothing that was
# not running.

who=bedplate
destdir=
shipped=/usr/share/bedplate/systemd

# Makes systemd, the bus and the journal reload. The bus must never be restarted.
bedplate_read_again() {
  journalctl --update-catalog 2>/dev/null || true
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig >/dev/null 2>&1 || true
  fi
}

# $1: `first` or `upgrade`.
bedplate_installed() {
  [ -d /etc/bedplate ] || install -d -m 755 /etc/bedplate
  # Its profiles decide what runs as root.
  chmod go-w /etc/bedplate || echo "bedplate: warning: allow only root to write /etc/bedplate" >&2
  # install.sh may have installed a bedplate whose daemon did all work itself.
  [ "$1" != first ] || move_drop_ins
  bedplate_read_again
  # A scheduled reboot is stored in /run/bedplate, which survives the daemon; the new daemon adopts it.
  if [ "$1" = upgrade ] && [ -d /run/systemd/system ]; then
    systemctl try-restart bedplate.service || echo "bedplate: warning: the daemon was not restarted; see: systemctl status bedplate" >&2
  fi
}

# Runs while the program exists: lists changes that remain, and removes what would still act without it.
bedplate_before_removal() {
  left=/var/lib/bedplate/left-behind
  rm -f "$left"
  # Also in an image: links of enabled units would remain.
  systemctl disable bedplate.service bedplate-boot.service 2>/dev/null || true
  if [ -d /run/systemd/system ]; then
    bedplate reboot cancel >/dev/null 2>&1 || true
    systemctl stop bedplate.service bedplate-boot.service 2>/dev/null || true
    systemctl stop bedplate-observer.socket bedplate-worker.socket bedplate-loader.socket bedplate-holders.socket bedplate-check.socket 2>/dev/null || true
    systemctl stop bedplate-is-ready.target bedplate-ready.target bedplate-ready.service bedplate-host-ready.target bedplate-host-ready.service 2>/dev/null || true
  fi
  # An image for another machine may be unable to run it.
  bedplate --version >/dev/null 2>&1 || return 0
  status=0
  bedplate revert --dry-run --exit-code >/dev/null 2>&1 || status=$?
  if [ "$status" -ne 0 ] && [ -d /var/lib/bedplate ]; then
    bedplate revert --dry-run >"$left" 2>&1 || true
    echo "bedplate: its changes to this host remain. After reinstalling, \`bedplate revert\` would do this:"
    cat "$left"
  fi
  if ! bedplate withdraw; then
    echo "bedplate: not all published data was removed (see above)" >&2
    return 1
  fi
}

# Removes the operator's profiles and the record of changes, only when the package is purged.
bedplate_purge() {
  left=/var/lib/bedplate/left-behind
  if [ -s "$left" ]; then
    echo "bedplate: purged, with its record of previous settings. Its changes remain; to undo them manually:"
    cat "$left"
  fi
  rm -rf /etc/bedplate /var/lib/bedplate /run/bedplate /run/bedplate-helpers
}
