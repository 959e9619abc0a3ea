#!/bin/bash
# runc for a machine whose bounding set lacks CAP_SYS_RESOURCE. dockerd asks for that capability in every
# privileged container and exec, and runc then ends with "unable to apply caps: operation not permitted".
# Takes it out of the OCI documents that runc is about to read. $RUNC names the real one.
documents=()
previous=
for word in "$@"; do
  case "$previous" in
    --bundle | -b) documents+=("$word/config.json") ;;
    --process | -p) documents+=("$word") ;;
  esac
  case "$word" in
    --bundle=*) documents+=("${word#*=}/config.json") ;;
    --process=*) documents+=("${word#*=}") ;;
  esac
  previous=$word
done
for document in "${documents[@]}"; do
  [ -f "$document" ] && sed -i -e 's/"CAP_SYS_RESOURCE",//g' -e 's/,"CAP_SYS_RESOURCE"//g' "$document"
done
exec "$RUNC" "$@"
