package bench_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/internal/bench"
)

// Two GPUs under load, of which one computes wrong.
func ExampleJudge() {
	lines, err := bench.Parse(`{"gpu":0,"uuid":"GPU-a","model":"NVIDIA L40S","values":{"speed":180.2,"wrong":0,"celsius":66}}
{"gpu":1,"uuid":"GPU-b","model":"NVIDIA L40S","values":{"speed":179.8,"wrong":2,"celsius":67}}`)
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range bench.Judge(bench.Burn, "gpu1", lines, bench.Machine{}) {
		fmt.Println(c.Subject(), c.Name, c.Verdict, "-", c.Detail)
	}
	// Output:
	// gpu1 GPU 0 burn passed - 180.2 TFLOP/s, 66 °C
	// gpu1 GPU 1 burn failed - 2 numbers were wrong: do not trust this card; check heat, power and riser, then have it replaced
}
