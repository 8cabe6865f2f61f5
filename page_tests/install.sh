#!/usr/bin/env bash
# Debian's packages that page_tests/ needs: a browser, and Node with npm. Installed as root; does nothing where they are.
set -euo pipefail
missing=()
command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || missing+=(chromium)
command -v node > /dev/null || missing+=(nodejs)
command -v npm > /dev/null || missing+=(npm)
if (( ${#missing[@]} )); then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
fi
