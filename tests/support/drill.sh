# shellcheck shell=bash
# What scripts share that drive the program, SCRIPT MESHWORK CONFIG LAUNCHER..., and read what it says. They end with
# `exit $((failures > 0))`.
set -u
meshwork=$1
config=$2
shift 2
launcher=("$@")
failures=0
# Open MPI's launcher waits two seconds for ranks that have ended, after one that failed.
export OMPI_MCA_odls_base_sigkill_timeout=0

# complain NAME TEXT: shows NAME.txt, and the script fails.
complain() {
  echo "$1 $2"
  cat "$1.txt"
  failures=$((failures + 1))
}

# ended NAME EXPECTED STATUS: how what NAME.txt shows has ended.
ended() {
  [ "$3" = "$2" ] || complain "$1" "ended with status $3 instead of $2"
}

# runs NAME STATUS COMMAND...: runs it and keeps what it says in NAME.txt.
runs() {
  "${@:3}" >"$1.txt" 2>&1
  ended "$1" "$2" $?
}

# says NAME TEXT: NAME.txt has TEXT.
says() {
  grep -qF -- "$2" "$1.txt" || complain "$1" "does not say: $2"
}
