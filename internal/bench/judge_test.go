package bench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
)

func card(i int) string {
	return fmt.Sprintf(`{"gpu":%d,"uuid":"GPU-%d","model":"A100","driver":"580","memory":40960`, i, i)
}

// judged are the verdicts and details of checks.
func judged(t *testing.T, k Kind, words string, m Machine) []string {
	t.Helper()
	lines, err := Parse(words)
	require.NoError(t, err)
	var out []string
	for _, c := range Judge(k, "gpu1", lines, m) {
		out = append(out, fmt.Sprintf("%s: %s: %s", c.Subject(), c.Verdict, c.Detail))
	}
	return out
}

// What happens under load is told by what is worst.
func TestJudgeBurn(t *testing.T) {
	before := []nvidia.SMIGPU{{UUID: "GPU-0", ECCErrors: 1}, {UUID: "GPU-1"}}
	for values, want := range map[string]string{
		`"speed":170,"spread":25,"wrong":0,"celsius":1,"slowed":0`:   "gpu1 GPU 1: passed: 170 TFLOP/s, 1 °C",
		`"speed":200,"spread":2,"wrong":0,"celsius":70,"slowed":0`:   "gpu1 GPU 1: passed: 200 TFLOP/s, 70 °C",
		`"speed":160,"spread":2,"wrong":0,"celsius":70,"slowed":0`:   "gpu1 GPU 1: warning: 160 TFLOP/s, and the fastest of its model 200: look at power limit, heat and clocks",
		`"speed":200,"spread":31,"wrong":0,"celsius":70,"slowed":0`:  "gpu1 GPU 1: warning: the slowest second is 31 % below the fastest: somebody else computes too, or its clocks change",
		`"speed":160,"spread":31,"wrong":0,"celsius":91,"slowed":.2`: "gpu1 GPU 1: warning: slowed by heat or power in 1 % of the time, at up to 91 °C: look at air flow and power",
		`"speed":160,"spread":31,"wrong":7,"celsius":91,"slowed":50`: "gpu1 GPU 1: failed: 7 numbers were wrong: do not trust this card; check heat, power and riser, then have it replaced",
	} {
		words := card(0) + `,"values":{"speed":200,"wrong":0}}` + "\n" + card(1) + `,"values":{` + strings.ReplaceAll(values, ":.", ":0.") + `}}`
		assert.Equal(t, []string{"gpu1 GPU 0: passed: 200 TFLOP/s", want}, judged(t, Burn, words, Machine{Before: before, After: before}))
	}
	words := card(0) + `,"values":{"speed":200}}` + "\n" + card(1) + `,"error":"CUDA error: out of memory"}`
	after := []nvidia.SMIGPU{{UUID: "GPU-0", ECCErrors: 4}, {UUID: "GPU-1"}}
	assert.Equal(t, []string{
		"gpu1 GPU 0: failed: 3 uncorrectable memory errors came up under load: have the card replaced",
		"gpu1 GPU 1: failed: CUDA error: out of memory",
		"gpu1: warning: during the load: Xid 31 (application): a program",
		"gpu1: failed: during the load: Xid 79 (hardware): lost",
	}, judged(t, Burn, words, Machine{Before: before, After: after, Faults: []nvidia.LogFinding{
		{Xid: 31, Fault: nvidia.InApplication, Means: "a program"}, {Xid: 79, Fault: nvidia.InHardware, Means: "lost", Stops: true}}}))
}

// The link between two GPUs says what they must reach; the worst pair of a GPU is its result.
func TestJudgePeers(t *testing.T) {
	pcie := nvidia.PCIeLink{Generation: 1, MaxGeneration: 4, Width: 16, MaxWidth: 16}
	m := Machine{}
	for i := range 3 {
		m.Before = append(m.Before, nvidia.SMIGPU{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Link: pcie})
	}
	var err error
	m.Topology, err = nvidia.ParseTopology("\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tNV12\tSYS\t0-7\nGPU1\tNV12\t X \tPIX\t0-7\nGPU2\tSYS\tPIX\t X \t0-7\n")
	require.NoError(t, err)
	words := card(0) + "}\n" + card(1) + "}\n" + card(2) + "}\n"
	pair := func(i, j int, speed float64, wrong int) string {
		return fmt.Sprintf(`{"gpu":%d,"peer":%d,"values":{"speed":%g,"direct":1,"wrong":%d}}`+"\n", i, j, speed, wrong)
	}
	assert.Equal(t, []string{
		"gpu1 GPU 0: warning: 100 GB/s with GPU 1 (12 NVLinks), below 120: look at slot, riser and NVLink bridge",
		"gpu1 GPU 1: warning: 100 GB/s with GPU 0 (12 NVLinks), below 120: look at slot, riser and NVLink bridge",
		"gpu1 GPU 2: passed: 20 GB/s with GPU 1 (PIX, PCIe generation 4, x16)",
	}, judged(t, Peers, words+pair(0, 1, 100, 0)+pair(0, 2, 9, 0)+pair(1, 2, 20, 0), m))
	assert.Contains(t, judged(t, Peers, words+pair(0, 2, 9, 0)+pair(1, 2, 20, 1)+pair(0, 1, 300, 1), m)[1], "GPU 1: failed: copying with GPU 2", "the first of those that are as bad")
	assert.Equal(t, []string{
		"gpu1 GPU 0: passed: 120 GB/s with GPU 1 (12 NVLinks)", "gpu1 GPU 1: passed: 120 GB/s with GPU 0 (12 NVLinks)",
	}, judged(t, Peers, words+pair(0, 1, 120, 0), m), "as fast as the floor; nothing of a card that no line pairs")
	assert.Equal(t, []string{
		"gpu1 GPU 0: passed: 9 GB/s with GPU 2 (SYS, PCIe generation 4, x16)",
		"gpu1 GPU 1: failed: copying with GPU 2: 1 numbers were wrong: data is damaged on the way; look at the host's IOMMU and ACS settings, and at risers",
		"gpu1 GPU 2: failed: copying with GPU 1: 1 numbers were wrong: data is damaged on the way; look at the host's IOMMU and ACS settings, and at risers",
	}, judged(t, Peers, words+pair(0, 1, 300, 0)+pair(0, 2, 9, 0)+pair(1, 2, 20, 1), m))
	assert.Equal(t, []string{"gpu1: warning: 1.2 GB/s (slowest pair: SYS, PCIe generation 4, x16), below 2.52: look at the links that peer-to-peer names"},
		judged(t, AllReduce, `{"values":{"speed":1.2,"wrong":0}}`+"\n"+words, m))
	assert.Equal(t, []string{"gpu1: passed: 0.05 GB/s (speed of the network unknown)"}, judged(t, AcrossNodes, `{"values":{"speed":0.05}}`+"\n"+words, m))
	assert.Equal(t, []string{"gpu1: failed: 5 numbers were wrong in the sum: data is damaged on the way between the GPUs"},
		judged(t, AllReduce, `{"values":{"speed":100,"wrong":5}}`+"\n"+words, m))
}

// All that a program measured of a card is kept, with its unit and with what is better; what it did not measure is not there.
func TestMeasures(t *testing.T) {
	words := card(0) + `,"values":{"speed":1,"memory":2,"spread":3,"celsius":4,"watts":5,"slowed":6,"wrong":0}}` + "\n" + card(1) + `,"values":{"wrong":0,"watts":5}}`
	lines, err := Parse(words)
	require.NoError(t, err)
	checks := Judge(Burn, "gpu1", lines, Machine{})
	require.Len(t, checks, 2)
	assert.Equal(t, []check.Measure{
		{Name: "burn", Value: 1, Unit: "TFLOP/s"}, {Name: "burn memory", Value: 2, Unit: "GB/s"}, {Name: "burn spread", Value: 3, Unit: "%", Less: true},
		{Name: "burn temperature", Value: 4, Unit: "°C", Less: true}, {Name: "burn power", Value: 5, Unit: "W", Less: true}, {Name: "burn slowed", Value: 6, Unit: "%", Less: true},
	}, checks[0].Measures)
	assert.Equal(t, []check.Measure{{Name: "burn power", Value: 5, Unit: "W", Less: true}}, checks[1].Measures)
}

// Memory that failed under load fails a card, and only what was not there before: errors that are older, and rows that failed earlier, do not.
func TestMemoryThatFailsUnderLoad(t *testing.T) {
	words := card(0) + `,"values":{"speed":1}}`
	for _, x := range []struct {
		before, after nvidia.SMIGPU
		fails         bool
	}{
		{nvidia.SMIGPU{ECCErrors: 2}, nvidia.SMIGPU{ECCErrors: 2}, false},
		{nvidia.SMIGPU{ECCErrors: 2}, nvidia.SMIGPU{ECCErrors: 3}, true},
		{nvidia.SMIGPU{ECCErrors: 3}, nvidia.SMIGPU{ECCErrors: 2}, false},
		{nvidia.SMIGPU{}, nvidia.SMIGPU{RowsFailing: true}, true},
		{nvidia.SMIGPU{RowsFailing: true}, nvidia.SMIGPU{RowsFailing: true}, false},
	} {
		x.before.UUID, x.after.UUID = "GPU-0", "GPU-0"
		got := judged(t, Burn, words, Machine{Before: []nvidia.SMIGPU{x.before}, After: []nvidia.SMIGPU{x.after}})
		require.Len(t, got, 1)
		assert.Equal(t, x.fails, strings.HasPrefix(got[0], "gpu1 GPU 0: failed"), "%+v then %+v: %s", x.before, x.after, got)
	}
	assert.Equal(t, []string{"gpu1 GPU 0: passed: 1 TFLOP/s"}, judged(t, Burn, words, Machine{Before: []nvidia.SMIGPU{{UUID: "GPU-0", ECCErrors: 2}}}), "without a report after it")
}

// A card passed if what it computed is right. Pairs and sums are not cards.
func TestResults(t *testing.T) {
	lines, err := Parse(card(0) + `,"values":{"wrong":0}}` + "\n" + card(1) + `,"values":{"wrong":2}}` + "\n" + card(2) + `,"error":"lost"}` + "\n" +
		`{"gpu":0,"peer":1,"values":{"wrong":1}}` + "\n" + `{"values":{"speed":1}}`)
	require.NoError(t, err)
	result := func(i int, detail string) check.VerifyResult {
		return check.VerifyResult{UUID: fmt.Sprintf("GPU-%d", i), Index: i, Name: "A100", Driver: "580", Memory: 40 << 30, Passed: detail == "", Detail: detail}
	}
	assert.Equal(t, []check.VerifyResult{result(0, ""), result(1, "2 numbers were wrong"), result(2, "lost")}, Results(lines))
}

// More lanes, a later generation and a nearer link never lower a floor, and what is unknown does not raise it.
func TestFloors(t *testing.T) {
	at := func(link nvidia.Link, generation, width int) float64 {
		p := nvidia.PCIeLink{Generation: generation, Width: width}
		return peerFloor(link, p, p).GBps
	}
	for _, link := range []nvidia.Link{"", nvidia.LinkPIX, nvidia.LinkPHB, nvidia.LinkSys} {
		for generation := 1; generation < 8; generation++ {
			assert.GreaterOrEqual(t, at(link, generation+1, 16), at(link, generation, 16))
			assert.Equal(t, generation < 6, at(link, generation+1, 16) > at(link, generation, 16), "6 is the last that is known")
			assert.Greater(t, at(link, generation, 16), at(link, generation, 8))
			assert.GreaterOrEqual(t, at(nvidia.LinkPIX, generation, 16), at(link, generation, 16))
		}
	}
	assert.InDelta(t, 1, at("", 0, 0), 0)
	assert.InDelta(t, 1, at(nvidia.LinkPIX, 4, 0), 0, "without a width")
	assert.InDelta(t, 1, at(nvidia.LinkPIX, 0, 16), 0, "without a generation")
	assert.InDelta(t, 0.25/5, at(nvidia.LinkSys, 1, 1), 1e-9, "the slowest link that there is")
	assert.InDelta(t, at(nvidia.LinkPIX, 3, 8), peerFloor(nvidia.LinkPIX, nvidia.PCIeLink{Generation: 5, Width: 8}, nvidia.PCIeLink{Generation: 3, Width: 16}).GBps, 0, "the slower of two links")
	assert.InDelta(t, 120, at("NV12", 0, 0), 0)
	assert.Less(t, networkFloor(0).GBps, networkFloor(10000).GBps)
	assert.InDelta(t, 0.375, networkFloor(10000).GBps, 1e-9)
	assert.InDelta(t, networkFloor(1).GBps*1000, networkFloor(1000).GBps, 1e-9)
	assert.Equal(t, networkFloor(0), networkFloor(-1), "what Linux says of a card that does not know")
}

func TestParseRefuses(t *testing.T) {
	for words, want := range map[string]string{
		"":                                  "the program left no result",
		"Traceback (most recent call last)": `"Traceback (most recent call last)" is not a result`,
		`{"error":"nvidia-smi sees 1"}`:     "nvidia-smi sees 1",
		`{"gpu":-1}`:                        "is not a result",
		`{"gpu":256}`:                       "is not a result",
		`{"gpu":0,"memory":-1}`:             "is not a result",
		`{"uuid":"GPU-0"}`:                  "is not a result",
		`{"gpu":0,"values":{"speed":NaN}}`:  "is not a result",
		`{"gpu":0,"values":{"speed":-2}}`:   "is not a result",
		`{"peer":1}`:                        "is not a result",
	} {
		_, err := Parse(words)
		require.ErrorContains(t, err, want, words)
	}
	lines, err := Parse(`{"gpu":255,"peer":0,"values":{"speed":0}}`)
	require.NoError(t, err)
	assert.Len(t, lines, 1)
	lines, err = Parse(card(0) + "}\nKilled")
	require.Error(t, err)
	assert.Len(t, lines, 1, "what was said before is kept")
}

func FuzzParse(f *testing.F) {
	f.Add(card(0) + `,"values":{"speed":1e308,"wrong":1,"slowed":3}}` + "\n" + `{"gpu":0,"peer":7,"values":{"speed":0}}` + "\n" + `{"values":{}}`)
	f.Fuzz(func(t *testing.T, words string) {
		lines, _ := Parse(words)
		for _, k := range []Kind{Burn, PyTorch, Peers, AllReduce, AcrossNodes} {
			for _, c := range Judge(k, "gpu1", lines, Machine{}) {
				require.NotEmpty(t, c.Verdict)
				require.Equal(t, string(k), c.Name)
				for _, m := range c.Measures {
					require.NotEmpty(t, m.Unit)
				}
			}
		}
		require.LessOrEqual(t, len(Results(lines)), len(lines))
	})
}

func TestJob(t *testing.T) {
	o := Options{Verify: check.VerifyOptions{RunID: "r1", Timeout: time.Hour}, Image: "registry.lan/pytorch:1", Burn: 90 * time.Second, First: 2, World: 4, Rank: 1}
	objects := Job("gpu1", 2, Burn, o)
	require.Len(t, objects, 2)
	j := objects[1].(*batchv1.Job)
	c := j.Spec.Template.Spec.Containers[0]
	assert.Equal(t, []string{"python3", "/bench/burn.py", "2", "90"}, c.Command)
	assert.Equal(t, "registry.lan/pytorch:1", c.Image)
	assert.EqualValues(t, 3600, *j.Spec.ActiveDeadlineSeconds)
	limit := c.Resources.Limits[nvidia.Resource]
	assert.EqualValues(t, 2, limit.Value())
	assert.Contains(t, objects[0].(*corev1.ConfigMap).Data, "report.py")
	objects = Job("gpu1", 2, AcrossNodes, o)
	s, j := objects[0].(*corev1.Service), objects[2].(*batchv1.Job)
	assert.Equal(t, []string{"python3", "/bench/allreduce.py", "2", "2", "4", "rank0." + s.Name}, j.Spec.Template.Spec.Containers[0].Command)
	assert.Equal(t, s.Name, j.Spec.Template.Spec.Subdomain)
	assert.Equal(t, "rank1", j.Spec.Template.Spec.Hostname)
	for key, value := range s.Spec.Selector {
		assert.Equal(t, value, j.Spec.Template.Labels[key])
	}
	names := map[string]bool{}
	for _, k := range []Kind{Burn, PyTorch, TensorFlow, Peers, AllReduce, AcrossNodes} {
		for _, m := range Job("gpu1", 2, k, o)[map[bool]int{true: 2, false: 1}[k == AcrossNodes]].(*batchv1.Job).Spec.Template.Spec.Containers[0].VolumeMounts {
			assert.Equal(t, m.Name == "programs", m.ReadOnly, m.Name)
		}
		assert.Equal(t, k == Peers || k == AllReduce, k.MinGPUs() > 1, "%s is about links in a node", k)
		assert.Equal(t, k == Burn, k.MaxTime(time.Hour)-k.MaxTime(time.Minute) == 59*time.Minute, "%s lasts for the given time", k)
		names[Name("gpu1", k, "r1")] = true
		assert.Contains(t, configMap("x").Data, k.program())
	}
	assert.Len(t, names, 6)
}

// The page has the limits that the code has.
func TestLimitsAreInThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/verify.md")
	require.NoError(t, err)
	var table strings.Builder
	table.WriteString("| check | link | a warning below |\n|---|---|---|\n")
	for _, row := range limits() {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
	assert.Contains(t, string(page), table.String(), "docs/verify.md should have:\n%s", &table)
}

// limits are the floors of common links, for a table.
func limits() [][3]string {
	gen := func(g, w int) nvidia.PCIeLink { return nvidia.PCIeLink{MaxGeneration: g, Width: w} }
	row := func(what, link string, f speedFloor) [3]string {
		return [3]string{what, link, fmt.Sprintf("%.3g GB/s", f.GBps)}
	}
	var out [][3]string
	for _, link := range []nvidia.Link{"NV4", "NV12", "NV18"} {
		out = append(out, row("`peer-to-peer`", "`"+string(link)+"`", peerFloor(link, gen(4, 16), gen(4, 16))))
	}
	for _, p := range []nvidia.PCIeLink{gen(3, 16), gen(4, 8), gen(4, 16), gen(5, 16)} {
		pcie := fmt.Sprintf("PCIe generation %d, x%d", p.MaxGeneration, p.Width)
		out = append(out, row("`peer-to-peer`", "`PIX`, `PXB`: "+pcie, peerFloor(nvidia.LinkPIX, p, p)),
			row("`peer-to-peer`", "`PHB`, `NODE`, `SYS`: "+pcie, peerFloor(nvidia.LinkSys, p, p)))
	}
	pair := peerFloor(nvidia.LinkPHB, gen(4, 16), gen(4, 16))
	return append(out, row("`peer-to-peer`", "unknown", peerFloor("", gen(0, 0), gen(0, 0))),
		row("`all-reduce`", "`PHB`: PCIe generation 4, x16", allReduceFloor(pair)),
		row("`all-reduce`", "`NV12`", allReduceFloor(peerFloor("NV12", gen(4, 16), gen(4, 16)))),
		row("`all-reduce-nodes`", "network of 10 Gbit/s", networkFloor(10000)),
		row("`all-reduce-nodes`", "unknown, as of a VM's card", networkFloor(0)))
}
