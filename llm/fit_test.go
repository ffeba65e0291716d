package llm_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/llm"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// pair is what somebody published of a model and cards.
type pair struct {
	serving llm.Serving
	card    string
	fits    bool
	source  string
}

func pairs(t *testing.T) (all []pair) {
	t.Helper()
	file, err := os.ReadFile("testdata/pairs.tsv")
	require.NoError(t, err)
	number := func(s string) float64 {
		n, err := strconv.ParseFloat(s, 64)
		require.NoError(t, err)
		return n
	}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 13, line)
		m, known := llm.Known(f[1])
		require.True(t, known, f[1])
		cards := nvidia.GPUsOfModel(f[3])
		require.NotEmpty(t, cards, f[3])
		memory := cards[0].Usable()
		require.Positive(t, memory, f[3])
		all = append(all, pair{llm.Serving{
			Model: m, Engine: llm.Engine(f[0]), Quantization: f[4], Cache: f[5], Context: int(number(f[6])), Cards: int(number(f[2])), Memory: memory,
			Utilization: number(f[7]), Batch: int(number(f[8])), Sequences: int(number(f[9])),
		}, f[3], f[10] == "yes", f[11]})
	}
	return all
}

// TestPublishedPairs: of 20 published pairs of model and card at least 19 are told right.
func TestPublishedPairs(t *testing.T) {
	all := pairs(t)
	right, fitting := 0, 0
	for _, p := range all {
		fit := p.serving.Fit()
		if p.fits {
			fitting++
		}
		if fit.Fits() == p.fits {
			right++
			continue
		}
		t.Logf("wrong: %s on %d %s: %s; published: %t, %s", p.serving.Model.Name, p.serving.Cards, p.card, fit, p.fits, p.source)
	}
	t.Logf("%d of %d right, %d of which fit", right, len(all), fitting)
	assert.GreaterOrEqual(t, len(all), 20)
	assert.GreaterOrEqual(t, right*20, len(all)*19)
	assert.Greater(t, fitting*3, len(all), "fitting ones are among them")
	assert.Greater(t, (len(all)-fitting)*3, len(all), "others too")
}

// TestSizes: weights and caches as engines logged them, in GiB.
func TestSizes(t *testing.T) {
	for _, x := range []struct {
		model          string
		engine         llm.Engine
		quantization   string
		cards, context int
		weights, cache float64 // of one card; 0: not published
		source         string
	}{
		{"meta-llama/Llama-3.1-8B-Instruct", llm.VLLM, "bf16", 1, 131072, 14.99, 16, "vllm issues 10517 and 13061"},
		{"meta-llama/Meta-Llama-3-70B-Instruct", llm.VLLM, "gptq", 1, 8192, 37.1, 2.5, "vllm issue 7352"},
		{"Qwen/Qwen2.5-14B-Instruct", llm.VLLM, "bf16", 2, 32768, 13.95, 3, "vllm issue 13061"},
		{"Qwen/Qwen2.5-7B-Instruct", llm.VLLM, "awq", 1, 4096, 5.2, 0, "vllm issue 13882"},
		{"openai/gpt-oss-20b", llm.VLLM, "mxfp4", 1, 131072, 12.88, 0, "vllm issue 22331"},
		{"Qwen/Qwen3-Coder-30B-A3B-Instruct", llm.VLLM, "fp8", 1, 262144, 0, 24, "vllm issue 34076"},
		{"google/gemma-3-27b-it", llm.VLLM, "bf16", 4, 8192, 13.17, 0, "vllm issue 15676"},
		{"meta-llama/Llama-3.1-8B-Instruct", llm.LlamaCPP, "Q8_0", 1, 8192, 7.95 - 0.52, 1, "llama.cpp, tools/quantize/README.md; 0.52 of it are embeddings"},
		{"Qwen/Qwen3-32B", llm.LlamaCPP, "Q4_K_M", 1, 8192, 18.81 - 0.42, 2, "ollama issue 14774"},
		{"openai/gpt-oss-20b", llm.LlamaCPP, "MXFP4", 1, 8192, 11.27 - 0.57, 0.2, "ggml-org/gpt-oss-20b-GGUF, 12.11 GB"},
	} {
		m, known := llm.Known(x.model)
		require.True(t, known, x.model)
		f := llm.Serving{Model: m, Engine: x.engine, Quantization: x.quantization, Cards: x.cards, Context: x.context, Memory: 80 * unit.GiB}.Fit()
		if x.weights > 0 {
			assert.InEpsilon(t, x.weights, float64(f.Weights)/float64(unit.GiB), 0.05, "weights of %s: %s", x.model, x.source)
		}
		if x.cache > 0 {
			assert.InEpsilon(t, x.cache, float64(f.Cache)/float64(unit.GiB), 0.05, "cache of %s: %s", x.model, x.source)
		}
	}
}

// TestMeasured: what a real engine took of a real card is never more than was computed, and at most 6% less.
func TestMeasured(t *testing.T) {
	file, err := os.ReadFile("testdata/measured.tsv")
	require.NoError(t, err)
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	rows := 0
	for line := range strings.Lines(string(file)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		require.Len(t, f, 6, line)
		m, known := llm.Known(f[0])
		require.True(t, known, f[0])
		fit := llm.Serving{Model: m, Engine: llm.LlamaCPP, Quantization: f[1], Cache: f[2], Context: number(f[3]), Parallel: number(f[4]), Memory: 140 * unit.GiB}.Fit()
		computed, took := fit.Weights+fit.Cache+fit.Overhead, unit.Size(number(f[5]))*unit.MiB
		assert.GreaterOrEqual(t, computed, took, line)
		assert.LessOrEqual(t, float64(computed), 1.06*float64(took), line)
		rows++
	}
	assert.GreaterOrEqual(t, rows, 13)
}

// any Serving that is valid, of a random model of the table.
func random(r *rand.Rand) llm.Serving {
	for {
		names := llm.Names()
		m, _ := llm.Known(names[r.IntN(len(names))])
		s := llm.Serving{
			Model: m, Engine: []llm.Engine{llm.VLLM, llm.LlamaCPP}[r.IntN(2)], Context: 1 + r.IntN(m.Context), Parallel: 1 + r.IntN(8), Cards: 1 << r.IntN(4),
			Memory: unit.Size(4+r.IntN(140)) * unit.GiB, Batch: 256 << r.IntN(6), Sequences: 1 << r.IntN(10),
		}
		all := llm.Quantizations()
		s.Quantization = all[r.IntN(len(all))].Name
		if s.Validate() == nil {
			return s
		}
	}
}

// TestMonotone: more of what takes memory never makes a model fit, and more memory never the opposite.
func TestMonotone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := random(r)
		base := s.Fit()
		for name, more := range map[string]func(*llm.Serving){
			"context": func(s *llm.Serving) { s.Context += 1000 }, "parallel": func(s *llm.Serving) { s.Parallel++ },
			"batch": func(s *llm.Serving) { s.Batch *= 2 }, "sequences": func(s *llm.Serving) { s.Sequences *= 2 },
		} {
			larger := s
			more(&larger)
			assert.LessOrEqual(t, larger.Fit().Spare(), base.Spare(), "%s: %+v", name, s)
		}
		s.Memory += unit.GiB
		assert.Greater(t, s.Fit().Spare(), base.Spare(), "memory: %+v", s)
	}
}

// TestSuggestionsFit: each suggestion fits if it is applied, and the next larger context does not.
func TestSuggestionsFit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for range 2000 {
		s := random(r)
		err := s.Check()
		var lack *llm.FitError
		if !errors.As(err, &lack) {
			require.NoError(t, err)
			assert.True(t, s.Fit().Fits())
			continue
		}
		refused++
		apply := func(change func(*llm.Serving)) llm.Serving { s := s; change(&s); return s }
		if lack.Together {
			assert.NoError(t, apply(func(s *llm.Serving) { s.Context, s.Quantization = lack.Context, lack.Quantization }).Check(), "%+v", s)
			continue
		}
		if lack.Context > 0 {
			assert.NoError(t, apply(func(s *llm.Serving) { s.Context = lack.Context }).Check(), "context: %d: %+v", lack.Context, s)
		}
		if next := lack.Context + 1024; next <= s.Context {
			assert.Error(t, apply(func(s *llm.Serving) { s.Context = next }).Check())
		}
		if lack.Quantization != "" {
			assert.NoError(t, apply(func(s *llm.Serving) { s.Quantization = lack.Quantization }).Check(), "%s: %+v", lack.Quantization, s)
		}
		if lack.Cards > 0 {
			assert.NoError(t, apply(func(s *llm.Serving) { s.Cards = lack.Cards }).Check(), "%d cards: %+v", lack.Cards, s)
		}
	}
	assert.Greater(t, refused, 200)
}

// TestFitError: a person reads what lacks and what would fit.
func TestFitError(t *testing.T) {
	m, _ := llm.Known("qwen/qwen3-32b")
	s := llm.Serving{Model: m, Memory: nvidia.GPUsOfModel("RTX 4090")[0].Usable()}
	assert.EqualError(t, s.Check(), "Qwen/Qwen3-32B (bf16, 40960 tokens) lacks 51.4 GiB on the card: it takes 61.0 GiB of weights, 10.0 GiB of KV cache and "+
		"1.6 GiB of overhead, of 21.2 GiB; these would fit: context: 6144 with quantization: gptq, or 4 of these cards")
	s.Engine, s.Context = llm.LlamaCPP, 8192
	assert.NoError(t, s.Check())
	s.Context = 32768
	assert.EqualError(t, s.Check(), "Qwen/Qwen3-32B (Q4_K_M, 32768 tokens) lacks 3.5 GiB on the card: it takes 18.2 GiB of weights, 8.0 GiB of KV cache and "+
		"0.9 GiB of overhead, of 23.6 GiB; these would fit: context: 17408, or quantization: IQ3_M, or 2 of these cards")
	s.Memory, s.Cards = unit.GiB, 16
	assert.EqualError(t, s.Check(), "Qwen/Qwen3-32B (Q4_K_M, 32768 tokens) lacks 1.9 GiB on each of the 16 cards: it takes 1.4 GiB of weights, 0.6 GiB of KV cache and "+
		"0.9 GiB of overhead, of 1.0 GiB; no context, quantization or number of these cards fits: choose a smaller model")
}

// TestValidate: what no memory helps.
func TestValidate(t *testing.T) {
	m, _ := llm.Known("Qwen/Qwen3-14B")
	for want, s := range map[string]llm.Serving{
		`engine "tgi": want vllm or llamacpp`:                             {Model: m, Engine: "tgi"},
		`vllm has no quantization "Q4_K_M"`:                               {Model: m, Quantization: "Q4_K_M"},
		`no KV cache of type "fp4": want fp16, fp8, q8_0 or q4_0`:         {Model: m, Cache: "fp4"},
		"Qwen/Qwen3-14B was made for 40960 tokens, not 65536":             {Model: m, Context: 65536},
		"vLLM cannot divide the 40 heads of Qwen/Qwen3-14B among 3 cards": {Model: m, Cards: 3},
	} {
		assert.EqualError(t, s.Validate(), want)
		assert.EqualError(t, s.Check(), want)
	}
}

// TestReadConfig: what config.json says in its several ways.
func TestReadConfig(t *testing.T) {
	const base = `"hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"vocab_size":32000,"max_position_embeddings":32768,"intermediate_size":14336`
	for _, x := range []struct {
		json string
		want func(*llm.Model)
	}{
		{`{` + base + `}`, func(m *llm.Model) {}},
		{`{` + base + `,"num_key_value_heads":8,"model_type":"mistral","sliding_window":4096,"torch_dtype":"float16"}`, func(m *llm.Model) {
			m.KVHeads, m.Window, m.Windowed, m.Weights = 8, 4096, 32, "fp16"
		}},
		{`{` + base + `,"model_type":"qwen2","sliding_window":4096,"use_sliding_window":false,"max_window_layers":28}`, func(m *llm.Model) {}},
		{`{` + base + `,"model_type":"qwen2","sliding_window":4096,"use_sliding_window":true,"max_window_layers":28}`, func(m *llm.Model) { m.Window, m.Windowed = 4096, 4 }},
		{`{` + base + `,"dtype":"float32","quantization_config":{"quant_method":"awq","bits":4}}`, func(m *llm.Model) { m.Weights = "awq" }},
		{`{` + base + `,"quantization_config":{"quant_method":"gptq","bits":8}}`, func(m *llm.Model) { m.Weights = "int8" }},
		{`{` + base + `,"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}`, func(m *llm.Model) { m.Weights = "fp8" }},
		{`{` + base + `,"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}}`, func(m *llm.Model) { m.Weights = "nvfp4" }},
		{`{` + base + `,"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true}}`, func(m *llm.Model) { m.Weights = "bitsandbytes" }},
		{`{` + base + `,"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int"}}}}}`,
			func(m *llm.Model) { m.Weights = "gptq" }},
		{`{` + base + `,"quantization_config":{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}}}}`,
			func(m *llm.Model) { m.Weights = "fp8" }},
		{`{` + base + `,"quantization_config":{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"float"}}}}}`,
			func(m *llm.Model) { m.Weights = "nvfp4" }},
		{`{"model_type":"llava","torch_dtype":"bfloat16","text_config":{` + base + `,"tie_word_embeddings":true},"vision_config":{"hidden_size":10,"intermediate_size":20,"depth":2}}`,
			func(m *llm.Model) { m.Tied, m.Other = true, 2*10*(40+40) }},
	} {
		want := llm.Model{Name: "a/b", Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 32, HeadDim: 128, Intermediate: 14336, Vocabulary: 32000, Context: 32768, Weights: "bf16"}
		x.want(&want)
		m, err := llm.ReadConfig("a/b", strings.NewReader(x.json))
		require.NoError(t, err, x.json)
		assert.Equal(t, want, m, x.json)
	}
	for text, want := range map[string]string{
		`{`: "unexpected EOF", `{}`: "there is no num_hidden_layers",
		`{` + base + `,"kv_lora_rank":512}`:                            "kv_lora_rank: multi-head latent attention is not known here",
		`{` + base + `,"layer_types":["full_attention","mamba"]}`:      "layer_types: mamba is not known here",
		`{` + base + `,"torch_dtype":"int3"}`:                          "torch_dtype: int3 is not known here",
		`{` + base + `,"quantization_config":{"quant_method":"aqlm"}}`: "quantization_config: aqlm with 0 bits is not known here",
	} {
		_, err := llm.ReadConfig("a/b", strings.NewReader(text))
		assert.ErrorContains(t, err, "config.json of a/b: ")
		assert.ErrorContains(t, err, want)
	}
}

// FuzzReadConfig: any file is read or refused.
func FuzzReadConfig(f *testing.F) {
	f.Add([]byte(`{"hidden_size":1,"num_hidden_layers":1,"num_attention_heads":1,"vocab_size":1,"max_position_embeddings":1,"intermediate_size":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := llm.ReadConfig("a/b", bytes.NewReader(b)); err == nil {
			_ = llm.Serving{Model: m, Memory: unit.GiB}.Check()
		}
	})
}
