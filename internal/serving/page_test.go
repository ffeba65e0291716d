package serving_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/serving"
	"github.com/cps-gpu/homelab/llm"
	"github.com/cps-gpu/homelab/nvidia"
)

var update = flag.Bool("update", false, "rewrite the table of docs/models.md")

// TestPage: the page's table of what fits is what the check says.
func TestPage(t *testing.T) {
	const page, begin, end = "../../docs/models.md", "<!-- fits -->\n", "<!-- end of fits -->"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := before + begin + "\n" + table(t) + "\n" + end + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
	}
	assert.Equal(t, want, string(text), "run go test ./internal/serving -run TestPage -update")
}

func table(t *testing.T) string {
	cards := []string{"RTX 3060", "RTX 4090", "L40S", "A100-SXM4-80GB"}
	var b strings.Builder
	fmt.Fprintf(&b, "| model | as | %s |\n|---|---|%s\n", strings.Join(cards, " | "), strings.Repeat("---|", len(cards)))
	for _, m := range []spec.Model{
		{Source: "Qwen/Qwen3-8B", Engine: spec.EngineVLLM}, {Source: "Qwen/Qwen3-8B-AWQ", Engine: spec.EngineVLLM},
		{Source: "Qwen/Qwen3-14B", Engine: spec.EngineVLLM, Quantization: "fp8"}, {Source: "unsloth/Qwen3-14B-GGUF", Engine: spec.EngineLlamaCPP, Quantization: "Q4_K_M"},
		{Source: "Qwen/Qwen3-32B-AWQ", Engine: spec.EngineVLLM}, {Source: "openai/gpt-oss-20b", Engine: spec.EngineVLLM},
		{Source: "casperhansen/llama-3.3-70b-instruct-awq", Engine: spec.EngineVLLM},
	} {
		shape, known := serving.Shape(m)
		require.True(t, known, m.Source)
		fmt.Fprintf(&b, "| %s | %s, %s ", m.Source, m.Engine, cmp.Or(serving.Quantization(m), shape.Weights))
		for _, name := range cards {
			all := nvidia.GPUsOfModel(name)
			require.NotEmpty(t, all, name)
			var lack *llm.FitError
			m.Context, m.GPUs = shape.Context, 1
			switch err := serving.Plan(shape, m, all[0].Usable()).Check(); {
			case err == nil:
				fmt.Fprintf(&b, "| %d, all ", shape.Context)
			case errors.As(err, &lack) && lack.Context > 0 && !lack.Together:
				fmt.Fprintf(&b, "| %d ", lack.Context)
			default:
				b.WriteString("| – ")
			}
		}
		b.WriteString("|\n")
	}
	return b.String()
}
