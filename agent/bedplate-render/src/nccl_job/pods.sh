set -eu
hosts=$1 ranks=$2 names=$3
shift 3
index=${JOB_COMPLETION_INDEX-${LWS_WORKER_INDEX-}}
# ssh and sshd use root's home directory, not HOME.
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
# Open MPI would cut names at the first dot, and pods cannot resolve the rest.
export OMPI_MCA_orte_keep_fqdn_hostnames=true PRTE_MCA_prte_keep_fqdn_hostnames=true
# sshd does not pass the pod's environment to its children.
forward=
for name in $names $(env | sed -nE 's/^(PATH|LD_LIBRARY_PATH)=.*/\1/p' | sort); do
    forward="$forward -x $name"
done
# With its full path, mpirun finds its daemon on the other pods too.
# shellcheck disable=SC2086 # names of variables, without blanks
set -- "$(command -v mpirun)" --allow-run-as-root --bind-to none -np "$ranks" --host "$hosts" $forward "$@"
