#!/usr/bin/env bash
# Evaluates the sample that this script lies in, or is linked from.
#
#   bash <sample>/entry.sh [further options of passbench eval]
#
# Environment: PASSNET_DEVICE (auto, cpu, cuda), PASSNET_COMPILER, PASSNET_WARMUP, PASSNET_TRIALS,
# PASSNET_EVAL_OUTPUT (default /tmp/workspace_pass_bench_test), PASSNET_SAMPLE_ID, PASSNET_PYTHON.
set -euo pipefail

# A link to the sample's entry.sh is followed step by step until it stands beside a graph_list.txt.
script="${BASH_SOURCE[0]}"
while true; do
  sample="$(cd "$(dirname "$script")" && pwd)"
  if [[ -e "$sample/graph_list.txt" || ! -L "$script" ]]; then break; fi
  target="$(readlink "$script")"
  if [[ "$target" == /* ]]; then script="$target"; else script="$sample/$target"; fi
done
if [[ ! -e "$sample/graph_list.txt" ]]; then
  echo "entry.sh: no graph_list.txt in $sample (expected a sample directory)" >&2
  exit 2
fi

output="${PASSNET_EVAL_OUTPUT:-/tmp/workspace_pass_bench_test}"
rm -f -- "$output/aggregated_score.json" # a failed run must not leave the last one's score

# The sample's own copy of the package counts, under either of its names; else what is installed.
package=""
aliases=""
cleanup() { [[ -z "$aliases" ]] || rm -rf -- "$aliases"; }
trap cleanup EXIT
if [[ -d "$sample/pass_bench" ]]; then
  package="$(cd "$sample/pass_bench" && pwd -P)"
  export PYTHONPATH="$sample${PYTHONPATH:+:$PYTHONPATH}"
elif [[ -d "$sample/graph_net_bench" ]]; then
  package="$(cd "$sample/graph_net_bench" && pwd -P)"
  aliases="$(mktemp -d)"
  ln -s "$package" "$aliases/pass_bench"
  export PYTHONPATH="$aliases${PYTHONPATH:+:$PYTHONPATH}"
fi

if [[ -n "${PASSNET_PYTHON:-}" ]]; then
  python="$PASSNET_PYTHON"
elif [[ -z "${VIRTUAL_ENV:-}" && -n "$package" && -x "$package/../.venv/bin/python" ]]; then
  python="$package/../.venv/bin/python"
else
  python=python3
fi

# -P: a folder called pass_bench where the user happens to stand must not be imported.
"$python" -P -m pass_bench eval "$sample" \
  --device "${PASSNET_DEVICE:-auto}" \
  --compiler "${PASSNET_COMPILER:-pass_mgr_direct}" \
  --warmup "${PASSNET_WARMUP:-25}" \
  --trials "${PASSNET_TRIALS:-100}" \
  --sample-id "${PASSNET_SAMPLE_ID:-}" \
  --out "$output" --replace "$@"
