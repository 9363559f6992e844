#!/bin/sh
# usage: ./install.sh [--program FILE] [--destdir DIR]
#        ./install.sh --uninstall [--revert] [--program FILE] [--destdir DIR]
#
# Installs bedplate from this checkout: the program, units, bus and polkit policy, journal catalog, man pages, completions
# for bash, zsh and fish, a sample profile. FILE is a program that is built already; without it cargo builds the release.
# Without DIR, systemd and the journal also read what is new. Nothing is enabled and nothing on this host is changed:
# `systemctl enable --now bedplate-boot bedplate` starts it. --uninstall removes it, and says what bedplate has changed on
# the host and not put back; with --revert it puts that back first. Nothing inside DIR is run, and nothing outside of it is
# written: what has to be done in DIR is done by FILE, the program that was built here, or /usr/bin/bedplate.
# DIR, and the directories in it and above it, are refused where others than root and the caller may write them.
set -eu
# Others read what is installed, and only root writes it, whatever the caller's umask.
umask 022
here=$PWD
who=install.sh
shipped=systemd
cd "$(dirname "$0")"
usage() { sed -n '2,11s/^# \{0,1\}//p' install.sh; }
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
[ -z "$revert" ] || [ -n "$uninstall" ] || wrong "--revert goes with --uninstall"

# What the caller names is meant from where the caller stands.
case $program in ''|/*) ;; *) program=$here/$program ;; esac
case $destdir in ''|/*) ;; *) destdir=$here/$destdir ;; esac
# A name that ends with a newline reads as another one.
case $destdir in *"
"*) wrong "--destdir names a directory with a newline" ;; esac

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
    '644 systemd/bedplate-is-ready.target /usr/lib/systemd/system/bedplate-is-ready.target' \
    '755 systemd/system-shutdown/bedplate /usr/lib/systemd/system-shutdown/bedplate' \
    '644 systemd/catalog/bedplate.catalog /usr/lib/systemd/catalog/bedplate.catalog' \
    '644 systemd/dbus/org.bedplate.Agent1.conf /usr/share/dbus-1/system.d/org.bedplate.Agent1.conf' \
    '644 systemd/polkit/org.bedplate.policy /usr/share/polkit-1/actions/org.bedplate.policy'
  # Drop-ins that an operator copies where they are wanted. The loader's is part of its unit.
  for file in systemd/*.d/*.conf; do
    case $file in systemd/bedplate-loader@.service.d/*) continue ;; esac
    echo "644 $file /usr/share/bedplate/$file"
  done
  for file in packaging/integrations/*.md packaging/integrations/*/* packaging/integrations/*/*/*/*; do
    [ -f "$file" ] || continue
    if [ -x "$file" ]; then
      echo "755 $file /usr/lib/bedplate/${file##*/}"
    else
      echo "644 $file /usr/share/bedplate/${file#packaging/}"
    fi
  done
}

# Completions: shell, target. zsh's directory for packages is another one on Debian and its kin.
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
    # The bus reads its policy again; it must never be restarted.
    busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig >/dev/null 2>&1 || true
  fi
}

# Prints a directory that others than root and the caller may write: they could put a link there after it was looked at.
# $2 = above: one above DIR, in which it is enough that others cannot replace what is not theirs. In a user namespace of the
# caller's own all that belongs to this system shows as the overflow user's.
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
    echo "install.sh: others than root and you may write $open: nothing was changed. Use a directory of your own" >&2
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

# Refused: a DIR that is not the caller's, or that somebody else can move away. From here on it is meant without links.
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

# Refused: a directory from $1 up to DIR that others may write, and one that a link among them passes through: whoever can
# exchange a link on the way decides where it leads. $2: how many links led here.
below_closed() {
  at=$1
  while [ "$at" != "${root:-/}" ] && [ "$at" != / ]; do
    ! [ -e "$at" ] || expect_closed "$(realpath -- "$at")"
    if [ -L "$at" ]; then
      [ "${2:-0}" -lt 40 ] || { echo "install.sh: too many links lead to $at: nothing was changed" >&2; exit 1; }
      to=$(readlink -- "$at")
      case $to in /*) ;; *) to=$(dirname -- "$at")/$to ;; esac
      (below_closed "$to" $((${2:-0} + 1)))
    fi
    at=$(dirname -- "$at")
  done
}

# Refused: a directory of DIR that is a link out of it, or that others may write. Root would write and delete files of this host through it.
stay_inside() {
  [ -n "$destdir" ] || return 0
  root=${destdir%/}
  # Not one pipeline: where `sort` fails, nothing would be looked at.
  parents=$({
    files | while read -r _ _ target; do echo "${target%/*}"; done
    completions | while read -r _ target; do echo "${target%/*}"; done
    printf '%s\n' /usr/share/man/man1 /usr/share/man/man5 /usr/share/man/man7 /usr/share/doc /etc/bedplate
    for unit in bedplate.service bedplate-worker.socket bedplate-observer@.service bedplate-worker@.service bedplate-loader@.service; do
      echo "$drop_ins/$unit.d"
    done
  } | LC_ALL=C sort -u) || parents=
  [ -n "$parents" ] || {
    echo "install.sh: the directories to install into cannot be listed (sort failed): nothing was changed" >&2
    exit 1
  }
  printf '%s\n' "$parents" | while read -r parent; do
    real=$(realpath -m -- "$destdir$parent")
    case $real/ in
      "$root"/*) ;;
      *) echo "install.sh: $destdir$parent leads out of $destdir, to $real: nothing was changed" >&2; exit 1 ;;
    esac
    # Each directory on the way, as it is named and where it leads.
    below_closed "$root$parent"
    [ "$real" = "$root$parent" ] || below_closed "$real"
  done
}

# Only bedplate is installed, and only bedplate is trusted to put things back.
is_bedplate() {
  if ! version=$("$1" --version 2>/dev/null); then
    echo "install.sh: $1 does not run here: is it bedplate, built for $(uname -m) and for this C library or an older one?" >&2
    exit 1
  fi
  case $version in
    "bedplate "*) ;;
    *) echo "install.sh: $1 is not bedplate: its --version says otherwise" >&2; exit 1 ;;
  esac
  # What is installed starts the daemon, and what is uninstalled is withdrawn by it.
  "$1" withdraw --help >/dev/null 2>&1 || {
    echo "install.sh: $1 is a bedplate without the daemon, for image builds alone: build it without --no-default-features" >&2
    exit 1
  }
}

# The program that puts back and withdraws. Never the one inside DIR: an image may hold anything.
tool=/usr/bin/bedplate
choose_tool() {
  [ -n "$destdir" ] || return 0
  if [ -n "$program" ]; then
    tool=$program
  elif [ -x target/release/bedplate ]; then
    tool=target/release/bedplate
  elif ! [ -x "$tool" ]; then
    echo "install.sh: no bedplate to look into $destdir with (neither target/release/bedplate nor $tool): name one with --program FILE" >&2
    exit 1
  fi
  is_bedplate "$tool"
}

# Whether there is anything to uninstall; what a revert would need counts if it is asked for.
is_installed() {
  [ -z "$revert" ] || ! [ -e "$destdir/var/lib/bedplate/ledger.json" ] || return 0
  { files | sed 's/.* //'; completions | sed 's/.* //'; } | {
    while read -r target; do
      if [ -e "$destdir$target" ] || [ -L "$destdir$target" ]; then exit 0; fi
    done
    exit 1
  }
}

# On the host that is uninstalled from: the running machine, or the directory.
there() {
  "$tool" "$@" ${destdir:+--root "$destdir"}
}

# What is still applied is said while the program is there that can put it back. Nobody is asked where nobody can answer.
offer_revert() {
  status=0
  there revert --dry-run --exit-code >/dev/null 2>&1 || status=$?
  [ "$status" -ne 0 ] && [ -z "$revert" ] || return 0
  echo "bedplate has changed ${destdir:-this host}, and what it changed stays when it is uninstalled:"
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
    # Of an image: its tools are run by whoever builds it.
    6) echo "put back; the image's own tools that are named above still have to be run in it" ;;
    *)
      echo "install.sh: not everything was put back (see above): bedplate stays installed, with its daemon stopped" >&2
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
    # An announced reboot first, which would come without the daemon, then the daemon: it would undo a revert, and write
    # again what is withdrawn.
    "$tool" reboot cancel >/dev/null 2>&1 || true
    systemctl disable --now bedplate bedplate-boot 2>/dev/null || true
    for unit in observer.socket worker.socket loader.socket holders.socket check.socket is-ready.target ready.target ready.service; do
      systemctl stop "bedplate-$unit" 2>/dev/null || true
    done
  fi
  if [ -x "$tool" ]; then
    put_back
    if ! there withdraw; then
      echo "install.sh: not everything was taken back (see above): bedplate stays installed, with its daemon stopped" >&2
      exit 1
    fi
  fi
  files | while read -r _ _ target; do rm -f "$destdir$target"; done
  rm -f "$destdir"/usr/share/man/man1/bedplate*.1 "$destdir/usr/share/man/man5/bedplate-profile.5" "$destdir/usr/share/man/man7/bedplate-checks.7"
  completions | while read -r _ target; do rm -f "$destdir$target"; done
  find "$destdir/usr/share/bedplate" -depth -type d -empty -delete 2>/dev/null || true
  rmdir "$destdir/usr/lib/bedplate" "$destdir/usr/share/doc/bedplate" "$destdir/usr/lib/systemd/system/bedplate-loader@.service.d" 2>/dev/null || true
  live
  echo "bedplate is uninstalled; its profiles (/etc/bedplate) and its record of what it changed (/var/lib/bedplate) stay"
  exit 0
fi

if [ -z "$program" ]; then
  if ! command -v cargo >/dev/null; then
    echo "install.sh: there is no cargo here to build bedplate with. Either install Rust (https://rustup.rs) and run this" >&2
    echo "  again, or build on another machine with \`cargo build --release --locked\`, copy target/release/bedplate here, and" >&2
    echo "  run: $0 --program FILE" >&2
    exit 1
  fi
  cargo build --release --locked
  program=target/release/bedplate
fi
is_bedplate "$program"
refuse_foreign
stay_inside
# From a bedplate whose daemon did everything itself.
upgrade=
if [ -e "$destdir/usr/lib/systemd/system/bedplate.service" ] && ! [ -e "$destdir/usr/lib/systemd/system/bedplate-worker@.service" ]; then
  upgrade=1
fi
files | while read -r mode source target; do
  [ "$source" != PROGRAM ] || source=$program
  # Never into a directory, nor through a link that an image has there.
  mkdir -p "$destdir${target%/*}"
  install -T -m "$mode" "$source" "$destdir$target"
done
mkdir -p "$destdir/etc/bedplate"
# Who may write it decides what runs as root: bedplate refuses profiles there that others may write.
chmod go-w "$destdir/etc/bedplate" ||
  echo "install.sh: warning: cannot take write permission on $destdir/etc/bedplate from group and others: see that only root may write it" >&2
# What is a link there is replaced, not written through.
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
  # Until then it runs as before, and with the limits of the new unit.
  echo "installed. Next: systemctl restart bedplate"
elif [ -z "$destdir" ]; then
  echo "installed. Next: \`bedplate profile init\`, fill in its reboot window, \`bedplate plan\`, then: systemctl enable --now bedplate-boot bedplate"
else
  echo "installed in $destdir. If that is an image: \`bedplate profile init --root $destdir --extends NAME\`, fill in its reboot"
  echo "window, \`bedplate plan --root $destdir\`, then: systemctl --root=$destdir enable bedplate-boot bedplate"
fi
