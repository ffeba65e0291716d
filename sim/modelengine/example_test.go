package modelengine_test

import (
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/sim/modelengine"
)

// A model of 72 billion weights of two bytes does not fit into a card with 40 GiB.
func Example() {
	e, ok := modelengine.New("vllm/vllm-openai:v0.11.0", []string{"--model", "Qwen/Qwen2.5-72B-Instruct", "--served-model-name", "big"})
	start := e.Load(modelengine.Machine{Cards: []float64{40 << 30}}, time.Now())
	fmt.Println(ok, e.Kind, e.Name, start.Code)
	// Output:
	// true vllm big 1
}
