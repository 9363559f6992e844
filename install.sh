#!/bin/sh
# usage: ./install.sh [--program FILE] [--destdir DIR]
#        ./install.sh --uninstall [--revert] [--program FILE] [--destdir DIR]
#
# Installs bedplate from this checkout or tarball: program, units, bus and polkit policy, journal catalog, man pages,
# completions for bash, zsh and fish, and a sample profile. FILE is an existing program; without it, the tarball's program
# is used, and in a checkout cargo builds the release. Without DIR, systemd and the journal also reload. Nothing is enabled,
# and no setting of this host changes: `systemctl enable --now bedplate-boot bedplate` starts bedplate. --uninstall removes
# it and lists bedplate's changes that are still on the host; with --revert it undoes them first. Nothing inside DIR is run,
# and nothing outside of it is written: FILE, the program of the tarball or of the build here, or /usr/bin/bedplate does
# the work in DIR. DIR, and directories in it and above it, are refused if users other than root and the caller may write
# them.
set -eu
# Installed files are readable by all users and writable only by root, whatever the caller's umask.
umask 022
here=$PWD
who=install.sh
shipped=systemd
cd "$(dirname "$0")"
usage() { sed -n '2,12s/^# \{0,1\}//p' install.sh; }
wrong() { echo "install.sh: $1 (--help shows the usage)" >&2; exit 64; }
value() { case $3 in '' | -*) wrong "$1 needs $2" ;; esac; }
program=${BEDPLATE_PROGRAM:-}
destdir=
uninstall=
revert=
while [ $# -gt 0 ]; do
  case $1 in
    --program) value "$1" "a file" "${2:-}"; program=$2; shift 2 ;;
    --destdir) value "$1" "a directory" "${2:-}"; destdir=$2; shift 2 ;;
    --uninstall) uninstall=1; shift ;;
    --revert) revert=1; shift ;;
    --help|-h) usage; exit 0 ;;
    *) usage >&2; exit 64 ;;
  esac
done
[ -z "$revert" ] || [ -n "$uninstall" ] || wrong "--revert requires --uninstall"

# The tarball has the program next to this script.
[ -n "$program" ] || ! [ -f bedplate ] || program=$PWD/bedplate
# Relative paths start at the caller's directory.
case $program in ''|/*) ;; *) program=$here/$program ;; esac
case $destdir in ''|/*) ;; *) destdir=$here/$destdir ;; esac
# Command substitution drops newlines at the end of a name.
case $destdir in *"
"*) wrong "--destdir must not contain a newline" ;; esac

files() {
  # mode, source, target
  printf '%s\n' \
    '755 PROGRAM /usr/bin/bedplate' \
    '644 profiles/example.toml /usr/share/doc/bedplate/profile.toml' \
    '644 systemd/bedplate.service /usr/lib/systemd/system/bedplate.service' \
    '644 systemd/bedplate-boot.service /usr/lib/systemd/system/bedplate-boot.service' \
    '644 systemd/system-bedplate.slice /usr/lib/systemd/system/system-bedplate.slice' \
    '644 systemd/bedplate-observer.socket /usr/lib/systemd/system/bedplate-observer.socket' \
    '644 systemd/bedplate-observer@.service /usr/lib/systemd/system/bedplate-observer@.service' \
    '644 systemd/bedplate-worker.socket /usr/lib/systemd/system/bedplate-worker.socket' \
    '644 systemd/bedplate-worker@.service /usr/lib/systemd/system/bedplate-worker@.service' \
    '644 systemd/bedplate-loader.socket /usr/lib/systemd/system/bedplate-loader.socket' \
    '644 systemd/bedplate-worker@.service /usr/lib/systemd/system/bedplate-loader@.service' \
    '644 systemd/bedplate-loader@.service.d/modules.conf /usr/lib/systemd/system/bedplate-loader@.service.d/modules.conf' \
    '644 systemd/bedplate-holders.socket /usr/lib/systemd/system/bedplate-holders.socket' \
    '644 systemd/bedplate-holders@.service /usr/lib/systemd/system/bedplate-holders@.service' \
    '644 systemd/bedplate-check.socket /usr/lib/systemd/system/bedplate-check.socket' \
    '644 systemd/bedplate-check@.service /usr/lib/systemd/system/bedplate-check@.service' \
    '644 systemd/bedplate-ready.service /usr/lib/systemd/system/bedplate-ready.service' \
    '644 systemd/bedplate-ready.target /usr/lib/systemd/system/bedplate-ready.target' \
    '644 systemd/bedplate-ready.service /usr/lib/systemd/system/bedplate-host-ready.service' \
    '644 systemd/bedplate-host-ready.service.d/stage.conf /usr/lib/systemd/system/bedplate-host-ready.service.d/stage.conf' \
    '644 systemd/bedplate-host-ready.target /usr/lib/systemd/system/bedplate-host-ready.target' \
    '644 systemd/bedplate-is-ready.target /usr/lib/systemd/system/bedplate-is-ready.target' \
    '755 systemd/system-shutdown/bedplate /usr/lib/systemd/system-shutdown/bedplate' \
    '644 systemd/catalog/bedplate.catalog /usr/lib/systemd/catalog/bedplate.catalog' \
    '644 systemd/dbus/org.bedplate.Agent1.conf /usr/share/dbus-1/system.d/org.bedplate.Agent1.conf' \
    '644 systemd/polkit/org.bedplate.policy /usr/share/polkit-1/actions/org.bedplate.policy'
  # Drop-ins for operators to copy where needed. Two are parts of their units.
  for file in systemd/*.d/*.conf; do
    case $file in systemd/bedplate-loader@.service.d/* | systemd/bedplate-host-ready.service.d/*) continue ;; esac
    echo "644 $file /usr/share/bedplate/$file"
  done
  for file in packaging/integrations/*.md packaging/integrations/*/* packaging/integrations/*/*/* packaging/integrations/*/*/*/*; do
    [ -f "$file" ] || continue
    if [ -x "$file" ]; then
      echo "755 $file /usr/lib/bedplate/${file##*/}"
      # Kustomize reads the plugin next to its kustomization.yaml, as data.
      case $file in */kubernetes/*) echo "644 $file /usr/share/bedplate/${file#packaging/}" ;; esac
    else
      echo "644 $file /usr/share/bedplate/${file#packaging/}"
    fi
  done
}

# Completions: shell, target. Debian and its derivatives have another zsh directory for packages.
completions() {
  zsh=/usr/share/zsh/site-functions/_bedplate
  [ ! -e "$destdir/etc/debian_version" ] || zsh=/usr/share/zsh/vendor-completions/_bedplate
  printf '%s\n' \
    'bash /usr/share/bash-completion/completions/bedplate' \
    "zsh $zsh" \
    'fish /usr/share/fish/vendor_completions.d/bedplate.fish'
}

. packaging/scripts/drop-ins.sh

live() {
  [ -z "$destdir" ] || return 0
  journalctl --update-catalog 2>/dev/null || true
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # Reloads the bus policy; the bus must never be restarted.
    busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig >/dev/null 2>&1 || true
  fi
}

# Prints the directory $1 if users other than root and the caller may write it: they could place a link there after the
# check. $2 = above: a directory above DIR, where the sticky bit suffices: others cannot replace files that they do not own.
# In the caller's own user namespace, the system's files appear as the overflow user's.
open_to_others() {
  sticky='' unmapped=
  if [ "${2:-}" = above ]; then
    sticky='! -perm -1000'
    [ "$(sed -n '1s/.* //p' /proc/self/uid_map 2>/dev/null)" = 4294967295 ] ||
      unmapped="! -user $(cat /proc/sys/kernel/overflowuid)"
  fi
  # shellcheck disable=SC2086
  find "$1" -prune \( ! -user 0 ! -user "$user" $unmapped -o $sticky -perm -0002 \
    -o $sticky -perm -0020 ! -group 0 ! -group "$group" \) -print
}

expect_closed() {
  open=$(open_to_others "$@")
  [ -z "$open" ] || {
    echo "install.sh: users other than root and you may write $open; nothing was changed. Use a directory of your own" >&2
    exit 1
  }
}

above() {
  at=$1
  while [ "$at" != / ]; do
    at=$(dirname -- "$at")
    expect_closed "$at" above
  done
}

# Refuses a DIR that other users may write or move away. Then resolves all links in its path.
refuse_foreign() {
  [ -n "$destdir" ] || return 0
  user=$(id -u) group=$(id -g)
  nearest=$destdir
  while ! [ -e "$nearest" ]; do nearest=$(dirname -- "$nearest"); done
  nearest=$(realpath -- "$nearest")
  expect_closed "$nearest" above
  above "$nearest"
  [ -n "$uninstall" ] || mkdir -p "$destdir"
  destdir=$(realpath -m -- "$destdir")
  ! [ -e "$destdir" ] || expect_closed "$destdir"
  above "$destdir"
}

# Refuses a directory from $1 up to DIR that others may write, and any that a link among them passes through: whoever can
# replace a link on the way decides where it leads. $2: number of links followed so far.
below_closed() {
  at=$1
  while [ "$at" != "${root:-/}" ] && [ "$at" != / ]; do
    ! [ -e "$at" ] || expect_closed "$(realpath -- "$at")"
    if [ -L "$at" ]; then
      [ "${2:-0}" -lt 40 ] || { echo "install.sh: too many links lead to $at; nothing was changed" >&2; exit 1; }
      to=$(readlink -- "$at")
      case $to in /*) ;; *) to=$(dirname -- "$at")/$to ;; esac
      (below_closed "$to" $((${2:-0} + 1)))
    fi
    at=$(dirname -- "$at")
  done
}

# Refuses a directory in DIR that is a link out of it, or that others may write: root would write and delete files of this
# host through it.
stay_inside() {
  [ -n "$destdir" ] || return 0
  root=${destdir%/}
  # Not one pipeline: if `sort` failed, nothing would be checked.
  parents=$({
    files | while read -r _ _ target; do echo "${target%/*}"; done
    completions | while read -r _ target; do echo "${target%/*}"; done
    printf '%s\n' /usr/share/man/man1 /usr/share/man/man5 /usr/share/man/man7 /usr/share/doc /etc/bedplate
    for unit in bedplate.service bedplate-worker.socket bedplate-observer@.service bedplate-worker@.service bedplate-loader@.service; do
      echo "$drop_ins/$unit.d"
    done
  } | LC_ALL=C sort -u) || parents=
  [ -n "$parents" ] || {
    echo "install.sh: cannot list the target directories (sort failed); nothing was changed" >&2
    exit 1
  }
  printf '%s\n' "$parents" | while read -r parent; do
    real=$(realpath -m -- "$destdir$parent")
    case $real/ in
      "$root"/*) ;;
      *) echo "install.sh: $destdir$parent leads out of $destdir, to $real; nothing was changed" >&2; exit 1 ;;
    esac
    # Every directory on the way: as named, and with links resolved.
    below_closed "$root$parent"
    [ "$real" = "$root$parent" ] || below_closed "$real"
  done
}

# Only bedplate is installed, and only bedplate may revert changes.
is_bedplate() {
  if ! version=$("$1" --version 2>/dev/null); then
    echo "install.sh: $1 does not run here; it must be bedplate, built for $(uname -m) and this C library or an older one" >&2
    exit 1
  fi
  case $version in
    "bedplate "*) ;;
    *) echo "install.sh: $1 is not bedplate, according to its --version" >&2; exit 1 ;;
  esac
  # The units start the daemon, and uninstalling runs `withdraw`.
  "$1" withdraw --help >/dev/null 2>&1 || {
    echo "install.sh: $1 was built without the daemon, for image builds only; build it without --no-default-features" >&2
    exit 1
  }
}

# The program that runs `revert` and `withdraw`. Never the one inside DIR: an image may contain any program.
tool=/usr/bin/bedplate
choose_tool() {
  [ -n "$destdir" ] || return 0
  if [ -n "$program" ]; then
    tool=$program
  elif [ -x target/release/bedplate ]; then
    tool=target/release/bedplate
  elif ! [ -x "$tool" ]; then
    echo "install.sh: no bedplate to inspect $destdir with (neither target/release/bedplate nor $tool); pass one with --program FILE" >&2
    exit 1
  fi
  is_bedplate "$tool"
}

# Succeeds if there is anything to uninstall; with --revert, a record of changes suffices.
is_installed() {
  [ -z "$revert" ] || ! [ -e "$destdir/var/lib/bedplate/ledger.json" ] || return 0
  { files | sed 's/.* //'; completions | sed 's/.* //'; } | {
    while read -r target; do
      if [ -e "$destdir$target" ] || [ -L "$destdir$target" ]; then exit 0; fi
    done
    exit 1
  }
}

# Runs the tool for the running machine or for DIR.
there() {
  "$tool" "$@" ${destdir:+--root "$destdir"}
}

# Lists applied changes while the program that can undo them still exists. Asks only on a terminal.
offer_revert() {
  status=0
  there revert --dry-run --exit-code >/dev/null 2>&1 || status=$?
  [ "$status" -ne 0 ] && [ -z "$revert" ] || return 0
  echo "bedplate's changes to ${destdir:-this host} remain after uninstalling. A revert would do this:"
  there revert --dry-run || true
  if [ -t 0 ] && [ -t 1 ]; then
    printf 'revert them now? [y/N] '
    read -r answer || answer=
    case $answer in y | Y | yes) revert=1 ;; esac
  else
    echo "to revert them: ./install.sh --uninstall --revert${destdir:+ --destdir $destdir}"
  fi
}

put_back() {
  [ -n "$revert" ] || return 0
  status=0
  there revert --yes || status=$?
  case $status in
    0) ;;
    3) echo "reverted; the running kernel's boot settings remain until the next reboot" ;;
    # An image: whoever builds it runs its tools.
    6) echo "reverted; the image's own tools named above must still be run in it" ;;
    *)
      echo "install.sh: not all changes were reverted (see above); bedplate stays installed, with its daemon stopped" >&2
      exit "$status"
      ;;
  esac
}

if [ -n "$uninstall" ]; then
  refuse_foreign
  if ! is_installed; then
    echo "bedplate is not installed ${destdir:+in }${destdir:-on this host}: nothing was removed"
    exit 0
  fi
  stay_inside
  choose_tool
  ! [ -x "$tool" ] || offer_revert
  if [ -z "$destdir" ]; then
    # First cancels a scheduled reboot, which would happen without the daemon too. Then stops the daemon, which would undo
    # a revert and rewrite withdrawn files.
    "$tool" reboot cancel >/dev/null 2>&1 || true
    systemctl disable --now bedplate bedplate-boot 2>/dev/null || true
    for unit in observer.socket worker.socket loader.socket holders.socket check.socket is-ready.target ready.target ready.service; do
      systemctl stop "bedplate-$unit" 2>/dev/null || true
    done
  fi
  if [ -x "$tool" ]; then
    put_back
    if ! there withdraw; then
      echo "install.sh: not all published data was removed (see above); bedplate stays installed, with its daemon stopped" >&2
      exit 1
    fi
  fi
  files | while read -r _ _ target; do rm -f "$destdir$target"; done
  rm -f "$destdir"/usr/share/man/man1/bedplate*.1 "$destdir/usr/share/man/man5/bedplate-profile.5" "$destdir/usr/share/man/man7/bedplate-checks.7"
  completions | while read -r _ target; do rm -f "$destdir$target"; done
  find "$destdir/usr/share/bedplate" -depth -type d -empty -delete 2>/dev/null || true
  rmdir "$destdir/usr/lib/bedplate" "$destdir/usr/share/doc/bedplate" "$destdir/usr/lib/systemd/system/bedplate-loader@.service.d" 2>/dev/null || true
  live
  echo "bedplate is uninstalled; its profiles (/etc/bedplate) and its record of changes (/var/lib/bedplate) remain"
  exit 0
fi

if [ -z "$program" ]; then
  if ! command -v cargo >/dev/null; then
    echo "install.sh: no cargo to build bedplate with. Either install Rust (https://rustup.rs) and run this again, or" >&2
    echo "  build on another machine with \`cargo build --release --locked\`, copy target/release/bedplate here, and run:" >&2
    echo "  $0 --program FILE" >&2
    exit 1
  fi
  cargo build --release --locked
  program=target/release/bedplate
fi
is_bedplate "$program"
refuse_foreign
stay_inside
# Upgrade from a bedplate whose daemon did all work itself.
upgrade=
if [ -e "$destdir/usr/lib/systemd/system/bedplate.service" ] && ! [ -e "$destdir/usr/lib/systemd/system/bedplate-worker@.service" ]; then
  upgrade=1
fi
files | while read -r mode source target; do
  [ "$source" != PROGRAM ] || source=$program
  # Never writes into a directory, or through a link in an image.
  mkdir -p "$destdir${target%/*}"
  install -T -m "$mode" "$source" "$destdir$target"
done
mkdir -p "$destdir/etc/bedplate"
# Its profiles decide what runs as root: bedplate refuses those that others may write.
chmod go-w "$destdir/etc/bedplate" ||
  echo "install.sh: warning: cannot remove write permission of group and others on $destdir/etc/bedplate: allow only root to write it" >&2
# Replaces a link there instead of writing through it.
rm -f "$destdir"/usr/share/man/man1/bedplate*.1 "$destdir/usr/share/man/man5/bedplate-profile.5" "$destdir/usr/share/man/man7/bedplate-checks.7"
"$program" man --out "$destdir/usr/share/man"
completions | while read -r shell target; do
  mkdir -p "$destdir$(dirname "$target")"
  rm -f "$destdir$target"
  "$program" completions "$shell" >"$destdir$target"
done
[ -z "$upgrade" ] || move_drop_ins
live
if [ -z "$destdir" ] && systemctl is-active -q bedplate 2>/dev/null; then
  # Until the restart the old daemon runs, with the limits of the new unit.
  echo "installed. Next: systemctl restart bedplate"
elif [ -z "$destdir" ]; then
  echo "installed. Next: \`bedplate profile init\`, fill in its reboot window, \`bedplate plan\`, then: systemctl enable --now bedplate-boot bedplate"
else
  echo "installed in $destdir. If that is an image: \`bedplate profile init --root $destdir --extends NAME\`, fill in its reboot"
  echo "window, \`bedplate plan --root $destdir\`, then: systemctl --root=$destdir enable bedplate-boot bedplate"
fi
