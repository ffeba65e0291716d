package llm

import "slices"

// Engine is a program that serves models by OpenAI's API.
type Engine string

// The engines whose memory is known here.
const (
	VLLM     Engine = "vllm"
	LlamaCPP Engine = "llamacpp"
)

// Quantization is how weights are stored.
type Quantization struct {
	Name    string
	Engine  Engine
	Bits    float64 // of a weight of a layer
	Outer   float64 // of a weight of embeddings and output layer
	Experts bool    // only experts are stored so, and Outer is for all others
}

// Quantizations are all that are known, for each engine from the best to the smallest.
//
// Those for vLLM: the type's bits, and of 4 bits also the scales of a group (AWQ and GPTQ: 16 bits
// and a zero of 4 for each 128 weights; NVFP4: 8 bits for 16; MXFP4: 8 bits for 32; bitsandbytes: 32 bits for 64). Those of GGUF files are llama.cpp's for
// Llama 3.1 8B (tools/quantize/README.md, 2026-11); Q4_0 and Q3_K_M are not in that list and come
// from the list before it. A GGUF file of gpt-oss has its experts in MXFP4 and everything else in Q8_0.
func Quantizations() []Quantization {
	return []Quantization{
		{"fp32", VLLM, 32, 32, false}, {"bf16", VLLM, 16, 16, false}, {"fp16", VLLM, 16, 16, false},
		{"int8", VLLM, 8, 16, false}, {"fp8", VLLM, 8, 16, false},
		{"nvfp4", VLLM, 4.5, 16, false}, {"bitsandbytes", VLLM, 4.5, 16, false}, {"mxfp4", VLLM, 4.25, 16, true},
		{"gptq", VLLM, 4.16, 16, false}, {"awq", VLLM, 4.16, 16, false},

		gguf("F16", 16.0005), gguf("Q8_0", 8.5008), gguf("Q6_K", 6.5633), gguf("Q5_K_M", 5.7036), gguf("Q5_K_S", 5.5704),
		gguf("Q4_K_M", 4.8944), gguf("IQ4_NL", 4.6818), gguf("Q4_K_S", 4.6672), gguf("Q4_0", 4.64), gguf("IQ4_XS", 4.4597),
		{"MXFP4", LlamaCPP, 4.25, 8.5, true},
		gguf("Q3_K_L", 4.2979), gguf("Q3_K_M", 3.9960), gguf("IQ3_M", 3.7628), gguf("IQ3_S", 3.6606), gguf("Q3_K_S", 3.6429), gguf("IQ3_XXS", 3.2548),
		gguf("Q2_K", 3.1593), gguf("IQ2_M", 2.9294), gguf("IQ2_XS", 2.5882), gguf("IQ2_XXS", 2.3824), gguf("IQ1_M", 2.1460),
	}
}

func gguf(name string, bits float64) Quantization {
	return Quantization{name, LlamaCPP, bits, bits, false}
}

// findQuantization finds one of an engine by its name.
func findQuantization(e Engine, name string) (Quantization, bool) {
	all := Quantizations()
	i := slices.IndexFunc(all, func(q Quantization) bool { return q.Engine == e && q.Name == name })
	if i < 0 {
		return Quantization{}, false
	}
	return all[i], true
}

// cacheBytes are the bytes of a value in the KV cache: 2, or by the type 1 for vLLM's fp8, and for llama.cpp
// 34/32 for q8_0 and 18/32 for q4_0, whose blocks of 32 have a scale of 16 bits.
func cacheBytes(kind string) (float64, bool) {
	b, known := map[string]float64{"": 2, "auto": 2, "fp16": 2, "bf16": 2, "f16": 2, "fp8": 1, "q8_0": 34. / 32, "q4_0": 18. / 32}[kind]
	return b, known
}
