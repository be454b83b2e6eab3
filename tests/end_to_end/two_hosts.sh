#!/usr/bin/env bash
# Makes two hosts on one machine, for tests that need a network between ranks: two network namespaces, each with a host
# name of its own, joined by a virtual cable. The hosts share files and processors.
#
#   two_hosts.sh COMMAND...     runs COMMAND on the first host; Open MPI's mpirun there puts ranks on both, two on each
#
# Needs Linux, `ip` (iproute2), and root or the right to make user namespaces. Everything is gone when COMMAND ends or this
# script is killed.
set -eu

# Open MPI calls this script in place of ssh: two_hosts.sh ADDRESS COMMAND.
if [ -n "${ANNULUS_SECOND_HOST:-}" ]; then
  shift
  exec nsenter --target "$ANNULUS_SECOND_HOST" --net --uts sh -c "$*"
fi

[ "$(id -u)" = 0 ] || exec unshare --map-root-user "$0" "$@"

hosts=()
hostfile=$(mktemp)
clean_up() {
  kill "${hosts[@]}" 2>/dev/null || true
  rm -f "$hostfile"
}
trap clean_up EXIT

# start_host NAME: a process that does nothing but hold the namespaces of a host.
start_host() {
  unshare --net --uts setpriv --pdeathsig KILL sleep 600 &
  hosts+=($!)
  until [ -e "/proc/$!/ns/net" ] && [ "$(readlink "/proc/$!/ns/net")" != "$(readlink /proc/self/ns/net)" ] &&
    [ "$(readlink "/proc/$!/ns/uts")" != "$(readlink /proc/self/ns/uts)" ]; do
    kill -0 $! # ends the script if no namespace could be made
    sleep 0.01
  done
  nsenter --target $! --uts hostname "$1"
}
start_host first-host
start_host second-host

nsenter --target "${hosts[0]}" --net ip link add name cable type veth peer name cable netns "${hosts[1]}"
for i in 0 1; do
  nsenter --target "${hosts[i]}" --net sh -c \
    "ip link set lo up && ip address add 10.77.0.$((i + 1))/24 dev cable && ip link set cable up"
  echo "10.77.0.$((i + 1)) slots=2" >> "$hostfile"
done

export ANNULUS_SECOND_HOST=${hosts[1]}
export OMPI_MCA_plm_rsh_agent=$0 OMPI_MCA_orte_default_hostfile=$hostfile           # Open MPI 4
export PRTE_MCA_plm_ssh_agent=$0 PRTE_MCA_prte_default_hostfile=$hostfile            # Open MPI 5
status=0
nsenter --target "${hosts[0]}" --net --uts setpriv --pdeathsig TERM "$@" || status=$?
exit $status
