# shellcheck shell=bash
# Steps of scripts/setup.sh: one line each on the terminal, everything else in a log. Sourced, not run.

LOG=

open_log() {
    mkdir -p "$(dirname "$1")"
    LOG="$PWD/$1"
    exec 9>"$LOG.lock"
    flock 9 # a second set-up in the same folder waits for the first
    : >"$LOG"
}

# step NAME DONE DO [ARGUMENT...]: runs DO unless DONE says that there is nothing to do.
# DO may leave a remark for its line in the variable `remark`.
step() {
    local name="$1" is_done="$2" act="$3" start=$EPOCHREALTIME status=0 remark=
    shift 3
    if "$is_done" "$@" >>"$LOG" 2>&1; then
        report "$name" "up to date"
        return
    fi
    echo "=== $name" >>"$LOG"
    [[ -t 1 ]] && printf '[setup] %-28s ...\r' "$name"
    # A subshell in a condition would switch `set -e` off inside it, hence this detour.
    set +e
    (set -e; "$act" "$@"; echo "$remark" >"$LOG.remark") >>"$LOG" 2>&1 9>&-
    status=$?
    set -e
    if ((status != 0)); then
        report "$name" "FAILED, the end of $LOG:"
        tail -n 40 "$LOG" >&2
        exit "$status"
    fi
    report "$name" "$(LC_ALL=C awk "BEGIN { printf \"%.1f s\", ${EPOCHREALTIME/,/.} - ${start/,/.} }") $(<"$LOG.remark")"
    rm -f "$LOG.remark"
}

report() {
    printf '[setup] %-28s %s\n' "$1" "$2"
}
