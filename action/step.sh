#!/bin/sh
# One step of the action: find a Python to start from, and hand over to bootstrap.py beside this file.
# POSIX sh, so that no BASH_ENV of the job is read.
set -eu

fail() {
    # $1 is what failed and why, $2 what mends it; both are fixed texts of this file.
    printf '::error title=vibey-actions::%s%%0A%s\n' "$1" "$2"
    if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
        printf '### vibey-actions: failed\n\n%s\n\n%s\n' "$1" "$2" >>"$GITHUB_STEP_SUMMARY"
    fi
    exit 1
}

case "${RUNNER_OS:-}$(uname -s)" in
    Windows* | *MINGW* | *MSYS* | *CYGWIN*)
        fail 'Windows runners are not supported.' 'Use runs-on: ubuntu-latest or macos-latest for this job.' ;;
esac

[ -n "${RUNNER_TEMP:-}" ] && [ -d "$RUNNER_TEMP" ] ||
    fail 'RUNNER_TEMP names no folder.' 'The action runs as a step of a GitHub Actions job, whose runner sets it.'

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
    python=$(command -v "$name" 2>/dev/null) || continue
    if "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        exec "$python" -I -X utf8 "$here/bootstrap.py" "${VIBEY_INPUT_STEP:-}"
    fi
done

fail 'This runner has no Python 3.11 or newer (python3 on PATH).' \
    'Put a step with actions/setup-python before this one: - uses: actions/setup-python@ece7cb06caefa5fff74198d8649806c4678c61a1 # v6.3.0, with: python-version: "3.13"'
