# Sourced by install.sh, and part of the packages' scripts. Set before: `who` is speaking; `shipped`, the directory of the
# drop-ins as they are shipped; `destdir`, empty on the running machine.

# What was copied to bedplate.service.d when the daemon did everything itself goes to the units that do it now.
drop_ins=/etc/systemd/system
moved() {
  # name, unit, unit that it is shipped for
  printf '%s\n' \
    'cold-reboot bedplate-worker@.service bedplate-worker@.service' \
    'cold-reboot bedplate-worker.socket bedplate-worker.socket' \
    'vf-attributes bedplate-observer@.service bedplate-worker@.service' \
    'vf-attributes bedplate-worker@.service bedplate-worker@.service' \
    'vf-attributes bedplate-loader@.service bedplate-worker@.service'
}

# As bedplate shipped them.
unmodified() {
  # Anything else (a FIFO in an image) might never be read to its end.
  [ -f "$1" ] && ! [ -L "$1" ] || return 1
  case $(sha256sum <"$1") in
    31633aa4ae2fb1342f18730919dcef086f3ff607fa13e1635aa114ae34b87937*) ;; # cold-reboot.conf
    0b14ed79992c109f0a04f20e2e79d4fce2f61b92262c319c697c63e9d3f128b2*) ;; # cold-reboot.conf, the first one
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
      echo "$who: $new is installed, for what $old/$name.conf was for"
    fi
  done
  for name in cold-reboot vf-attributes; do
    [ -e "$destdir$old/$name.conf" ] || continue
    if unmodified "$destdir$old/$name.conf"; then
      rm -f "$destdir$old/$name.conf"
    else
      echo "$who: warning: remove $old/$name.conf, which gives rights to a daemon that has no use for them; what you changed there belongs to $drop_ins/bedplate-worker@.service.d/$name.conf" >&2
    fi
  done
  for path in "$destdir$old"/*.conf; do
    name=${path##*/}
    case $name in
      cold-reboot.conf | vf-attributes.conf | no-user-namespace.conf | '*.conf') continue ;;
      fleetlock.conf) more="; a \`busy_command\` or \`command\` that works over the network needs $shipped/bedplate-worker@.service.d/network.conf" ;;
      *) more=": Environment=, ReadWritePaths= and the like for observations, changes, \`busy_command\` and \`command\` belong to bedplate-observer@.service.d, bedplate-worker@.service.d, bedplate-loader@.service.d and bedplate-check@.service.d" ;;
    esac
    echo "$who: warning: $old/$name is now for the daemon alone$more" >&2
  done
  rmdir "$destdir$old" 2>/dev/null || true
}
