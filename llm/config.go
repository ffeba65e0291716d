package llm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// configFile are the fields of a config.json that decide memory.
type configFile struct {
	Text   *configFile `json:"text_config"` // of a model that also sees or hears
	Vision *struct {
		Hidden       int `json:"hidden_size"`
		Intermediate int `json:"intermediate_size"`
		Layers       int `json:"num_hidden_layers"`
		Depth        int `json:"depth"`
	} `json:"vision_config"`

	Type         string `json:"model_type"`
	Layers       int    `json:"num_hidden_layers"`
	Hidden       int    `json:"hidden_size"`
	Heads        int    `json:"num_attention_heads"`
	KVHeads      int    `json:"num_key_value_heads"`
	HeadDim      int    `json:"head_dim"`
	Intermediate int    `json:"intermediate_size"`
	Vocabulary   int    `json:"vocab_size"`
	Tied         *bool  `json:"tie_word_embeddings"`
	Context      int    `json:"max_position_embeddings"`
	Type16       string `json:"torch_dtype"`
	TypeNew      string `json:"dtype"`

	Window        int      `json:"sliding_window"`
	UseWindow     *bool    `json:"use_sliding_window"`
	FirstWindowed int      `json:"max_window_layers"`
	Pattern       int      `json:"sliding_window_pattern"`
	PatternNew    int      `json:"_sliding_window_pattern"`
	LayerTypes    []string `json:"layer_types"`
	FullEvery     int      `json:"full_attention_interval"`

	Experts        int   `json:"num_experts"`
	LocalExperts   int   `json:"num_local_experts"`
	RoutedExperts  int   `json:"n_routed_experts"`
	ActiveExperts  int   `json:"num_experts_per_tok"`
	ExpertInner    int   `json:"moe_intermediate_size"`
	SharedInner    int   `json:"shared_expert_intermediate_size"`
	SharedExperts  int   `json:"n_shared_experts"`
	DenseFirst     int   `json:"first_k_dense_replace"`
	DenseLayers    []int `json:"mlp_only_layers"`
	LatentRank     int   `json:"kv_lora_rank"`
	LinearKeys     int   `json:"linear_num_key_heads"`
	LinearValues   int   `json:"linear_num_value_heads"`
	LinearKeyDim   int   `json:"linear_key_head_dim"`
	LinearValueDim int   `json:"linear_value_head_dim"`

	Quantized *quantizationConfig `json:"quantization_config"`
}

// ReadConfig reads the config.json of a model, whose name on Hugging Face is name.
func ReadConfig(name string, r io.Reader) (Model, error) {
	var c configFile
	if err := json.NewDecoder(r).Decode(&c); err != nil {
		return Model{}, fmt.Errorf("config.json of %s: %w", name, err)
	}
	m, err := c.model(name)
	if err != nil {
		return Model{}, fmt.Errorf("config.json of %s: %w", name, err)
	}
	return m, nil
}

func (c configFile) model(name string) (Model, error) {
	text := c
	if c.Text != nil {
		text = *c.Text
		text.Type16, text.TypeNew = cmp.Or(text.Type16, c.Type16), cmp.Or(text.TypeNew, c.TypeNew)
		text.Quantized = cmp.Or(text.Quantized, c.Quantized)
		text.Tied = cmp.Or(text.Tied, c.Tied)
	}
	text.defaults()
	if err := text.check(); err != nil {
		return Model{}, err
	}
	m := Model{
		Name: name, Layers: text.Layers, Hidden: text.Hidden, Heads: text.Heads, KVHeads: cmp.Or(text.KVHeads, text.Heads),
		HeadDim: cmp.Or(text.HeadDim, text.Hidden/text.Heads), Intermediate: text.Intermediate, Vocabulary: text.Vocabulary,
		Tied: text.Tied != nil && *text.Tied, Context: text.Context,
		GatedHeads: strings.HasPrefix(text.Type, "qwen3_next") || strings.HasPrefix(text.Type, "qwen3_5"),
	}
	text.attention(&m)
	text.experts(&m)
	if v := c.Vision; v != nil {
		m.Other = product(max(v.Layers, v.Depth), v.Hidden, 4*v.Hidden+2*v.Intermediate)
	}
	var err error
	m.Weights, err = text.weights()
	return m, err
}

// defaults are those of transformers' class where files rely on them.
func (c *configFile) defaults() {
	if c.Type != "gemma3_text" {
		return
	}
	yes := true
	c.Heads, c.KVHeads, c.HeadDim, c.Pattern = cmp.Or(c.Heads, 8), cmp.Or(c.KVHeads, 4), cmp.Or(c.HeadDim, 256), cmp.Or(c.Pattern, c.PatternNew, 6)
	c.Vocabulary, c.Context, c.Tied = cmp.Or(c.Vocabulary, 262208), cmp.Or(c.Context, 131072), cmp.Or(c.Tied, &yes)
}

func (c configFile) check() error {
	var all []error
	for _, f := range []struct {
		field string
		value int
	}{
		{"num_hidden_layers", c.Layers}, {"hidden_size", c.Hidden}, {"num_attention_heads", c.Heads}, {"vocab_size", c.Vocabulary},
		{"max_position_embeddings", c.Context}, {"intermediate_size", max(c.Intermediate, c.ExpertInner)},
	} {
		if f.value <= 0 {
			all = append(all, fmt.Errorf("there is no %s: not the config.json of a language model that is known here", f.field))
		}
	}
	if c.LatentRank > 0 {
		all = append(all, errors.New("kv_lora_rank: multi-head latent attention is not known here"))
	}
	for _, kind := range c.LayerTypes {
		if !slices.Contains([]string{"full_attention", "sliding_attention", "chunked_attention", "linear_attention"}, kind) {
			all = append(all, fmt.Errorf("layer_types: %s is not known here", kind))
			break
		}
	}
	return errors.Join(all...)
}

// attention sets which layers keep all tokens, a window, or none.
func (c configFile) attention(m *Model) {
	count := func(kind string) (n int) {
		for _, t := range c.LayerTypes {
			if t == kind {
				n++
			}
		}
		return n
	}
	m.Linear = count("linear_attention")
	if c.LinearValues > 0 && len(c.LayerTypes) == 0 {
		m.Linear = c.Layers - c.Layers/cmp.Or(c.FullEvery, 4)
	}
	keys, values := c.LinearKeys*c.LinearKeyDim, c.LinearValues*c.LinearValueDim
	m.LinearWidth, m.LinearOut = 2*keys+2*values+2*c.LinearValues, values
	if c.Window == 0 || c.UseWindow != nil && !*c.UseWindow {
		return
	}
	switch pattern := cmp.Or(c.Pattern, c.PatternNew); {
	case len(c.LayerTypes) > 0:
		m.Windowed = count("sliding_attention")
	case pattern > 0:
		m.Windowed = c.Layers - c.Layers/pattern
	case c.Type == "gpt_oss" || c.Type == "gemma2":
		m.Windowed = (c.Layers + 1) / 2
	case c.Type == "mistral":
		m.Windowed = c.Layers
	case c.UseWindow != nil:
		m.Windowed = max(0, c.Layers-c.FirstWindowed)
	}
	if m.Windowed > 0 {
		m.Window = c.Window
	}
}

func (c configFile) experts(m *Model) {
	m.Experts = cmp.Or(c.Experts, c.LocalExperts, c.RoutedExperts)
	if m.Experts == 0 {
		return
	}
	m.ActiveExperts = cmp.Or(c.ActiveExperts, 1)
	m.ExpertIntermediate = cmp.Or(c.ExpertInner, c.Intermediate)
	m.SharedIntermediate = cmp.Or(c.SharedInner, c.SharedExperts*m.ExpertIntermediate)
	m.DenseLayers = max(c.DenseFirst, len(c.DenseLayers))
}

// quantizationConfig is how the published weights are quantized.
type quantizationConfig struct {
	Method string `json:"quant_method"`
	Algo   string `json:"quant_algo"`
	Format string `json:"format"`
	Bits   int    `json:"bits"`
	In8Bit bool   `json:"load_in_8bit"`
	Groups map[string]struct {
		Weights struct {
			Bits int    `json:"num_bits"`
			Type string `json:"type"`
		} `json:"weights"`
	} `json:"config_groups"`
}

// weights names the published weights.
func (c configFile) weights() (string, error) {
	if c.Quantized == nil {
		kind := strings.TrimPrefix(cmp.Or(c.TypeNew, c.Type16, "bfloat16"), "torch.")
		if name, known := map[string]string{"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}[kind]; known {
			return name, nil
		}
		return "", fmt.Errorf("torch_dtype: %s is not known here", kind)
	}
	q := c.Quantized
	bits := q.Bits
	for _, g := range q.Groups {
		bits = max(bits, g.Weights.Bits)
	}
	switch {
	case q.Method == "mxfp4":
		return "mxfp4", nil
	case q.Method == "fp8", q.Algo == "FP8", strings.HasPrefix(q.Format, "float-quantized"):
		return "fp8", nil
	case q.Algo == "NVFP4", strings.HasPrefix(q.Format, "nvfp4"):
		return "nvfp4", nil
	case q.Method == "bitsandbytes" && !q.In8Bit:
		return "bitsandbytes", nil
	case q.In8Bit, bits == 8:
		return "int8", nil
	case bits == 4 && q.Method == "awq":
		return "awq", nil
	case bits == 4:
		return "gptq", nil
	}
	return "", fmt.Errorf("quantization_config: %s with %d bits is not known here", cmp.Or(q.Method, q.Algo, "it"), bits)
}
