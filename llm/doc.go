// Package llm says whether a language model fits on GPUs before anything is downloaded or
// started: its weights, the keys and values of the tokens it reads (the KV cache), and what the
// engine takes beside them. If it does not fit, the package says which context, quantization or
// number of cards would.
//
// What a model is comes from its config.json on Hugging Face ([ReadConfig]), or from a small
// table of well-known ones ([Known]).
//
// # Formulas
//
// Weights: parameters × bits of the quantization / 8. The parameters follow from the config.json:
// embeddings, attention, feed-forward layers and experts. A quantization for vLLM leaves
// embeddings and output layer at 16 bits; the bits of a GGUF file are those that llama.cpp
// measured (tools/quantize/README.md), and its input embeddings stay in the host's memory.
//
// KV cache: 2 × layers × KV heads × head dimension × bytes × tokens. A layer with a sliding window
// keeps the window and one batch (vLLM: SlidingWindowSpec.max_memory_usage_bytes in
// vllm/v1/kv_cache_interface.py; llama.cpp: src/llama-kv-cache-iswa.cpp). A layer with linear attention keeps no tokens.
//
// vLLM may use a part of the memory, gpu_memory_utilization, and takes of it, beside weights and
// cache: activations of one batch, 2 bytes × 3 × (hidden + intermediate) a token, which is what
// vLLM itself measured for Llama 3.1 8B (github.com/vllm-project/vllm/issues/10517: 2.07 GiB for
// 20,000 tokens, 2.99 GiB for 29,000); the sampler's logits, sorted logits, their places and probabilities, 20
// bytes × vocabulary × sequences; half a GiB for CUDA, and as much again for NCCL with several cards. CUDA graphs are in the part that it leaves free.
//
// llama.cpp may use all, and takes a compute buffer of micro-batch × (vocabulary + 8 × hidden) × 4
// bytes and of micro-batch × context × 2 bytes (the mask of attention) on each card, and half a GiB for CUDA. What its server took of an
// H200, in 13 combinations, is 0.4 to 5 % less than that (testdata/measured.tsv).
//
// # Limits
//
// Multi-head latent attention (DeepSeek), state space models (Mamba), LoRA adapters, speculative
// decoding, and images in prompts are not known. An answer close to the border is a guess: [Fit.Spare] says how close it is.
// Of 30 pairs of model and card that others published, 29 are told right (testdata/pairs.tsv).
package llm
