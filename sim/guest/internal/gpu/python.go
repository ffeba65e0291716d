package gpu

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runPython is an interpreter with PyTorch and TensorFlow that plays the programs of package
// internal/bench: what they would say on these cards. Others do nothing.
func runPython(ctx context.Context, p *machine.Proc) int {
	if len(p.Args) < 3 || path.Dir(p.Args[1]) != "/bench" {
		return 0
	}
	b := &benchmark{Proc: p, about: map[int]string{}}
	if _, err := p.FS.Stat(p.Args[1]); err != nil {
		p.Printf("python3: can't open file '%s': [Errno 2] No such file or directory\n", p.Args[1])
		return 2
	}
	cards, failed := visible(p)
	want, _ := strconv.Atoi(p.Args[2])
	switch {
	case failed != nil:
		return b.fail(strings.TrimSpace(failed.text))
	case len(cards) != want:
		return b.fail(fmt.Sprintf("nvidia-smi sees %d GPUs, expected %d", len(cards), want))
	}
	b.cards = cards
	for i, c := range cards {
		b.about[i] = fmt.Sprintf(`"gpu":%d,"uuid":%q,"model":%q,"driver":%q,"memory":%d`, i, c.UUID, c.Name, LoadedVersion(p.Sys), c.memory)
	}
	is := func(ask func(machine.Faults) bool) bool { return p.Sys.Faulty(ask) }
	b.wrong = is(func(f machine.Faults) bool { return f.ComputesWrong })
	b.hot = is(func(f machine.Faults) bool { return f.ThrottlesOnLoad })
	b.slow = is(func(f machine.Faults) bool { return f.SlowLink })
	if is(func(f machine.Faults) bool { return f.CUDAFails }) {
		for i := range cards {
			b.say(`{%s,"error":"CUDA error: unspecified launch failure"}`, b.about[i])
		}
		return b.end(0)
	}
	return b.play(ctx, strings.TrimSuffix(path.Base(p.Args[1]), ".py"))
}

// benchmark is one run of a program.
type benchmark struct {
	*machine.Proc
	cards            []Card
	about            map[int]string // the start of each card's line
	wrong, hot, slow bool
	lines            []string
}

func (b *benchmark) say(format string, args ...any) {
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func (b *benchmark) end(code int) int {
	text := strings.Join(b.lines, "\n") + "\n"
	b.Printf("%s", text)
	_ = b.FS.WriteFile("/dev/termination-log", []byte(text), 0o666)
	return code
}

func (b *benchmark) fail(why string) int {
	b.say(`{"error":%q}`, why)
	return b.end(1)
}

func (b *benchmark) play(ctx context.Context, program string) int {
	took := 10 * time.Second
	if program == "burn" && len(b.Args) > 3 {
		took, _ = machine.Seconds(b.Args[3])
	}
	if err := b.Wait(ctx, took); err != nil {
		return 143
	}
	switch program {
	case "burn":
		if b.Sys.Faulty(func(f machine.Faults) bool { return f.XidUnderLoad }) {
			address, _, _ := strings.Cut(b.cards[0].Address, ".")
			b.Sys.Kmsg("NVRM: Xid (PCI:%s): 48, pid=4711, name=python3, DBE (double bit error) has occurred", address)
		}
		b.compute(`"spread":1.4,"celsius":%g,"watts":240,"slowed":%g`)
	case "compute_pytorch":
		b.compute(`"memory":1290`)
	case "compute_tensorflow":
		b.compute("")
	case "peers":
		b.peers()
	case "allreduce":
		if b.Args[3] == "0" {
			b.say(`{"values":{"speed":%g,"wrong":0}}`, b.allReduce())
		}
		for i := range b.cards {
			b.say(`{%s}`, b.about[i])
		}
	default:
		return b.fail(program + " is not simulated")
	}
	return b.end(0)
}

// compute says how each card computed. more has further values: of burn temperature and slowness.
func (b *benchmark) compute(more string) {
	for i := range b.cards {
		speed, celsius, slowed, wrong := 231.4+float64(i), 64.0, 0.0, 0
		if b.hot && i == 0 {
			speed, celsius, slowed = 142.0, 93.0, 71.0
		}
		if b.wrong && i == len(b.cards)-1 {
			wrong = 3
		}
		text := more
		if strings.Contains(more, "%g") {
			text = fmt.Sprintf(more, celsius, slowed)
		}
		b.say(`{%s,"values":{%s}}`, b.about[i], strings.TrimSuffix(fmt.Sprintf(`"speed":%g,"wrong":%d,%s`, speed, wrong, text), ","))
	}
}

func (b *benchmark) peers() {
	for i := range b.cards {
		b.say(`{%s}`, b.about[i])
		for j := i + 1; j < len(b.cards); j++ {
			speed := 21.8
			if b.slow && i == 0 {
				speed = 1.9
			}
			b.say(`{"gpu":%d,"peer":%d,"values":{"speed":%g,"direct":0,"wrong":0}}`, i, j, speed)
		}
	}
}

// allReduce is the bus bandwidth in a node, or of a network of 10 Gbit/s.
func (b *benchmark) allReduce() float64 {
	across := b.Args[4] != strconv.Itoa(len(b.cards))
	switch {
	case across && b.slow:
		return 0.011
	case across:
		return 0.94
	case b.slow:
		return 0.8
	}
	return 11.6
}

// smiTopology is "nvidia-smi topo -m": each card is behind a root port of its own, as QEMU's q35
// has them.
func smiTopology(p *machine.Proc) int {
	cards, failed := visible(p)
	if failed != nil {
		p.Printf("%s", failed.text)
		return failed.code
	}
	header := []string{""}
	for i := range cards {
		header = append(header, fmt.Sprintf("GPU%d", i))
	}
	p.Printf("%s\n", strings.Join(append(slices.Clone(header), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"), "\t"))
	for i := range cards {
		row := []string{fmt.Sprintf("GPU%d", i)}
		for j := range cards {
			row = append(row, map[bool]string{true: " X ", false: "PHB"}[i == j])
		}
		p.Printf("%s\n", strings.Join(append(row, fmt.Sprintf("0-%d", max(p.Sys.Config.CPUs, 1)-1), "0", "N/A"), "\t"))
	}
	p.Printf("\nLegend:\n\n  X    = Self\n  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n")
	return 0
}
