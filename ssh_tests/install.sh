#!/usr/bin/env bash
# Debian's OpenSSH, server and client, which ssh_tests/ needs. Run as root; does nothing where they are.
set -euo pipefail
missing=()
for pair in sshd:openssh-server ssh:openssh-client; do
    PATH="$PATH:/usr/sbin" command -v "${pair%%:*}" > /dev/null || missing+=("${pair#*:}")
done
if (( ${#missing[@]} )); then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" > /dev/null
fi
mkdir -p /run/sshd
