set -eu
hosts=$1 ranks=$2
shift 2
index=${JOB_COMPLETION_INDEX-${LWS_WORKER_INDEX-}}
umask 077
mkdir -p "$HOME/.ssh" /run/sshd
chmod 755 /run/sshd
cp /etc/nccl-ssh/ssh-privatekey "$HOME/.ssh/nccl"
ssh-keygen -y -f "$HOME/.ssh/nccl" >"$HOME/.ssh/authorized_keys"
printf '%s\n' 'Host *' '  Port 2222' "  IdentityFile $HOME/.ssh/nccl" '  ConnectTimeout 5' \
    '  StrictHostKeyChecking no' '  UserKnownHostsFile /dev/null' '  LogLevel ERROR' >"$HOME/.ssh/config"
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
forward=
for name in $(env | sed -n 's/^\(NCCL_[A-Z0-9_]*\)=.*/\1/p' | sort); do
    forward="$forward -x $name"
done
# shellcheck disable=SC2086 # names of variables, without blanks
set -- mpirun --allow-run-as-root --bind-to none -np "$ranks" --host "$hosts" $forward "$@"
