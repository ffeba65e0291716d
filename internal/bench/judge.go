package bench

import (
	"fmt"
	"math"
	"strings"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// Machine is what is known of a node. All of it may be unknown.
type Machine struct {
	Before   []nvidia.SMIGPU // what nvidia-smi reports on the node
	Topology nvidia.Topology
	// After and Faults are for [Burn]: what nvidia-smi reports after it, and the faults that the
	// kernel's log has of this time.
	After  []nvidia.SMIGPU
	Faults []nvidia.LogFinding
	Mbit   int // speed of the slowest network card of the nodes of [AcrossNodes]; 0: unknown
}

// gpu finds a GPU by its UUID.
func gpu(all []nvidia.SMIGPU, uuid string) (_ nvidia.SMIGPU, found bool) {
	for _, g := range all {
		if g.UUID == uuid {
			return g, true
		}
	}
	return nvidia.SMIGPU{}, false
}

// What is worth a warning under load.
const (
	unsteady = 25.0 // percent between the fastest and the slowest second
	minShare = 0.85 // of the fastest GPU of the same model
)

// Judge makes checks of what a program said on a node.
func Judge(k Kind, node string, lines []Line, m Machine) []check.Check {
	switch k {
	case Peers:
		return peers(node, lines, m)
	case AllReduce, AcrossNodes:
		return allReduce(k, node, lines, m)
	}
	var out []check.Check
	for _, l := range lines {
		if l.UUID != "" && l.GPU != nil {
			out = append(out, judgeGPU(k, node, l, fastest(lines, l.Model), m))
		}
	}
	if k == Burn {
		for _, f := range m.Faults {
			c := check.Check{Node: node, GPU: check.WholeNode, Name: string(Burn), Verdict: check.Warning, Detail: "during the load: " + f.String()}
			if f.Stops || f.Fault == nvidia.InHardware {
				c.Verdict = check.Failed
			}
			out = append(out, c)
		}
	}
	return out
}

// fastest is the speed of the fastest GPU of a model.
func fastest(lines []Line, model string) float64 {
	most := 0.0
	for _, l := range lines {
		if l.Model == model {
			most = max(most, l.Values["speed"])
		}
	}
	return most
}

// judgeGPU judges one GPU that has computed.
func judgeGPU(k Kind, node string, l Line, fastest float64, m Machine) check.Check {
	c := check.Check{Node: node, GPU: *l.GPU, UUID: l.UUID, Name: string(k), Verdict: check.Passed}
	v := l.Values
	if speed, ok := v["speed"]; ok {
		c.Measures = append(c.Measures, check.Measure{Name: string(k), Value: speed, Unit: "TFLOP/s"})
	}
	for _, more := range []struct {
		name, as, unit string
		less           bool
	}{{"memory", "memory", "GB/s", false}, {"spread", "spread", "%", true}, {"celsius", "temperature", "°C", true},
		{"watts", "power", "W", true}, {"slowed", "slowed", "%", true}} {
		if value, ok := v[more.name]; ok {
			c.Measures = append(c.Measures, check.Measure{Name: string(k) + " " + more.as, Value: value, Unit: more.unit, Less: more.less})
		}
	}
	was, _ := gpu(m.Before, l.UUID)
	is, seen := gpu(m.After, l.UUID)
	switch {
	case l.problem() != "":
		c.Verdict, c.Detail = check.Failed, l.problem()
		if l.Error == "" {
			c.Detail += ": do not trust this card; check heat, power and riser, then have it replaced"
		}
	case seen && (is.ECCErrors > was.ECCErrors || is.RowsFailing && !was.RowsFailing):
		c.Verdict, c.Detail = check.Failed,
			fmt.Sprintf("%d uncorrectable memory errors came up under load: have the card replaced", is.ECCErrors-was.ECCErrors)
	case v["slowed"] > 0:
		c.Verdict, c.Detail = check.Warning, fmt.Sprintf("slowed by heat or power in %.0f %% of the time, at up to %.0f °C: "+
			"look at air flow and power", math.Ceil(v["slowed"]), v["celsius"])
	case v["speed"] < minShare*fastest:
		c.Verdict, c.Detail = check.Warning,
			fmt.Sprintf("%.4g TFLOP/s, and the fastest of its model %.4g: look at power limit, heat and clocks", v["speed"], fastest)
	case v["spread"] > unsteady:
		c.Verdict, c.Detail = check.Warning,
			fmt.Sprintf("the slowest second is %.0f %% below the fastest: somebody else computes too, or its clocks change", v["spread"])
	default:
		c.Detail = fmt.Sprintf("%.4g TFLOP/s", v["speed"])
		if v["celsius"] > 0 {
			c.Detail += fmt.Sprintf(", %.0f °C", v["celsius"])
		}
	}
	return c
}

// peers judges copies between GPUs: for each, the link that is worst of what it must reach.
func peers(node string, lines []Line, m Machine) []check.Check {
	uuids := map[int]string{}
	for _, l := range lines {
		if l.UUID != "" && l.GPU != nil {
			uuids[*l.GPU] = l.UUID
		}
	}
	worst := map[int]pair{}
	for _, l := range lines {
		if l.Peer == nil {
			continue
		}
		for _, ends := range [][2]int{{*l.GPU, *l.Peer}, {*l.Peer, *l.GPU}} {
			p := pair{ends[1], l, m.floor(uuids[ends[0]], uuids[ends[1]])}
			if old, ok := worst[ends[0]]; !ok || p.ratio() < old.ratio() {
				worst[ends[0]] = p
			}
		}
	}
	var out []check.Check
	for i := range len(uuids) {
		p, ok := worst[i]
		if !ok {
			continue
		}
		c := check.Check{Node: node, GPU: i, UUID: uuids[i], Name: string(Peers), Verdict: check.Passed}
		c.Detail = fmt.Sprintf("%.3g GB/s with GPU %d (%s)", p.line.Values["speed"], p.other, p.floor.Why)
		c.Measures = []check.Measure{{Name: string(Peers), Value: p.line.Values["speed"], Unit: "GB/s"}}
		switch {
		case p.line.problem() != "":
			c.Verdict, c.Detail = check.Failed, fmt.Sprintf("copying with GPU %d: %s", p.other, p.line.problem())
			if p.line.Error == "" {
				c.Detail += ": data is damaged on the way; look at the host's IOMMU and ACS settings, and at risers"
			} else {
				c.Measures = nil
			}
		case p.ratio() < 1:
			c.Verdict = check.Warning
			c.Detail += fmt.Sprintf(", below %.3g: look at slot, riser and NVLink bridge", p.floor.GBps)
		}
		out = append(out, c)
	}
	return out
}

// pair is a link of a GPU to another.
type pair struct {
	other int
	line  Line
	floor speedFloor
}

// ratio is how much of its floor a link reaches; damage is worse than any speed.
func (p pair) ratio() float64 {
	if p.line.problem() != "" {
		return -1
	}
	return p.line.Values["speed"] / p.floor.GBps
}

// floor is that of two GPUs of the node.
func (m Machine) floor(a, b string) speedFloor {
	one, known := gpu(m.Before, a)
	other, both := gpu(m.Before, b)
	link := nvidia.Link("")
	if known && both {
		link = m.Topology.Link(fmt.Sprintf("GPU%d", one.Index), fmt.Sprintf("GPU%d", other.Index))
	}
	return peerFloor(link, one.Link, other.Link)
}

// allReduce judges a sum over GPUs.
func allReduce(k Kind, node string, lines []Line, m Machine) []check.Check {
	c := check.Check{Node: node, GPU: check.WholeNode, Name: string(k), Verdict: check.Passed}
	var uuids []string
	var result *Line
	for i := range lines {
		if lines[i].UUID != "" {
			uuids = append(uuids, lines[i].UUID)
		} else if lines[i].GPU == nil {
			result = &lines[i]
		}
	}
	if result == nil {
		c.Verdict, c.Detail = check.Failed, "the first GPU left no result"
		return []check.Check{c}
	}
	floor := networkFloor(m.Mbit)
	if k == AllReduce {
		slowest := speedFloor{GBps: math.Inf(1)}
		for i := range uuids {
			for j := range i {
				if f := m.floor(uuids[j], uuids[i]); f.GBps < slowest.GBps {
					slowest = f
				}
			}
		}
		floor = allReduceFloor(slowest)
	}
	speed := result.Values["speed"]
	c.Measures = []check.Measure{{Name: string(k), Value: speed, Unit: "GB/s"}}
	c.Detail = fmt.Sprintf("%.3g GB/s (%s)", speed, strings.TrimSpace(floor.Why))
	switch {
	case result.problem() != "":
		c.Verdict, c.Detail = check.Failed, result.problem()+" in the sum: data is damaged on the way between the GPUs"
	case speed < floor.GBps:
		c.Verdict = check.Warning
		c.Detail += fmt.Sprintf(", below %.3g: look at ", floor.GBps) +
			map[Kind]string{AllReduce: "the links that peer-to-peer names", AcrossNodes: "the network between the nodes"}[k]
	}
	return []check.Check{c}
}
