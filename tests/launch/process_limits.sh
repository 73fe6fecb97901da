#!/usr/bin/env bash
# The program where it may have few addresses (ulimit -v) or open files (ulimit -n): it runs, or says
# what is too little, and no signal ends it.
#
#   process_limits.sh MESHWORK CONFIG LAUNCHER...     e.g. LAUNCHER is mpiexec -n 2
# shellcheck source=tests/support/drill.sh
. "$MESHWORK_SOURCE_DIR/tests/support/drill.sh"
# What ranks say at their end is looked at.
unset OMPI_MCA_odls_base_sigkill_timeout
trained=0
wrong() {
  echo "$limit KiB, $*"
  cat said.txt
  failures=$((failures + 1))
}

for limit in 100000 160000 200000 250000 272000 276000 285000 300000 330000 370000 420000 500000 \
  700000 1000000 2000000 4000000; do
  rm -rf checkpoints
  # shellcheck disable=SC2016 # the inner shell's
  "${launcher[@]}" bash -c 'ulimit -v "$0" && exec "$@"' "$limit" "$meshwork" train "$config" \
    --set fit.epochs=1 --set checkpoint.directory=checkpoints >said.txt 2>&1
  status=$?
  case $status in
    0)
      trained=$((trained + 1))
      [ $limit -gt 250000 ] || wrong "and it is said to have begun"
      ;;
    1)
      [ "$(grep -cE "this process may have .* of addresses \(ulimit -v, RLIMIT_AS\)" said.txt)" = 1 ] ||
        wrong "and no line says once what is too little"
      ;;
    *) wrong "status $status" ;;
  esac
  if [ $limit = 200000 ] && ! grep -qE \
    "may have 195.3 MiB of addresses .* and needs 273.0 MiB to begin with, on 1 thread" said.txt; then
    wrong "and not both numbers are said"
  fi
done
# So it is with open files; the launcher has no limit.
for limit in 5 8 20 31 64; do
  # shellcheck disable=SC2016 # the inner shell's
  "${launcher[@]}" bash -c 'ulimit -n "$0" && exec "$@"' "$limit" "$meshwork" devices >said.txt 2>&1
  status=$?
  if [ $limit = 64 ]; then
    [ $status = 0 ] || wrong "open files: status $status"
  elif [ $status != 1 ] || [ "$(grep -c "may have $limit open files (ulimit -n, RLIMIT_NOFILE), and needs 32" said.txt)" != 1 ]; then
    wrong "open files: status $status, or it is not said once"
  fi
done
# And with the stack.
for limit in 64 256; do
  # shellcheck disable=SC2016 # the inner shell's
  "${launcher[@]}" bash -c 'ulimit -s "$0" && exec "$@"' "$limit" "$meshwork" devices >said.txt 2>&1
  status=$?
  if [ $limit = 256 ]; then
    [ $status = 0 ] || wrong "stack: status $status"
  elif [ $status != 1 ] || [ "$(grep -c "may have $limit KiB of stack (ulimit -s, RLIMIT_STACK), and needs 256" said.txt)" != 1 ]; then
    wrong "stack: status $status, or it is not said once"
  fi
done
[ $trained -ge 5 ] || wrong "and only $trained runs trained"

exit $((failures > 0))
