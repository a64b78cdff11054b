#!/bin/sh
# What is done for a document: VIBEY_DOCUMENT is read, VIBEY_RESULT is written, VIBEY_WORK_KEY is id:attempt.
set -eu
case $VIBEY_WORK_KEY in
    cake-2:1) # in the demonstration the power goes out in the middle of this one: for the lane, on Linux one further up
        kill -9 "$(sed 's/.*) [A-Z] \([0-9]*\) .*/\1/' "/proc/$PPID/stat" 2>/dev/null || echo "$PPID")"
        exit 1
        ;;
    mention-*) echo "{\"vibeUrl\": \"https://${VIBEY_WORK_KEY%:*}.example.com/\"}" >"$VIBEY_RESULT" ;;
    *) echo "{\"output\": \"baked by $VIBEY_WORK_KEY\"}" >"$VIBEY_RESULT" ;;
esac
