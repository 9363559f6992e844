#!/bin/sh
# Installs bedplate from this checkout: the release build, units, bus and polkit policy, journal catalog, man pages,
# completions. `./install.sh [--destdir DIR]`; without a directory it also has systemd and the journal read what is new.
# Nothing is enabled: `systemctl enable --now bedplate-boot bedplate` does that. `./install.sh --uninstall` takes it out, and
# says what bedplate has changed on the host and not put back; with `--revert` it puts that back first.
set -eu
cd "$(dirname "$0")"
destdir=
uninstall=
revert=
while [ $# -gt 0 ]; do
  case $1 in
    --destdir) destdir=${2:?--destdir needs a directory}; shift 2 ;;
    --uninstall) uninstall=1; shift ;;
    --revert) revert=1; shift ;;
    *) sed -n '2,5s/^# //p' "$0" >&2; exit 64 ;;
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

installed=$destdir/usr/bin/bedplate

# On the host that is uninstalled from: the running machine, or the directory.
there() {
  "$installed" "$@" ${destdir:+--root "$destdir"}
}

# What is still applied is said while the program is there that can put it back. Nobody is asked where nobody can answer.
offer_revert() {
  status=0
  there revert --dry-run --exit-code >/dev/null 2>&1 || status=$?
  [ "$status" -ne 0 ] && [ -z "$revert" ] || return 0
  echo "bedplate has changed this host, and what it changed stays when it is uninstalled:"
  there revert --dry-run || true
  if [ -t 0 ] && [ -t 1 ]; then
    printf 'put it back now? [y/N] '
    read -r answer || answer=
    case $answer in y | Y | yes) revert=1 ;; esac
  else
    echo "to have it put back: ./install.sh --uninstall --revert${destdir:+ --destdir $destdir}"
  fi
}

put_back() {
  [ -n "$revert" ] || return 0
  status=0
  there revert --yes || status=$?
  case $status in
    0) ;;
    3) echo "put back; what the kernel was booted with stays until the next boot" ;;
    *)
      echo "install.sh: not everything was put back (see above): bedplate stays installed, with its daemon stopped" >&2
      exit "$status"
      ;;
  esac
}

if [ -n "$uninstall" ]; then
  ! [ -x "$installed" ] || offer_revert
  if [ -z "$destdir" ]; then
    # An announced reboot first, which would come without the daemon, then the daemon: it would undo a revert, and write
    # again what is withdrawn.
    "$installed" reboot cancel >/dev/null 2>&1 || true
    systemctl disable --now bedplate bedplate-boot 2>/dev/null || true
  fi
  if [ -x "$installed" ]; then
    put_back
    there withdraw || true
  fi
  files | while read -r _ _ target; do rm -f "$destdir$target"; done
  rm -f "$destdir"/usr/share/man/man1/bedplate*.1 "$destdir/usr/share/bash-completion/completions/bedplate"
  live
  echo "bedplate is uninstalled; its profiles (/etc/bedplate) and its record of what it changed (/var/lib/bedplate) stay"
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
