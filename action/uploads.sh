#!/bin/sh
# What became of an upload that did not come through, for whoever reads the run's page: `export` or `marks`.
# UPLOADED holds the outcomes of its steps, DISCARD the exports that were to be given up.
set -eu

tell() {
    # $1 is the annotation's level, $2 what happened, $3 what to do; both are fixed texts of this file.
    printf '::%s title=vibey-actions::%s%%0A%s\n' "$1" "$2" "$3"
    if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
        printf '### vibey-actions: %s\n\n%s\n\n**What to do:** %s\n' "$1" "$2" "$3" >>"$GITHUB_STEP_SUMMARY"
    fi
}

case "$1 ${UPLOADED:-}" in
    'export success')
        tell notice 'The first upload of the sealed export failed, the second one came through.' \
            'Nothing: the output export names the one that is there.' ;;
    export*)
        tell error 'The sealed export could not be uploaded, twice. What this job changed is lost.' \
            'See above why: often the storage for artifacts is used up (billing settings of the owner). Then run this job again; where nothing was changed on the branch meanwhile, it does the same once more. With push: true a job needs no artifact.'
        exit 1 ;;
    *failure* | *cancelled*)
        if [ -n "${DISCARD:-}" ]; then
            tell error 'An export could not be marked as given up, so the next write takes it up.' \
                'Run this again, before the next write does.'
            exit 1
        fi
        tell notice 'An export was taken up, and the mark that says so could not be uploaded. Nothing is lost.' \
            'Nothing: either the mark is there already, or the next write finds the export on the branch, writes nothing, and marks it.' ;;
esac
