# gpu_or_skip MATRIX_TEST VECTORS MODULE: goes on only if the module finds a GPU.
gpu_or_skip() {
  if ! said=$("$1" --vectors "$2" --only product/outer --count 0 --device "$3" 2>&1); then
    case $said in
      *"--device cuda:"*) echo "skipped: no GPU: $(echo "$said" | grep -o -e '--device cuda:.*' | head -1)"; exit 77 ;;
    esac
  fi
}
