# Sourced by install.sh, and part of the packages' scripts. Requires `who`, the prefix of messages; `shipped`, the directory of
# the shipped drop-ins; and `destdir`, empty on the running machine.

# Drop-ins in bedplate.service.d from when the daemon did all work itself move to the units that need them now.
drop_ins=/etc/systemd/system
moved() {
  # name, unit, unit in whose directory it is shipped
  printf '%s\n' \
    'cold-reboot bedplate-worker@.service bedplate-worker@.service' \
    'cold-reboot bedplate-worker.socket bedplate-worker.socket' \
    'vf-attributes bedplate-observer@.service bedplate-worker@.service' \
    'vf-attributes bedplate-worker@.service bedplate-worker@.service' \
    'vf-attributes bedplate-loader@.service bedplate-worker@.service'
}

# Succeeds for a drop-in exactly as bedplate shipped it.
unmodified() {
  # Reading anything else (a FIFO in an image) might never end.
  [ -f "$1" ] && ! [ -L "$1" ] || return 1
  case $(sha256sum <"$1") in
    31633aa4ae2fb1342f18730919dcef086f3ff607fa13e1635aa114ae34b87937*) ;; # cold-reboot.conf
    0b14ed79992c109f0a04f20e2e79d4fce2f61b92262c319c697c63e9d3f128b2*) ;; # cold-reboot.conf, first version
    c9c12ce6d6eb36d5779686ce17d37dda4d21087148c769dbd04a057be71e183f*) ;; # vf-attributes.conf
    *) return 1 ;;
  esac
}

move_drop_ins() {
  old=$drop_ins/bedplate.service.d
  moved | while read -r name unit source; do
    new=$drop_ins/$unit.d/$name.conf
    if [ -e "$destdir$old/$name.conf" ] && ! [ -e "$destdir$new" ]; then
      install -D -m 644 "$shipped/$source.d/$name.conf" "$destdir$new"
      echo "$who: installed $new, which replaces $old/$name.conf"
    fi
  done
  for name in cold-reboot vf-attributes; do
    [ -e "$destdir$old/$name.conf" ] || continue
    if unmodified "$destdir$old/$name.conf"; then
      rm -f "$destdir$old/$name.conf"
    else
      echo "$who: warning: remove $old/$name.conf: the daemon no longer needs the rights that it grants; move your changes to $drop_ins/bedplate-worker@.service.d/$name.conf" >&2
    fi
  done
  for path in "$destdir$old"/*.conf; do
    name=${path##*/}
    case $name in
      cold-reboot.conf | vf-attributes.conf | no-user-namespace.conf | '*.conf') continue ;;
      fleetlock.conf) more="; a \`busy_command\` or \`command\` that uses the network needs $shipped/bedplate-worker@.service.d/network.conf" ;;
      *) more="; put Environment=, ReadWritePaths= and the like for observations, changes, \`busy_command\` and \`command\` into bedplate-observer@.service.d, bedplate-worker@.service.d, bedplate-loader@.service.d and bedplate-check@.service.d" ;;
    esac
    echo "$who: warning: $old/$name now applies only to the daemon$more" >&2
  done
  rmdir "$destdir$old" 2>/dev/null || true
}
