set -eu
hosts=$1 ranks=$2
shift 2
index=${JOB_COMPLETION_INDEX-${LWS_WORKER_INDEX-}}
# ssh and sshd look there, whatever HOME is.
home=~root
umask 077
mkdir -p "$home/.ssh" /run/sshd
chmod 755 /run/sshd
cp /etc/nccl-ssh/ssh-privatekey "$home/.ssh/nccl"
ssh-keygen -y -f "$home/.ssh/nccl" >"$home/.ssh/authorized_keys"
printf '%s\n' 'Host *' '  Port 2222' "  IdentityFile $home/.ssh/nccl" '  ConnectTimeout 5' \
    '  StrictHostKeyChecking no' '  UserKnownHostsFile /dev/null' '  LogLevel ERROR' >"$home/.ssh/config"
ssh-keygen -A
if [ "$index" != 0 ]; then
    exec /usr/sbin/sshd -D -e -p 2222
fi
/usr/sbin/sshd -e -p 2222
for host in $(printf '%s' "$hosts" | tr , ' '); do
    until ssh "${host%:*}" true; do
        sleep 2
    done
done
# Otherwise names are cut at the first dot, and pods do not find each other by the rest.
export OMPI_MCA_orte_keep_fqdn_hostnames=true PRTE_MCA_prte_keep_fqdn_hostnames=true
# sshd gives nothing of a pod's environment to what it starts.
forward=
for name in $(env | sed -nE 's/^([NR]CCL_[A-Z0-9_]*|PATH|LD_LIBRARY_PATH)=.*/\1/p' | sort); do
    forward="$forward -x $name"
done
# By its whole path mpirun finds its daemon on the others, too.
# shellcheck disable=SC2086 # names of variables, without blanks
set -- "$(command -v mpirun)" --allow-run-as-root --bind-to none -np "$ranks" --host "$hosts" $forward "$@"
