#!/bin/sh
# Installs bedplate from this checkout: the release build, units, bus and polkit policy, journal catalog, man pages,
# completions. `./install.sh [--destdir DIR]`; without a directory it also has systemd and the journal read what is new.
# Nothing is enabled: `systemctl enable --now bedplate-boot bedplate` does that. `./install.sh --uninstall` takes it out.
set -eu
cd "$(dirname "$0")"
destdir=
uninstall=
while [ $# -gt 0 ]; do
  case $1 in
    --destdir) destdir=${2:?--destdir needs a directory}; shift 2 ;;
    --uninstall) uninstall=1; shift ;;
    *) sed -n '2,4s/^# //p' "$0" >&2; exit 64 ;;
  esac
done
program=${BEDPLATE_PROGRAM:-target/release/bedplate}

files() {
  # mode, source, target
  printf '%s\n' \
    "755 $program /usr/bin/bedplate" \
    '644 systemd/bedplate.service /usr/lib/systemd/system/bedplate.service' \
    '644 systemd/bedplate-boot.service /usr/lib/systemd/system/bedplate-boot.service' \
    '644 systemd/bedplate-ready.service /usr/lib/systemd/system/bedplate-ready.service' \
    '644 systemd/bedplate-ready.target /usr/lib/systemd/system/bedplate-ready.target' \
    '755 systemd/system-shutdown/bedplate /usr/lib/systemd/system-shutdown/bedplate' \
    '644 systemd/catalog/bedplate.catalog /usr/lib/systemd/catalog/bedplate.catalog' \
    '644 systemd/dbus/org.bedplate.Agent1.conf /usr/share/dbus-1/system.d/org.bedplate.Agent1.conf' \
    '644 systemd/polkit/org.bedplate.policy /usr/share/polkit-1/actions/org.bedplate.policy'
}

live() {
  [ -z "$destdir" ] || return 0
  journalctl --update-catalog 2>/dev/null || true
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # The bus reads its policy again; it must never be restarted.
    busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig >/dev/null 2>&1 || true
  fi
}

if [ -n "$uninstall" ]; then
  [ -n "$destdir" ] || systemctl disable --now bedplate bedplate-boot 2>/dev/null || true
  files | while read -r _ _ target; do rm -f "$destdir$target"; done
  rm -f "$destdir"/usr/share/man/man1/bedplate*.1 "$destdir/usr/share/bash-completion/completions/bedplate"
  live
  echo "bedplate is taken out; /etc/bedplate and /var/lib/bedplate stay (\`bedplate revert\` comes before)"
  exit 0
fi

if [ -z "${BEDPLATE_PROGRAM:-}" ]; then
  command -v cargo >/dev/null || { echo "install.sh: cargo is needed to build bedplate, or BEDPLATE_PROGRAM=FILE" >&2; exit 1; }
  cargo build --release --locked
fi
files | while read -r mode source target; do
  install -D -m "$mode" "$source" "$destdir$target"
done
mkdir -p "$destdir/usr/share/man/man1" "$destdir/usr/share/bash-completion/completions" "$destdir/etc/bedplate"
"$program" man --out "$destdir/usr/share/man/man1"
"$program" completions bash >"$destdir/usr/share/bash-completion/completions/bedplate"
live
echo "installed; put a profile at /etc/bedplate/profile.toml, look at \`bedplate plan\`, then: systemctl enable --now bedplate-boot bedplate"
