package serving_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/serving"
)

func node(name, model string, count int, sharing spec.Sharing) spec.Node {
	return spec.Node{Name: name, Pool: name, GPUs: spec.GPURequest{Count: count, Model: model, Sharing: sharing}}
}

// A model's shape and quantization follow from what the file and its source's name say.
func TestShape(t *testing.T) {
	for _, x := range []struct {
		m                  spec.Model
		known              bool
		weights, quantized string
	}{
		{spec.Model{Source: "qwen/qwen3-8b", Engine: spec.EngineVLLM}, true, "bf16", ""},
		{spec.Model{Source: "Qwen/Qwen3-8B-AWQ", Engine: spec.EngineVLLM}, true, "awq", "awq"},
		{spec.Model{Source: "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", Engine: spec.EngineVLLM}, true, "gptq", "gptq"},
		{spec.Model{Source: "unsloth/Qwen3-8B-GGUF", Engine: spec.EngineLlamaCPP}, true, "bf16", ""},
		{spec.Model{Source: "unsloth/Qwen3-8B-GGUF", Engine: spec.EngineLlamaCPP, File: "Qwen3-8B-IQ4_XS.gguf"}, true, "bf16", "IQ4_XS"},
		{spec.Model{Source: "unsloth/Qwen3-8B-GGUF", Engine: spec.EngineLlamaCPP, File: "x-q4_k_m.gguf"}, true, "bf16", "Q4_K_M"},
		{spec.Model{Source: "unsloth/Qwen3-8B-GGUF", Engine: spec.EngineLlamaCPP, Quantization: "Q8_0"}, true, "bf16", "Q8_0"},
		{spec.Model{Source: "someone/Else-1B", Engine: spec.EngineVLLM}, false, "", ""},
	} {
		shape, known := serving.Shape(x.m)
		assert.Equal(t, x.known, known, x.m.Source)
		assert.Equal(t, x.weights, shape.Weights, x.m.Source)
		assert.Equal(t, x.quantized, serving.Quantization(x.m), x.m.Source)
	}
}

// Where a model can run, how often, and where it is put.
func TestPlaces(t *testing.T) {
	slices, mps := spec.Sharing{Strategy: spec.SharingTimeSlicing, Replicas: 2}, spec.Sharing{Strategy: spec.SharingMPS, Replicas: 2}
	alike := spec.Sharing{Strategy: spec.SharingMIG, Layouts: []spec.MIGLayout{{Profiles: map[string]int{"3g.40gb": 2}}}}
	differ := spec.Sharing{Strategy: spec.SharingMIG, Layouts: []spec.MIGLayout{{GPUs: []int{0}, Profiles: map[string]int{"3g.40gb": 2}}}}
	nodes := []spec.Node{
		node("none", "", 0, spec.Sharing{}), node("whole", "RTX 4090", 2, spec.Sharing{}), node("slices", "RTX 4090", 2, slices), node("mps", "RTX 4090", 2, mps),
		node("alike", "A100-SXM4-80GB", 1, alike), node("differ", "A100-SXM4-80GB", 2, differ), node("any", "", 1, spec.Sharing{}), node("either", "A100", 1, spec.Sharing{}),
	}
	type at struct {
		replicas, sharers int
		gib               float64
		fits              bool
	}
	places := func(m spec.Model) map[string]at {
		out := map[string]at{}
		for _, p := range serving.Places(nodes, m) {
			out[p.Node.Name] = at{p.Replicas, p.Sharers, float64(p.Memory*10/spec.GiB) / 10, p.Err == nil}
		}
		return out
	}
	small := spec.Model{Source: "Qwen/Qwen3-4B", Engine: spec.EngineVLLM, Context: 8192, GPUs: 1}
	assert.Equal(t, map[string]at{
		"whole": {2, 1, 23.6, true}, "slices": {4, 2, 11.7, true}, "mps": {4, 2, 0, false}, "alike": {2, 1, 38, true}, "differ": {1, 1, 79.6, true},
		"any": {1, 1, 0, true}, "either": {1, 1, 39.6, true},
	}, places(small))
	chosen := serving.Targets(serving.Places(nodes, small))
	assert.Len(t, chosen, 5, "the cards that serve nobody else")

	large := spec.Model{Source: "Qwen/Qwen3-32B", Engine: spec.EngineVLLM, Context: 8192, GPUs: 1}
	got := places(large)
	assert.False(t, got["whole"].fits)
	assert.Equal(t, at{1, 1, 79.6, true}, got["differ"], "the GPU that stays whole")
	assert.Equal(t, at{1, 1, 0, true}, got["either"], "an A100 has 40 or 80 GB")
	large.Pool = "whole"
	assert.Equal(t, "whole", serving.Largest(serving.Places(nodes, large)).Node.Name)

	two := small
	two.GPUs, two.Engine = 2, spec.EngineLlamaCPP
	got = places(two)
	assert.True(t, got["whole"].fits && got["whole"].replicas == 1)
	assert.False(t, got["slices"].fits || got["mps"].fits || got["alike"].fits || got["any"].fits)
}
