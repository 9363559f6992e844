# In the guest: an image root whose boot entries are on the vfat, and what is seen of it. $1 says what to do.
set -u
root=/srv/image
boot=$root/boot/loader

bedplate_on() { # COMMAND ROUND OPTIONS
  command=$1 round=$2
  shift 2
  bedplate "$command" --root $root --profile /srv/round-"$round".toml "$@"
}

# Of each entry: old, new or torn; of anything else that it is there.
states() {
  for file in $boot/entries/* $boot/entries/.[!.]*; do
    name=${file##*/}
    [ -e "$file" ] || continue
    if [ ! -e "/srv/before/$name" ]; then echo "$1 beside $name"
    elif cmp -s "$file" "/srv/after/$name"; then echo "$1 new $name"
    elif cmp -s "$file" "/srv/before/$name"; then echo "$1 old $name"
    else echo "$1 torn $name"
    fi
  done
}

# What it was and what it is to be, kept where a cut does not take it.
expect() { # ROUND
  rm -rf /srv/before /srv/after
  cp -r $boot/entries /srv/before
  cp -r $boot/entries /srv/after
  sed -i "/rescue/! s/hugepages=[0-9]*/hugepages=$1/" /srv/after/*.x86_64.conf
  sync
}

# After a cut: what is there, what bedplate says and does, and what is there then.
finish() { # ROUND
  states cut
  bedplate_on plan "$1" --exit-code >/dev/null 2>&1
  echo "plan $?"
  bedplate_on apply "$1" --yes 2>&1
  echo "apply $?"
  states end
  bedplate_on plan "$1" --exit-code >/dev/null 2>&1
  echo "again $?"
}

cut_here() {
  cp /dev/shm/state /dev/shm/work
  rm -rf $root/var/lib/bedplate
  cp -a /srv/ledger $root/var/lib/bedplate
  mount -t vfat -o loop,umask=0077 /dev/shm/work $boot
  for copy in $boot/entries/.*.bedplate-old; do [ ! -s "$copy" ] || echo "copy ${copy##*/}"; done
}

leave() {
  umount $boot
  fsck.vfat -n /dev/shm/work
}

case $1 in
mount) mount -t vfat -o umask=0077 /dev/disk/by-id/virtio-entries $boot ;;
expect) expect "$2" ;;
finish) finish "$2" ;;
begin) # ROUND: apply, and the ledger as it is while the entries are being written
  rm -rf /srv/ledger /srv/status
  (bedplate_on apply "$2" --yes; echo "apply $?" >/srv/status) >/srv/said 2>&1 &
  until grep -qs '"unfinished"' $root/var/lib/bedplate/ledger.json || [ -e /srv/status ]; do sleep 0.02; done
  cp -a $root/var/lib/bedplate /srv/ledger
  wait
  cat /srv/said /srv/status
  ;;
replay) # ROUND LOG-SECTOR SECTOR COUNT: one more write, and a cut after it
  [ "$5" = 0 ] || dd if=/dev/shm/log of=/dev/shm/state bs=512 skip="$3" seek="$4" count="$5" conv=notrunc status=none
  cut_here
  finish "$2"
  leave
  ;;
repaired) # ROUND: the same cut; then a repair that empties each entry of which there is a copy
  cut_here
  for copy in $boot/entries/.*.bedplate-old; do
    name=${copy##*/.}
    : >"$boot/entries/${name%.bedplate-old}"
  done
  finish "$2"
  leave
  ;;
esac
