# Part of the scripts of both packages; packaging/build puts it into each. Nothing is enabled and nothing is started that did
# not run before.

who=bedplate
destdir=
shipped=/usr/share/bedplate/systemd

# systemd, the bus and the journal read what is new, or what is gone. The bus must never be restarted.
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
  # Who may write it decides what runs as root.
  chmod go-w /etc/bedplate || echo "bedplate: warning: see that only root may write /etc/bedplate" >&2
  # Over an installation by install.sh, which may be of a bedplate whose daemon did everything itself.
  [ "$1" != first ] || move_drop_ins
  bedplate_read_again
  # What the daemon has announced is kept in /run/bedplate, which outlives it: the new one takes it over.
  if [ "$1" = upgrade ] && [ -d /run/systemd/system ]; then
    systemctl try-restart bedplate.service || echo "bedplate: warning: the daemon was not restarted: systemctl status bedplate" >&2
  fi
}

# While the program is there: it says what it leaves behind, and takes back what would act without it.
bedplate_before_removal() {
  left=/var/lib/bedplate/left-behind
  rm -f "$left"
  # In an image, too: what enabling has linked would be left.
  systemctl disable bedplate.service bedplate-boot.service 2>/dev/null || true
  if [ -d /run/systemd/system ]; then
    bedplate reboot cancel >/dev/null 2>&1 || true
    systemctl stop bedplate.service bedplate-boot.service 2>/dev/null || true
    systemctl stop bedplate-observer.socket bedplate-worker.socket bedplate-loader.socket bedplate-holders.socket bedplate-check.socket 2>/dev/null || true
    systemctl stop bedplate-is-ready.target bedplate-ready.target bedplate-ready.service 2>/dev/null || true
  fi
  # An image that is built elsewhere may not be able to run it.
  bedplate --version >/dev/null 2>&1 || return 0
  status=0
  bedplate revert --dry-run --exit-code >/dev/null 2>&1 || status=$?
  if [ "$status" -ne 0 ] && [ -d /var/lib/bedplate ]; then
    bedplate revert --dry-run >"$left" 2>&1 || true
    echo "bedplate: what it has changed on this host stays. Installed again, \`bedplate revert\` would do this:"
    cat "$left"
  fi
  if ! bedplate withdraw; then
    echo "bedplate: not everything that it tells others could be taken back (see above)" >&2
    return 1
  fi
}

# The operator's profiles and the record of changes: only when the package is purged.
bedplate_purge() {
  left=/var/lib/bedplate/left-behind
  if [ -s "$left" ]; then
    echo "bedplate: purged, with its record of what was there before. What it has changed stays; undoing it by hand means:"
    cat "$left"
  fi
  rm -rf /etc/bedplate /var/lib/bedplate /run/bedplate /run/bedplate-helpers
}
