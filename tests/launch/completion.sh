#!/usr/bin/env bash
# What bash completes with the script that `meshwork completion bash` prints; of zsh's script the syntax.
#   completion.sh PROGRAM
set -uo pipefail
program=$1
fail() { echo "FAILED: $*"; exit 1; }

rm -rf files && mkdir files && cd files || exit 1
mkdir configurations
touch config.yaml 'config of mine.yml' config.txt 'weights of mine.h5' $'config with\na line.yaml'
"$program" completion bash >script || fail "no script"
# shellcheck source=/dev/null
source ./script
complete -p meshwork >/dev/null || fail "nothing is completed"

completed() { # WORD...: what the last of the words can become, a line each
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _meshwork
  printf '%s\n' "${COMPREPLY[@]}" | sort
}
expect() { # RESULT WORD...
  local found
  found=$(completed "${@:2}")
  [ "$found" = "$1" ] || fail "\"${*:2}\" became \"$found\", not \"$1\""
}
lines() { printf '%s\n' "$@" | sort; }

# Every command and every option that the help has.
listed=$("$program" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' | sort)
[ "$(wc -w <<<"$listed")" -gt 12 ] || fail "the help lists only: $listed"
expect "$listed" meshwork ''
for command in $listed; do
  options=$("$program" "$command" --help | sed -n '/^Options:/,/^$/s/^  \(-[^ ]*\).*/\1/p' | tr ',' '\n' | sort)
  expect "$options" meshwork "$command" -
done

expect train meshwork tr
expect --version meshwork --v
expect --mesh meshwork train --me
expect --mesh meshwork train config.yaml --set fit.epochs = 1 --me
expect validation meshwork train --data v
expect validation meshwork train --data = v
expect "$(lines test train validation)" meshwork train --data =
expect "$(lines evaluate predict train)" meshwork plan config.yaml --mode ''
expect "$(lines Adadelta Adafactor Adagrad Adam AdamW Adamax AdaptiveAveragePooling{1,2,3}D AdaptiveMaxPooling{1,2,3}D Add)" meshwork reference Ad
expect schedules meshwork reference Dense sche
expect "$(lines bash zsh)" meshwork completion ''
expect "$(lines config.yaml 'config of mine.yml' configurations)" meshwork train conf
expect 'weights of mine.h5' meshwork evaluate config.yaml --checkpoint we
expect 'weights of mine.h5' meshwork import config.yaml we
expect "$(lines config.txt config.yaml 'config of mine.yml' configurations)" meshwork verify con
expect '' meshwork train config.yaml --seed ''
expect '' meshwork man ''

"$program" completion zsh >script.zsh || fail "no script for zsh"
for command in $listed; do
  grep -q "^      $command) _arguments" script.zsh || fail "the script for zsh lacks $command"
done
if command -v zsh >/dev/null; then zsh -n script.zsh || fail "zsh does not read its script"; fi
