#!/bin/sh
# A tiny GPT-2 of transformers learns the bytes of a text, and then, as a LoRA adapter beside frozen weights, those of another: exported by export.py,
# trained, proved, verified, and loaded in Python again, where it gives the outputs that dgx computed. Takes minutes; leaves everything in build/hf.
#
#   sh examples/hf/run.sh              set up, build, run
#   DGX_BIN=DIR sh examples/hf/run.sh  with programs that are built already; DGX_HF_ENV=DIR with a Python environment that is there
#
# The Python environment is made in build/hf-env; exits 77 with the reason where PyPI cannot be reached.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
environment=${DGX_HF_ENV:-$root/build/hf-env}
[ -n "${DGX_BIN:-}" ] || DGX_TORCH=off sh cmake/bootstrap.sh
[ -n "${DGX_HF_ENV:-}" ] || sh examples/hf/environment.sh "$environment"
if [ -z "${DGX_BIN:-}" ]; then
  sh cmake/bootstrap.sh
  cmake --preset release -DDGX_TORCH="${DGX_TORCH:-pypi}" >build/release.log 2>&1 || { cat build/release.log >&2; exit 1; }
  cmake --build build/release -j "${JOBS:-2}" --target programs
  DGX_BIN=$root/build/release/bin
fi
PATH=$DGX_BIN:$PATH
rm -rf build/hf
mkdir -p build/hf
cd build/hf

say() { printf '\n%s\n' "== $*"; }
export_model() { "$environment/bin/python" -W ignore "$root/examples/hf/export.py" "$@"; }

# learn NAME TEXT STEPS: NAME/net.pt2 is trained on the text, proved and verified; NAME.safetensors has the weights, NAME.npz outputs for other text.
learn() {
  dgx-pack text "$2" --context 64 --shuffle --split 0.9 --rest "$1.valid.h5" -o "$1.h5" -q
  dgx-submit --data "$1.h5" --model "$1/net.pt2" --eval-model "$1/net_eval.pt2" --input i64 --loss cross-entropy --optimizer adamw:lr=3e-3 \
    --batch 8 --steps "$3" --checkpoint-every 20 --key key.pem -o "$1.json" -q
  dgx-train "$1.json" --data "$1.h5" -o "$1.run" --validate "$1.valid.h5" --every 50 -q
  dgx-prove "$1.json" "$1.run" --key key.pem -o "$1.proof.json" -q
  dgx-verify "$1.json" "$1.proof.json" --from "$1.run" --data "$1.h5" --all --key key.pem -o "$1.verdict.json"
  tail -n 1 "$1.run/validation.csv"
  dgx-inspect export "$1.run" -o "$1.safetensors" -q
  dgx-inspect check-model "$1.safetensors" "$1.proof.json"
  dgx-train "$1.json" --data "$1.valid.h5" --evaluate "$1.run" --predictions "$1.npz" -q
}

say "a GPT-2 of two layers learns the README"
dgx-key new key -q
export_model gpt2 --class GPT2LMHeadModel --set vocab_size=256 --set n_positions=64 --set n_embd=64 --set n_layer=2 --set n_head=4 \
  --set bos_token_id=0 --set eos_token_id=0 --input 'input_ids=i64[64]' -o base
learn base "$root/README.md" 200

say "Python loads it, computes the same, and saves it as transformers does"
"$environment/bin/python" -W ignore "$root/examples/hf/load.py" base/net.json base.safetensors --data base.valid.h5 --predictions base.npz --save tuned

say "an adapter of rank 4 learns the licence; all other weights stay"
lora='{"r": 4, "lora_alpha": 8, "target_modules": ["c_attn"], "fan_in_fan_out": true}'
export_model tuned --class GPT2LMHeadModel --input 'input_ids=i64[64]' --lora "$lora" -o adapter
learn adapter "$root/LICENSE" 100
"$environment/bin/python" -W ignore "$root/examples/hf/load.py" adapter/net.json adapter.safetensors --data adapter.valid.h5 --predictions adapter.npz
