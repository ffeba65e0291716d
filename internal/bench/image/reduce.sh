#!/bin/sh
# Copies a Python with PyTorch without what the programs of gpu:verify do not use, and gives all
# files one time, so that two builds are the same.
#
#   reduce.sh FROM TO SECONDS
set -eu
from=$1 to=$2 epoch=$3

mkdir -p "$to"
cp -a "$from/bin" "$from/lib" "$to/"

# Not the libraries that CUDA's compiler uses, and not what only tests, or people at a prompt, do.
find "$to" -depth \( -name __pycache__ -o -name 'torchvision*' -o -name 'torchaudio*' -o -name triton -o -name 'triton-*' -o -name '*.a' -o -name tests \) \
	-exec rm -rf {} +
find "$to" -exec touch -h -d "@$epoch" {} +

"$to/bin/python3" -c 'import torch; print(torch.__version__)'
find "$to" -name __pycache__ -depth -exec rm -rf {} +
find "$to" -type d -exec touch -d "@$epoch" {} +
