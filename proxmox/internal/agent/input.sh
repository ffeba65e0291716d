#!/bin/sh
# Runs a command with its input from files that were put there piece by piece.
#   $1   the folder with the pieces; it is removed at the end
#   $2…  the command
folder=$1
shift
trap 'rm -rf -- "$folder"' EXIT
cat -- "$folder"/* | "$@"
