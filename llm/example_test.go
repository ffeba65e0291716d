package llm_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/llm"
	"github.com/cps-gpu/homelab/nvidia"
)

func ExampleServing_Check() {
	m, _ := llm.Known("Qwen/Qwen3-8B")
	card := nvidia.GPUsOfModel("RTX 4090")[0]
	s := llm.Serving{Model: m, Engine: llm.VLLM, Memory: card.Usable()}
	err := s.Check()
	var lack *llm.FitError
	if errors.As(err, &lack) {
		fmt.Println(lack)
		s.Context = lack.Context
	}
	fmt.Println(s.Check(), s.Fit())
	// Output:
	// Qwen/Qwen3-8B (bf16, 40960 tokens) lacks 1.1 GiB on the card: it takes 15.3 GiB of weights, 5.6 GiB of KV cache and 1.4 GiB of overhead, of 21.2 GiB; these would fit: context: 32768, or quantization: int8, or 2 of these cards
	// <nil> 15.3 GiB of weights, 4.5 GiB of KV cache and 1.4 GiB of overhead, of 21.2 GiB
}

func ExampleReadConfig() {
	config := `{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072}`
	m, err := llm.ReadConfig("my/model", strings.NewReader(config))
	fmt.Println(m.Parameters(), m.Weights, err)
	// Output: 8029995008 bf16 <nil>
}
