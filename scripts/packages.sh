# shellcheck shell=bash
# Debian packages of scripts/apt-packages.txt. Sourced by scripts/setup.sh.

APT_INSTALL=(apt-get install --yes --no-install-recommends)

missing_packages() {
    local wanted installed
    command -v dpkg-query >/dev/null || return 0 # not Debian: the build names what it does not find
    mapfile -t wanted < <(sed 's/#.*//' scripts/apt-packages.txt | xargs -n 1)
    installed="$(dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
        sed -n 's/^installed //p')" || true # dpkg-query fails when it does not know one of the names
    comm -23 <(printf '%s\n' "${wanted[@]}" | sort) <(sort <<<"$installed")
}

packages_present() {
    [[ -z "$(missing_packages)" ]]
}

ensure_packages_installable() {
    packages_present && return
    ((EUID == 0)) && return
    command -v sudo >/dev/null && return
    echo "Debian packages are missing, and this user is neither root nor has sudo. As root, run:" >&2
    echo "    apt-get update && ${APT_INSTALL[*]}" $(missing_packages) >&2
    exit 1
}

install_packages() {
    local as_root=(env DEBIAN_FRONTEND=noninteractive) packages
    ((EUID == 0)) || as_root=(sudo "${as_root[@]}")
    mapfile -t packages < <(missing_packages)
    if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" "${APT_INSTALL[@]}" "${packages[@]}"; }; then
        echo "These packages could not be installed. As root, run:"
        echo "    apt-get update && ${APT_INSTALL[*]} ${packages[*]}"
        return 1
    fi
    remark="${#packages[@]} installed"
}
