#!/usr/bin/env bash
# Runs hora's set-up and tests in an empty Debian, as a newcomer's machine would have it:
#
#     tests/e2e/fresh.sh [12|13]     (12 is the default; about 30 minutes)
#
# Debian 12: `make demo` and `make test`. Debian 13, whose Python has no pinned PyTorch everywhere: `make setup`,
# `python -m hora` and `make test`, which leaves out what needs PyTorch.
# Needs: root, the package debootstrap, permission to mount, 8 GB below $TMPDIR (or /var/tmp), and the Debian mirror
# and pip indexes that this machine is configured for; their configuration is taken over.
set -euo pipefail
source_folder="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

die() {
    echo "fresh.sh: $*" >&2
    exit 2
}

# --- what follows runs in a private mount namespace, so nothing stays mounted

prepare() {
    local root="$1" release="$2" mirror
    mirror="$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)"
    [[ -n "$mirror" ]] || die "apt knows no mirror; run apt-get update first"
    debootstrap --variant=minbase --include=ca-certificates,git,make,python3 "$release" "$root" "$mirror"
    for folder in dev proc sys; do mount --rbind "/$folder" "$root/$folder"; done
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    grep -lE '^ *Acquire::(https?|Check|Retries)' /etc/apt/apt.conf.d/* | xargs -r cp -t "$root/etc/apt/apt.conf.d"
    copy_pip_configuration "$root"
    mkdir -p "$root/root/hora"
    git -C "$source_folder" ls-files -z --cached --others --exclude-standard |
        tar -C "$source_folder" --null -T - --ignore-failed-read -c | tar -C "$root/root/hora" -x
}

# Also makes the local folders visible that the configuration names.
copy_pip_configuration() {
    local root="$1" file folder
    for file in /etc/pip.conf "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"; do
        [[ -f "$file" ]] && install -D "$file" "$root/${file/#$HOME//root}"
    done
    for folder in $(python3 -m pip config list | grep -oE "/[^ ':,]+" | sed 's,^//*,/,; s,/simple/*$,,' | sort -u); do
        [[ -d "$folder" ]] || continue
        mkdir -p "$root$folder"
        mount --rbind -o ro "$folder" "$root$folder"
    done
}

inside() {
    local root="$1" settings
    shift
    mapfile -t settings < <(env | grep -E '^(PIP_|SSL_CERT|REQUESTS_CA|CURL_CA|https?_proxy|no_proxy)')
    echo "--- $*"
    chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "${settings[@]}" \
 bash -c "cd /root/hora && $*" </dev/null
}

run_all() {
    local root="$1" debian="$2" log="$source_folder/build/fresh-$2.log"
    mkdir -p "$(dirname "$log")"
    echo "debootstrap of Debian $debian, output in $log"
    case "$debian" in
        12) prepare "$root" bookworm >"$log" 2>&1 || { tail -n 30 "$log"; return 1; } ;;
        13) prepare "$root" trixie >"$log" 2>&1 || { tail -n 30 "$log"; return 1; } ;;
    esac
    {
        case "$debian" in
            12) inside "$root" time make demo ;;
            13) inside "$root" "time make setup && .venv/bin/python -m hora" ;;
        esac
        inside "$root" time make test
        inside "$root" time scripts/setup.sh test # a second call finds nothing to do
    } 2>&1 | tee -a "$log"
}

if [[ "${1:-}" == --in-namespace ]]; then
    run_all "$2" "$3"
    exit
fi

debian="${1:-12}"
[[ "$debian" == 12 || "$debian" == 13 ]] || die "the argument is 12 or 13"
((EUID == 0)) || die "must run as root"
command -v debootstrap >/dev/null || die "needs debootstrap: apt-get install --no-install-recommends debootstrap"
unshare --mount true || die "this machine does not permit private mounts"
root="$(mktemp -d -p "${TMPDIR:-/var/tmp}" hora-debian.XXXXXX)"
status=0
unshare --mount --propagation private bash "${BASH_SOURCE[0]}" --in-namespace "$root" "$debian" || status=$?
rm -rf --one-file-system "$root"
((status == 0)) && echo "Debian $debian: passed" || echo "Debian $debian: FAILED"
exit "$status"
